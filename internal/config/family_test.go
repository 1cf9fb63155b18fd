package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
)

const labServer = "openai http://10.0.0.7:8000/v1"

// TestFamilies: each variable of a family is a setting of its own, wherever it is set, and the strongest source counts.
func TestFamilies(t *testing.T) {
	p := newPlace(t)
	p.write(userEnv, "QQ_SERVER_gpu='ollama gpu'\nQQ_SERVER_LAB='openai http://weak/v1'\nQQ_ALIAS_fast=gpu:small\n")
	c, err := p.load(map[string]string{"model": "fast"}, "QQ_SERVER_LAB="+labServer+" key=LAB_KEY context=9",
		"QQ_SERVER_OPENAI=openai http://127.0.0.1:9/v1", "QQ_ALIAS_Best=lab:big", "QQ_ALIAS_none_yet=none")
	require.NoError(t, err)
	all := c.AllServers()
	find := func(name string) servers.Server {
		i := slices.IndexFunc(all, func(s servers.Server) bool { return s.Name == name })
		require.GreaterOrEqual(t, i, 0, name)
		return all[i]
	}
	assert.Equal(t, servers.Server{Name: "lab", Kind: "openai", URL: "http://10.0.0.7:8000/v1", Context: 9, Own: true,
		KeyName: "LAB_KEY"}, find("lab"))
	assert.Equal(t, "http://127.0.0.1:9/v1", find("openai").URL, "a built-in name is replaced")
	assert.Empty(t, find("openai").KeyName, "with its key")
	assert.Equal(t, "gpu", find("gpu").URL)
	assert.Len(t, all, len(servers.BuiltIn())+2)
	assert.Equal(t, map[string]string{"fast": "gpu:small", "best": "lab:big"}, c.Aliases)
	assert.Equal(t, "fast", c.Model)
	known, aliases := c.Models()
	assert.Subset(t, known, []string{"lab", "gpu", "openai", "gemini"})
	assert.NotContains(t, known, "ollama")
	assert.Equal(t, []string{"best", "fast"}, aliases)
	assert.Equal(t, "environment", c.Source("QQ_SERVER_LAB"))
	assert.Equal(t, labServer+" key=LAB_KEY context=9", c.Value("QQ_SERVER_LAB"))
	assert.Contains(t, c.Source("QQ_SERVER_gpu"), ".config/qq/.env")
	assert.Contains(t, c.Environ(), "QQ_SERVER_LAB="+labServer+" key=LAB_KEY context=9")
	assert.Empty(t, c.Warnings)

	c, err = p.load(nil, "QQ_SERVER_="+labServer, "QQ_SERVER_a.b="+labServer, "QQ_SERVER_"+strings.Repeat("x", 33)+"=y",
		"QQ_SERVER_NAME=openai http://127.0.0.1:1/v1")
	require.NoError(t, err)
	assert.Len(t, c.Warnings, 3, "what cannot be the name of a server is no setting")
	assert.Len(t, c.Servers, 3)
}

