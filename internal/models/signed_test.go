package models

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
)

// TestSigned: a server behind OLLAMA_AUTH gets the signature that it wants, in a
// chat as in a look-up; without a key nothing is sent.
func TestSigned(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("OLLAMA_AUTH", "1")
	var asked []*http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r)
		_, _ = w.Write([]byte(`{"version":"1","done":true}`))
	}))
	defer s.Close()
	c := clientAt(t, s.URL)
	request := func() (chat, version error) {
		_, chat = c.Backend(standIn, Options{}).Chat(t.Context(), ask("x"), ignore)
		_, version = c.Version(t.Context())
		return chat, version
	}
	chat, version := request()
	for _, err := range []error{chat, version} {
		assert.Contains(t, failure(t, err, llm.Rejected).Problem, "prepare request to Ollama at "+c.base.Host+": ")
	}
	assert.Empty(t, asked)

	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(home, ".ollama"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".ollama", "id_ed25519"),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	chat, version = request()
	require.NoError(t, chat)
	require.NoError(t, version)
	require.Len(t, asked, 2)
	for _, r := range asked {
		_, encoded, _ := strings.Cut(r.Header.Get("Authorization"), ":")
		signature, err := base64.StdEncoding.DecodeString(encoded)
		require.NoError(t, err)
		assert.True(t, ed25519.Verify(public, []byte(r.Method+","+r.URL.RequestURI()), signature), r.URL.RequestURI())
	}
}
