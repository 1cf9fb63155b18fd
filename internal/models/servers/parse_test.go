package servers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	const lab = "http://10.0.0.7:8000/v1"
	for in, want := range map[string]Server{
		"openai " + lab:                               {Kind: OpenAI, URL: lab},
		"  openai\t" + lab + "  key=LAB_KEY ":         {Kind: OpenAI, URL: lab, KeyName: "LAB_KEY"},
		"openai " + lab + " key=lab_key context=4096": {Kind: OpenAI, URL: lab, KeyName: "lab_key", Context: 4096},
		"anthropic https://a.example key=A1_KEY":      {Kind: Anthropic, URL: "https://a.example", KeyName: "A1_KEY"},
		"gemini https://a.example/v1beta context=1":   {Kind: Gemini, URL: "https://a.example/v1beta", Context: 1},
		"ollama gpu":               {Kind: Ollama, URL: "gpu"},
		"ollama gpu:11434 key=KEY": {Kind: Ollama, URL: "gpu:11434", KeyName: "KEY"},
		"openai " + lab + " key_cmd=pass show a=b  key": {Kind: OpenAI, URL: lab, KeyCommand: "pass show a=b  key"},
		"openai " + lab + " key_cmd=f key_cmd=g":        {Kind: OpenAI, URL: lab, KeyCommand: "f key_cmd=g"},
		"openai http://a.example/v1 plain key=KEY":      {Kind: OpenAI, URL: "http://a.example/v1", KeyName: "KEY", Plain: true},
	} {
		want.Name = "lab"
		s, err := Parse("lab", in)
		require.NoError(t, err, in)
		assert.Equal(t, want, s, in)
	}
}

// secret looks like a key. No message shows any of it.
const secret = "sk-Pr0j-ABCDEFGH12345678"

// TestMistakes: each mistake of a person has a line that says what is wrong, and one that says what to do.
func TestMistakes(t *testing.T) {
	const lab = "openai http://10.0.0.7:8000/v1 "
	for _, c := range []struct{ in, problem, hint string }{
		{"", "the kind of the server is missing", "begin with what it speaks (ollama, openai, anthropic, gemini), for"},
		{"http://10.0.0.7:8000/v1 key=K", "the kind of the server is missing", "for example: openai http://"},
		{"openia http://a", "openia is no kind of server", "the kinds are ollama, openai"},
		{secret + " http://a", "it does not begin with a kind of server", "the kinds are"},
		{"OpenAI http://a", "it does not begin with a kind of server", "the kinds are"},
		{"openai", "the address is missing", "write it behind the kind, for example: openai http://"},
		{"openai key=LAB_KEY", "the address is missing", ""},
		{"openai key_cmd=pass http://a", "the address is missing", ""},
		{"openai plain", "the address is missing", ""},
		{"openai 10.0.0.7:8000/v1", "the address has no http:// or https://", "for example: openai http://"},
		{"openai lab:8000/v1", "the address has no http:// or https://", ""},
		{"openai " + secret, "the address has no http:// or https://", ""},
		{"openai ftp://a/v1", "the address is no URL with http:// or https://", ""},
		{"openai http://a:99999/v1", "the address is no URL with http:// or https://", ""},
		{"openai http:///v1", "the address is no URL with http:// or https://", ""},
		{"ollama ftp://a", "the address is no host", "write HOST, HOST:PORT, or a URL with http or https"},
		{"openai https://me:" + secret + "@a.example/v1", "the address carries a user name, a password or a query",
			"a key is given by key=MY_LAB_KEY"},
		{"ollama me:" + secret + "@gpu", "the address carries a user name, a password or a query", ""},
		{"openai https://a.example/v1?key=" + secret, "the address carries a user name, a password or a query", ""},
		{"openai https://a.example/v1/chat/completions", "the address ends in the path of one request", "leave that path"},
		{"anthropic https://a.example/v1/messages/", "the address ends in the path of one request", ""},
		{lab + "key=" + secret, "key= takes the name of an environment variable, not the key", "write key=MY_LAB_KEY"},
		{lab + "key=gsk_" + secret[8:] + "abc", "key= takes the name of an environment variable, not the key", ""},
		{lab + "key=AKIAIOSFODNN7EXAMPLEXYZ", "key= takes the name of an environment variable, not the key", ""},
		{lab + "key=", "key= takes the name of an environment variable, not the key", ""},
		{lab + "key", "key= takes the name of an environment variable, not the key", ""},
		{lab + "key=1A", "key= takes the name of an environment variable, not the key", ""},
		{lab + "context=0", "context= takes a number of tokens, from 1 on", "for example context=32768"},
		{lab + "context=32k", "context= takes a number of tokens, from 1 on", ""},
		{lab + "context=-1", "context= takes a number of tokens, from 1 on", ""},
		{lab + "context=9999999999999", "context= takes a number of tokens, from 1 on", ""},
		{"ollama gpu context=1", "context= is not for Ollama, which says it itself", "leave it out"},
		{lab + "contxt=8", "contxt is no option",
			"the options are key=, context=, vision, no-tools, plain, key_cmd=; a key is never"},
		{lab + secret, "a word behind the address is no option", "a key is never written here"},
		{lab + secret + "=x", "a word behind the address is no option", ""},
		{lab + "plain=yes", "the option plain takes no value", "write plain alone"},
		{lab + "key=A key=B", "key stands there twice", "leave one of them out"},
		{lab + "context=1 context=2", "context stands there twice", ""},
		{lab + "key=A key_cmd=pass", "key= and key_cmd= both say where the key is", "leave one of them out"},
		{lab + "key_cmd= ", "behind key_cmd= there is no command", "for example key_cmd=pass show lab"},
	} {
		_, err := Parse("my-lab", c.in)
		var m *Mistake
		require.ErrorAs(t, err, &m, c.in)
		assert.Equal(t, c.problem, m.Problem, c.in)
		assert.Contains(t, m.Hint, c.hint, c.in)
		assert.NotEmpty(t, m.Hint, c.in)
		said := m.Problem + m.Hint + m.Word + Shown(c.in)
		assert.NotContains(t, said, secret[8:], c.in)
		assert.NotContains(t, said, "\n")
	}
	for _, name := range []string{"auto", "extract", "none", "ollama"} {
		assert.Error(t, CheckName(name))
		_, err := Parse(name, lab)
		assert.Error(t, err, name)
	}
}