// TestFamilyMistakes: what is wrong is said on one line, with what to do below it, and without the key.
func TestFamilyMistakes(t *testing.T) {
	const secret = "sk-Pr0j-ABCDEFGH12345678"
	p := newPlace(t)
	for _, c := range []struct{ env, problem, hint string }{
		{"QQ_SERVER_lab=openia http://a", "QQ_SERVER_lab (environment): openia is no kind of server",
			"did you mean openai? the kinds are ollama, openai, anthropic, gemini"},
		{"QQ_SERVER_lab=" + labServer + " contxt=9", "QQ_SERVER_lab (environment): contxt is no option",
			"did you mean context? the options are"},
		{"QQ_SERVER_lab=" + labServer + " key=" + secret, "QQ_SERVER_lab (environment): key= takes", "LAB_KEY"},
		{"QQ_SERVER_lab=" + labServer + " " + secret, "a word behind the address is no option", "a key is never"},
		{"QQ_SERVER_lab=openai https://u:" + secret + "@a/v1", "the address carries a user name, a password", ""},
		{"QQ_SERVER_lab=openai http://a\x01" + secret, "QQ_SERVER_lab (environment): it contains a control character", ""},
		{"QQ_SERVER_lab=openai http://a.example/v1 key=A", "the key would go over the internet without encryption", "plain"},
		{"QQ_SERVER_AUTO=" + labServer, "QQ_SERVER_AUTO (environment): auto is a word of qq itself", "take another"},
		{"QQ_SERVER_ollama=" + labServer, "ollama is the server at OLLAMA_HOST", "set OLLAMA_HOST"},
		{"QQ_SERVER_lab=" + labServer + "|QQ_SERVER_LAB=" + labServer, "another variable sets the server lab too",
			"capital letters do not count: keep one of them"},
		{"QQ_ALIAS_extract=ollama:x", "extract is a word of qq itself", ""},
		{"QQ_ALIAS_a=ollama:x|QQ_ALIAS_b=a", "b (environment) is \"a\": a is an alias itself",
			"write what it stands for: ollama:x"},
		{"QQ_ALIAS_a=ollama:x|QQ_ALIAS_A=ollama:y", "another variable sets the alias a too", "keep one of them"},
		{"QQ_ALIAS_a=openia:x", `QQ_ALIAS_a (environment) is "openia:x": it is no model that qq knows`,
			"did you mean openai:x? accepted is "},
		{"QQ_MODEL=openia:gpt-5", "it is no model that qq knows", "did you mean openai:gpt-5? accepted is auto, "},
		{"QQ_MODEL=gpt-5", "it is no model that qq knows", "or an alias; qq models lists the models of your servers"},
		{"QQ_MODEL=OpenAI:gpt-5", "it is no model that qq knows", "did you mean openai:gpt-5? "},
		{"QQ_MODEL=llama3.2:3b", `(a model of Ollama is written "ollama:llama3.2:3b")`, "accepted is auto"},
		{"QQ_MODEL=deepseek-r1:8b", `(a model of Ollama is written "ollama:deepseek-r1:8b")`, "accepted is auto"},
		{"QQ_MODEL=mistral:latest", `(a model of Ollama is written "ollama:mistral:latest")`, "accepted is auto"},
		{"QQ_MODEL=mistral:mistral-large", "it is no model that qq knows", "did you mean mistralai:mistral-large? "},
		{"QQ_MODEL=gpt-4o", `(a model of OpenAI is written "openai:gpt-4o")`, "accepted is auto"},
		{"QQ_MODEL=gpt-oss", `(a model of Ollama is written "ollama:gpt-oss")`, "accepted is auto"},
		{"QQ_MODEL=claude-sonnet-4-5", `is written "anthropic:claude-sonnet-4-5")`, "accepted is auto"},
		{"QQ_MODEL=gemini-2.5-flash", `is written "gemini:gemini-2.5-flash")`, "accepted is auto"},
		{"QQ_MODEL=openai/gpt-oss-20b", "behind the name of a server stands a colon, not a slash",
			"write openai:gpt-oss-20b, or openrouter:openai/gpt-oss-20b if OpenRouter serves it"},
		{"QQ_MODEL=ollama/qwen3:4b", "behind the name of a server stands a colon", "write ollama:qwen3:4b"},
		{"QQ_MODEL=hf.co/a/b:Q4", `is written "ollama:hf.co/a/b:Q4")`, "accepted is auto"},
		{"QQ_MODEL=openai", "it names no model of openai", "accepted is auto, extract, SERVER:NAME"},
		{"QQ_MODEL=openai:", "it names no model of openai", "; qq models list --server openai shows the names"},
		{"QQ_MODEL=lab:qwen", "it is no model that qq knows", "; if lab is a server of yours, set QQ_SERVER_lab"},
		{"QQ_MODEL=fst|QQ_ALIAS_fast=ollama:x", "it is no model that qq knows", "did you mean fast? "},
		{"QQ_MODEL=lap:x|QQ_SERVER_lab=" + labServer, "it is no model that qq knows", "did you mean lab:x? "},
	} {
		_, err := p.load(nil, strings.Split(c.env, "|")...)
		var bad *Error
		require.ErrorAs(t, err, &bad, c.env)
		assert.Contains(t, bad.Problem, c.problem, c.env)
		assert.Contains(t, bad.Hint, c.hint, c.env)
		assert.NotContains(t, bad.Hint, "QQ_SERVER_hf")
		if strings.HasPrefix(c.hint, "accepted") {
			assert.NotContains(t, bad.Hint, "did you mean", c.env)
		}
		assert.NotEmpty(t, bad.Hint)
		assert.NotContains(t, err.Error(), "ABCDEFGH", c.env)
		assert.Equal(t, 1, strings.Count(err.Error(), "\n"), c.env)
	}
}

