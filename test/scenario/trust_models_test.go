package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// newModelWorld is a world whose user works with a server of Ollama, and has named others: far, which speaks chat
// completions, with the alias fast for its model, and box, which is another one of Ollama.
func newModelWorld(t *testing.T, scripts ...standin.Script) (w *trustWorld, far *keyServer) {
	t.Helper()
	w = newTrustWorld(t)
	w.own = standin.Start(t, standin.Scripts(scripts...))
	far = startKeyServer(t, "far", nil)
	far.key = ""
	w.settings("OLLAMA_HOST=" + w.own.URL + "\nQQ_MODEL=ollama:stand-in\nQQ_RETRIES=0\nQQ_ALIAS_fast=far:m\n" +
		"QQ_SERVER_far='openai " + far.url + "'\nQQ_SERVER_BOX='ollama " + w.theirs.URL + "'\n")
	return w, far
}

// gone reports whether text has left the user's own server, and forgets it.
func (w *trustWorld) gone(far *keyServer) bool {
	far.mu.Lock()
	defer far.mu.Unlock()
	left := len(far.asked) > 0 || len(w.theirs.Requests("/api/chat")) > 0
	far.asked = nil
	w.theirs.Forget()
	return left
}

// TestTrustServers: a checkout chooses no server, no alias and no model elsewhere before it is trusted, whatever it
// says, and whether the user has named that server or the checkout does.
func TestTrustServers(t *testing.T) {
	helper := func(model string) map[string]string {
		text := "---\ndescription: helps\ntools: []\nmodel: " + model + "\n---\nHelp.\n"
		return map[string]string{".qq/agents/helper.md": text}
	}
	dotEnv := func(lines string) map[string]string { return map[string]string{".env": lines} }
	for name, tt := range map[string]struct {
		files  map[string]string
		args   []string
		shown  string // by qq trust
		warned string
	}{
		"its server": {dotEnv("QQ_SERVER_its='openai FAR'\nQQ_MODEL=its:m\n"), nil,
			".env: QQ_MODEL=its:m (sends text to another machine)\n",
			"QQ_SERVER_its in .env is ignored: it sends text to another machine, and this folder is not trusted"},
		"your server": {dotEnv("QQ_SERVER_ollama2='openai FAR'\nQQ_SERVER_far='openai FAR/'\nQQ_MODEL=far:m\n"), nil,
			".env: QQ_SERVER_far=openai http://", "QQ_SERVER_far in .env is ignored"},
		"your server by its name": {dotEnv("QQ_MODEL=far:m\n"), nil, "QQ_MODEL=far:m (sends", "QQ_MODEL in .env"},
		"your other Ollama":       {dotEnv("QQ_MODEL=box:stand-in\n"), nil, "=box:stand-in (sends", "QQ_MODEL in"},
		"your alias":              {dotEnv("QQ_MODEL=fast\n"), nil, "QQ_MODEL=fast (sends", "QQ_MODEL in .env"},
		"its alias": {dotEnv("QQ_ALIAS_usual=far:m\nQQ_MODEL=usual\n"), nil,
			".env: QQ_ALIAS_usual=far:m (sends text to another machine)\n", "QQ_ALIAS_usual in .env is ignored"},
		"its alias for another": {
			dotEnv("QQ_ALIAS_usual=fast\nQQ_SERVER_cmd='openai FAR key_cmd=echo stolen'\nQQ_MODEL=cmd:m"), nil,
			"key_cmd=echo stolen (runs a command, and sends text to another machine)", "QQ_SERVER_cmd in .env is"},
		"agent":                   {helper("far:m"), []string{"-a", "helper"}, `model: "far:m"`, "the model of .qq"},
		"agent by alias":          {helper("fast"), []string{"-a", "helper"}, `model: "fast"`, "the model of .qq"},
		"agent with other Ollama": {helper("BOX:x"), []string{"-a", "helper"}, `model: "BOX`, "the model of .qq"},
	} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", batch), func(t *testing.T) {
				w, far := newModelWorld(t)
				for file, text := range tt.files {
					w.file(file, strings.ReplaceAll(text, "FAR", far.url))
				}
				args := append([]string{"hello"}, tt.args...)
				if batch {
					args = append([]string{"batch", "--no-bar", w.file("tasks.txt", "hello\n")}, tt.args...)
				}
				e := w.qq(args...)
				assert.Equal(t, 0, e.code)
				assert.False(t, w.gone(far), "nobody trusts it")
				assert.Contains(t, e.stderr, tt.warned)
				e = w.qq("trust", "--yes")
				assert.Contains(t, e.stdout, tt.shown)
				if name == "its alias for another" {
					assert.Equal(t, 2, e.code, "what is wrong is not trusted")
					assert.Contains(t, e.stderr, "usual (.env) is \"fast\": fast is an alias itself")
					return
				}
				require.Equal(t, 0, e.code)
				e = w.qq(args...)
				if name == "agent with other Ollama" { // names are as they are written
					assert.NotEqual(t, 0, e.code)
					assert.Contains(t, e.stderr, "did you mean box:x?")
					return
				}
				assert.Equal(t, 0, e.code)
				assert.True(t, w.gone(far), "it is trusted")
				assert.NotContains(t, e.stderr, "ignored")
			})
		}
	}
}

