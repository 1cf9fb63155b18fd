package dialect

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// dialects are all dialects, by the names of their files in testdata.
func dialects() map[string]Dialect {
	return map[string]Dialect{
		"ollama": Ollama{}, "openai": OpenAI{}, "anthropic": Anthropic{}, "gemini": Gemini{},
	}
}

// checkRequest compares the request of d for ask with the file of that name, byte by byte.
func checkRequest(t *testing.T, d Dialect, ask *Ask, name string) {
	t.Helper()
	path, body, err := d.Encode(ask)
	require.NoError(t, err)
	got := append([]byte(path+"\n"), body...)
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "go test -update writes it")
	assert.Equal(t, string(want), string(got))
	assert.True(t, json.Valid(bytes.TrimSpace(body)))
}

// A request without images is what it was before there were any, so that caches still know it.
func TestRequestsWithoutImages(t *testing.T) {
	for name, d := range dialects() {
		t.Run(name, func(t *testing.T) {
			checkRequest(t, d, &Ask{Request: conversation(), Model: "m", Context: 8192, Limit: 50}, name)
		})
	}
}