// TestClear: a key does not go over the internet for everybody to read, unless a person allows it.
func TestClear(t *testing.T) {
	for address, refused := range map[string]bool{
		"http://127.0.0.1:8000/v1": false, "http://localhost/v1": false, "http://[::1]:80": false, "http://10.1.2.3": false,
		"http://192.168.1.4": false, "http://172.16.0.1": false, "http://[fd00::1]": false, "http://100.64.1.2": false,
		"http://gpu:8000": false, "http://gpu.lan": false, "http://gpu.LOCAL.": false, "http://a.b.internal": false,
		"http://nas.home.arpa": false, "http://169.254.1.1": false, "http://[::ffff:10.0.0.1]": false,
		"https://a.example/v1": false, "https://8.8.8.8": false,

		"http://a.example/v1": true, "http://8.8.8.8": true, "http://172.32.0.1": true, "http://[2001:db8::1]": true,
		"http://api.openai.com/v1": true, "http://local.example": true, "http://[::ffff:8.8.8.8]": true,
		"http://lan.example.": true, "http://100.128.0.1": true, "http://home.arpa.example": true,
	} {
		for _, key := range []string{" key=K", " key_cmd=pass"} {
			_, err := Parse("lab", "openai "+address+key)
			if !refused {
				assert.NoError(t, err, address)
				continue
			}
			var m *Mistake
			require.ErrorAs(t, err, &m, address)
			assert.Equal(t, "the key would go over the internet without encryption", m.Problem)
			assert.Contains(t, m.Hint, "https://, or add the option plain")
			_, err = Parse("lab", "openai "+address+" plain"+key)
			assert.NoError(t, err, address)
		}
		_, err := Parse("lab", "openai "+address)
		assert.NoError(t, err, "without a key it can go anywhere")
	}
	_, err := Parse("gpu", "ollama a.example key=K")
	assert.Error(t, err)
	for _, s := range BuiltIn() {
		u, err := s.Address()
		require.NoError(t, err)
		assert.False(t, s.KeyName != "" && overheard(u), s.Name)
	}
}

func TestShown(t *testing.T) {
	for in, want := range map[string]string{
		"openai http://a/v1 key=LAB_KEY context=5 plain": "openai http://a/v1 key=LAB_KEY context=5 plain",
		"openai http://a/v1 key_cmd=pass show  x":        "openai http://a/v1 key_cmd=pass show  x",
		"openai http://a/v1 key=" + secret:               "openai http://a/v1 key=(hidden)",
		"openai http://a/v1 " + secret + " x=" + secret:  "openai http://a/v1 (hidden) (hidden)",
		"openai http://me:" + secret + "@a/v1":           "openai http://(hidden)@a/v1",
		"ollama me:" + secret + "@gpu":                   "ollama (hidden)@gpu",
		"openai https://a/v1?key=" + secret:              "openai https://a/v1",
		"openai key=" + secret:                           "openai key=(hidden)",
		"http://a key=" + secret:                         "http://a key=(hidden)",
		"":                                               "",
	} {
		assert.Equal(t, want, Shown(in), in)
	}
}

// TestBuiltIn: no server has the name of a model of Ollama's, which agents name without a server: mistral:7b would
// go to another machine.
func TestBuiltIn(t *testing.T) {
	models := []string{"mistral", "gemma", "llama3", "qwen3", "deepseek-r1", "phi4", "codellama", "gpt-oss"}
	for _, s := range BuiltIn() {
		assert.NotContains(t, models, s.Name)
	}
}

// FuzzServer: what is accepted is whole, reads back as it was, and what is not is said without what may be a key.
func FuzzServer(f *testing.F) {
	for _, s := range []string{"openai http://10.0.0.7:8000/v1 key=LAB_KEY", "ollama gpu:11434 context=1",
		"gemini https://a",
		"anthropic https://a.example/v1 context=200000 plain key_cmd=pass show a", "openai http://a@b key=x", "x", "",
		"openai https://[::1]:8080/v1 key=A key=B", "openai http://[fe80::1%25eth0]/v1", "ollama key_cmd=x"} {
		f.Add("lab", s)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		Shown(text)
		s, err := Parse(name, text)
		if err != nil {
			m, ok := err.(*Mistake)
			require.True(t, ok)
			assert.NotEmpty(t, m.Hint)
			return
		}
		assert.Contains(t, Kinds(), s.Kind)
		u, err := s.Address()
		require.NoError(t, err)
		assert.NotEmpty(t, u.Hostname())
		assert.Nil(t, u.User)
		assert.Empty(t, u.RawQuery)
		assert.True(t, s.KeyName == "" || s.KeyCommand == "")
		assert.False(t, s.KeyName+s.KeyCommand != "" && !s.Plain && overheard(u))
		again, err := Parse(name, s.String())
		require.NoError(t, err, "%q", s)
		if s.KeyCommand != "" {
			assert.NotContains(t, strings.TrimSuffix(s.String(), "key_cmd=…"), "key_cmd=")
			again.KeyCommand = s.KeyCommand
		}
		assert.Equal(t, s, again)
	})
}
