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

	"qq/pkg/llm"
	"qq/pkg/picture"
	"qq/pkg/tool"
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

// seen is a conversation about images: of the user, and of two results at once.
func seen() llm.Request {
	image := func(name, kind, data string) picture.Image {
		return picture.Image{Name: name, Type: kind, Bytes: len(data), Data: []byte(data)}
	}
	call := func(id, path string) tool.Call {
		return tool.Call{ID: id, Name: "read_file", Arguments: json.RawMessage(`{"path":"` + path + `"}`)}
	}
	result := func(id, text string, images ...picture.Image) llm.Message {
		return llm.Message{Role: llm.ToolRole, CallID: id, Tool: "read_file", Content: text, Images: images}
	}
	return llm.Request{
		System: "Look.",
		Messages: []llm.Message{
			{Role: llm.User, Content: "Which is like b.png or c.gif?", Images: []picture.Image{
				image("/w/a.png", "image/png", "A>?"), image("stdin", "image/jpeg", "\xff\xd8\xff"),
			}},
			{Role: llm.Assistant, Calls: []tool.Call{call("c1", "b.png"), call("c2", "n.txt"), call("c3", "c.gif")}},
			result("c1", "b.png: an image", image("/w/b.png", "image/png", "B")),
			result("c2", ""),
			result("c3", "", image("/w/c.gif", "image/gif", "C")),
			{Role: llm.User, Content: "Be quick."},
			{Role: llm.User, Images: []picture.Image{image("/w/d.webp", "image/webp", "D")}},
		},
	}
}

// Each server gets images in its own form: where the result of a tool cannot have any, they are said beside it.
func TestRequestsWithImages(t *testing.T) {
	for name, d := range dialects() {
		t.Run(name, func(t *testing.T) {
			request := seen()
			checkRequest(t, d, &Ask{Request: request, Model: "m", Context: 8192, Limit: 50}, name+"-images")
			assert.Equal(t, seen(), request, "the conversation stays as it is")
		})
	}
}

// Images of the last results are not forgotten, and nothing is copied where there are none.
func TestImagesBeside(t *testing.T) {
	all := seen().Messages
	out := imagesBeside(all[:5])
	require.Len(t, out, 6)
	assert.Equal(t, llm.User, out[5].Role)
	assert.Len(t, out[5].Images, 2)
	plain := conversation().Messages
	assert.Same(t, &plain[0], &imagesBeside(plain)[0])
	assert.Same(t, &all[0], &imagesBeside(all[:2])[0])
}

func TestImagesCount(t *testing.T) {
	with, without := seen(), seen()
	for i := range without.Messages {
		without.Messages[i].Images = nil
	}
	assert.Equal(t, PromptTokens(without)+5*ImageTokens, PromptTokens(with))
}
