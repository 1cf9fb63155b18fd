package servers

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/ollama/ollama/envconfig"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseHost(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "http://127.0.0.1:11434",
		"  'example.com ' ":            "http://example.com:11434",
		"example.com:80":               "http://example.com:80",
		"http://example.com":           "http://example.com:80",
		"https://example.com":          "https://example.com:443",
		"https://example.com:56789/a/": "https://example.com:56789/a/",
		"example.com/ollama":           "http://example.com:11434/ollama",
		"ollama.com":                   "https://ollama.com:443",
		":56789":                       "http://127.0.0.1:56789",
		"http://":                      "http://127.0.0.1:80",
		"::1":                          "http://[::1]:11434",
		"[::1]":                        "http://[::1]:11434",
		"[::1]:1337":                   "http://[::1]:1337",
		"fe80::1%eth0":                 "http://[fe80::1%25eth0]:11434",
		"0.0.0.0":                      "http://127.0.0.1:11434",
		"0.0.0.0:8080":                 "http://127.0.0.1:8080",
		"[::]:8080":                    "http://[::1]:8080",

		"example.com:":          "",
		"example.com:0":         "",
		"example.com:65536":     "",
		"example.com:port":      "",
		"a:b:c":                 "",
		"[":                     "",
		"ftp://example.com":     "",
		"unix:///run/ollama":    "",
		"exa mple.com":          "",
		"http://me:pw@host:1":   "",
		"http://exam\x00ple:80": "",
	} {
		u, err := parseHost(in)
		if want == "" {
			require.ErrorContains(t, err, "OLLAMA_HOST", in)
			assert.ErrorContains(t, err, "HOST[:PORT]")
			assert.NotContains(t, err.Error(), "pw")
			continue
		}
		require.NoError(t, err, in)
		assert.Equal(t, want, u.String(), in)
	}
}

// canonical writes an address in one way. Ollama leaves one with a zone as it
// is written, its brackets included.
func canonical(host string) string {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().String()
	}
	return host
}

// Whatever is accepted is read as Ollama reads it.
func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"", "example.com:1/x", "https://[::1]", "0.0.0.0", "ollama.com", "http://a:b@c", "\"h\"",
		"fe80::1%eth0", "[a]", "http:///p", "x/[", "::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := parseHost(s)
		if err != nil {
			return
		}
		again, err := url.Parse(u.String())
		require.NoError(t, err)
		assert.Equal(t, u.Host, again.Host)
		if strings.ContainsRune(s, 0) {
			return // cannot be in an environment
		}
		t.Setenv("OLLAMA_HOST", s)
		want := envconfig.Host()
		assert.Equal(t, want.Scheme, u.Scheme)
		assert.Equal(t, want.Port(), u.Port())
		assert.Equal(t, want.Path, u.Path)
		if host := want.Hostname(); host != "" && reachable(host) == host {
			assert.Equal(t, canonical(host), canonical(u.Hostname()))
		}
	})
}