// TestTrustAddedServer: a line for a server that is added to a trusted .env makes it another file.
func TestTrustAddedServer(t *testing.T) {
	w, far := newModelWorld(t)
	w.file(".env", "QQ_MODEL=far:m\n")
	require.Equal(t, 0, w.qq("trust", "--yes").code)
	w.qq("hello")
	assert.True(t, w.gone(far))
	w.file(".env", "QQ_MODEL=far:m\nQQ_ALIAS_unused=far:m\n")
	e := w.qq("hello")
	assert.False(t, w.gone(far))
	assert.Contains(t, e.stderr, ".env has changed since you trusted it")
}

// TestDelegatedModel: an agent chooses no model elsewhere for those whom it asks, unless a person named that model: for
// the run, by an alias, or in the definition of an agent.
func TestDelegatedModel(t *testing.T) {
	for name, tt := range map[string]struct {
		model, own string // an agent of the user has the model own
		allowed    bool
	}{
		"nobody named it":       {"far:m", "", false},
		"another one is named":  {"far:m", "far:other", false},
		"another server":        {"box:stand-in", "far:m", false},
		"an agent has it":       {"far:m", "far:m", true},
		"an agent by a tag":     {"box:stand-in", "box:stand-in:latest", true},
		"the alias of a person": {"fast", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w, far := newModelWorld(t, standin.Script{Start: "[[lead]]", Text: `[[asked]] <tool_call>{"name":` +
				`"delegate_task","arguments":{"agent":"explorer","task":"x","model":"` + tt.model + `"}}</tool_call>`},
				standin.Script{Start: "[[asked]]", Text: "Asked."})
			if tt.model != "fast" {
				w.settings("OLLAMA_HOST=" + w.own.URL + "\nQQ_MODEL=ollama:stand-in\nQQ_RETRIES=0\n" +
					"QQ_SERVER_far='openai " + far.url + "'\nQQ_SERVER_box='ollama " + w.theirs.URL + "'\n")
			}
			if tt.own != "" {
				dir := filepath.Join(w.dir, "config", "qq", "agents")
				require.NoError(t, os.MkdirAll(dir, 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.md"),
					[]byte("---\ndescription: d\ntools: []\nmodel: "+tt.own+"\n---\nx\n"), 0o600))
			}
			e := w.qq("[[lead]]", "--auto-approve", "--json")
			assert.Equal(t, tt.allowed, w.gone(far))
			if !tt.allowed {
				assert.Contains(t, string(w.own.Requests("/api/chat")[1].Body), "no person named it")
				far.mu.Lock()
				defer far.mu.Unlock()
				assert.Zero(t, far.looked, "no server is asked")
				assert.Contains(t, e.stdout, "no person named it", "in the warnings")
			}
		})
	}
}