// TestFamilyOfCheckout: a checkout names no server and no model elsewhere before it is trusted, and its file is
// another one when a line is added.
func TestFamilyOfCheckout(t *testing.T) {
	p := newPlace(t)
	p.write(userEnv, "QQ_SERVER_lab='"+labServer+"'\nQQ_ALIAS_fast=ollama:mine\n")
	p.write("work/.env", "QQ_SERVER_lab='openai https://evil.example/v1 key=AWS_SECRET_KEY'\nQQ_SERVER_NAME='ollama h'\n"+
		"QQ_SERVER_far='openai https://u:secret@evil.example/v1 key_cmd=cat ~/.netrc'\nQQ_ALIAS_fast=lab:big\nQQ_MODEL=far:x\n")
	c, err := p.load(nil)
	require.NoError(t, err, "what it defines is not looked at")
	assert.Equal(t, []CheckoutSetting{
		{Name: "QQ_SERVER_NAME", Value: "ollama h"},
		{Name: "QQ_SERVER_far", Value: "openai https://(hidden)@evil.example/v1 key_cmd=cat ~/.netrc"},
		{Name: "QQ_SERVER_lab", Value: "openai https://evil.example/v1 key=AWS_SECRET_KEY"},
		{Name: "QQ_ALIAS_fast", Value: "lab:big"},
	}, c.Claims)
	assert.Equal(t, []any{"auto", "http://10.0.0.7:8000/v1", "ollama:mine"},
		[]any{c.Model, c.Servers[0].URL, c.Aliases["fast"]})
	assert.Len(t, c.Servers, 1)
	_, err = c.Trust()
	require.ErrorContains(t, err, "QQ_SERVER_far (.env): the address carries a user name")
	assert.NotContains(t, err.Error(), "secret")

	p.write("work/.env", "QQ_SERVER_far='openai https://evil.example/v1'\nQQ_MODEL=far:x\n")
	c, err = p.load(nil)
	require.NoError(t, err)
	sum := c.DotEnvSum()
	assert.Len(t, sum, 64)
	assert.Equal(t, "auto", c.Model)
	trusted, err := c.Trust()
	require.NoError(t, err)
	assert.Equal(t, "far:x", trusted.Model)
	p.write("work/.env", "QQ_SERVER_far='openai https://evil.example/v1'\nQQ_MODEL=far:x\nQQ_ALIAS_a=far:y\n")
	c, err = p.load(nil)
	require.NoError(t, err)
	assert.NotEqual(t, sum, c.DotEnvSum())
	assert.Len(t, c.Claims, 2)

	p.write("work/.env", "QQ_MODEL=nowhere:x\n")
	_, err = p.load(nil)
	assert.ErrorContains(t, err, "it is no model that qq knows", "a mistake is one as before")
}

// TestKeys: a key comes from the environment or from the user's own file, never from a checkout; nobody inherits it.
func TestKeys(t *testing.T) {
	p := newPlace(t)
	p.write(userEnv, "LAB_PASS=from-the-file\nQQ_SERVER_lab='"+labServer+" key=LAB_PASS'\n")
	p.write("work/.env", "LAB_PASS=theirs-theirs\nOTHER=theirs\nQQ_RETRIES=1\n")
	c, err := p.load(nil)
	require.NoError(t, err)
	assert.Equal(t, "from-the-file", c.Secret("LAB_PASS"))
	assert.Empty(t, c.Secret("OTHER"))
	env := []string{"LAB_PASS=from-the-shell", "COPY=from-the-shell ", "A=b", "OPENAI_API_KEY=none", "NONE=none",
		"EMPTY="}
	c, err = p.load(nil, env...)
	require.NoError(t, err)
	assert.Equal(t, "from-the-shell", c.Secret("LAB_PASS"))
	assert.Equal(t, []string{"A=b", "NONE=none", "EMPTY="}, c.Keyless(env))
	c, err = p.load(nil, "QQ_RECURSION_DEPTH=1", "HERE=x")
	require.NoError(t, err)
	assert.Empty(t, c.Secret("LAB_PASS"), "the command of an agent gets none")
	assert.Equal(t, "x", c.Secret("HERE"), "but what somebody gave it")
}
