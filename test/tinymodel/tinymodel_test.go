package tinymodel

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func numbered(n int) []Script {
	scripts := make([]Script, n)
	for i := range scripts {
		scripts[i] = Script{Start: fmt.Sprintf("[[%d]]", i), Text: fmt.Sprintf("this is text %d of many", i)}
	}
	return scripts
}

// TestBytes guards restructurings: what a model says hangs on every weight. When
// a change is meant, let the tests of ollamatest pass and put in the new sums.
func TestBytes(t *testing.T) {
	control := []string{"<|user|>", "<|system|>", "<|tool|>"}
	for _, tt := range []struct {
		name, sum string
		write     func(io.Writer, Spec) error
		spec      Spec
	}{
		{"empty", "d18b60a531f69a7e", Scripted, Spec{}},
		{"delegation", "51ca4f1d9e251bef", Scripted, Spec{
			Control: control, Reply: "<|assistant|>", Default: "[[hello]]",
			Scripts: []Script{
				{Start: "[[hello]]", Text: "Hello there. Größe 你好 🙂 done."},
				{Start: "[[fan]]",
					Text: `<tool_call>{"name": "delegate_task", "arguments": {"task": "Write a line. ` +
						`[[poem]]"}}</tool_call>`},
				{Start: "[[poem]]", Text: "The sea is blue. [[sum]]"},
				{Start: "[[sum]]", Text: "Both are done."},
				{Start: "[[silent]]"},
			},
		}},
		{"loops, tokens, short context", "427b6088eefcc054", Scripted, Spec{
			Context: 512, Control: control, Reply: "<|assistant|>",
			Scripts: []Script{
				{Start: "[[loop]]", Text: "tick tock", Loop: true},
				{Start: "[[stuck]]", Text: "no", Loop: true},
				{Start: "[[cut]]", Tokens: []string{"a", "bc", "a", " d e"}},
			},
		}},
		{"no reply token", "86b5805e8c18883d", Scripted, Spec{Scripts: numbered(3)}},
		{"more scripts than a head", "fc239972bb918fc8", Scripted,
			Spec{Control: control, Reply: "<|assistant|>", Scripts: numbered(150)}},
		{"random", "cbaf74525ed2510e", Random, Spec{Control: control, Seed: 7}},
		{"random qwen3", "2c5830df187374df", Random, Spec{Arch: "qwen3", Context: 1024, Seed: 8}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := sha256.New()
			require.NoError(t, tt.write(h, tt.spec))
			assert.Equal(t, tt.sum, fmt.Sprintf("%x", h.Sum(nil)[:8]))
		})
	}
}

func TestBadSpecs(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		spec       Spec
	}{
		{"architecture", `scripted model: architecture "qwen3" is not llama`, Spec{Arch: "qwen3"}},
		{"same start", `scripted model: two scripts start with "[[a]]"`,
			Spec{Scripts: []Script{{Start: "[[a]]", Text: "b"}, {Start: "[[a]]", Text: "c"}}}},
		{"default", `scripted model: default "[[b]]" is not the start of a script`,
			Spec{Reply: "<|r|>", Default: "[[b]]", Scripts: []Script{{Start: "[[a]]"}}}},
		{"default is a byte", `scripted model: default "x" is not the start of a script`,
			Spec{Reply: "<|r|>", Default: "x"}},
		{"reply starts a script", `scripted model: token "<|r|>" has two successors`,
			Spec{Reply: "<|r|>", Default: "<|r|>", Scripts: []Script{{Start: "<|r|>"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.EqualError(t, Scripted(io.Discard, tt.spec), tt.want)
		})
	}
}

func TestChunks(t *testing.T) {
	for text, want := range map[string][]string{
		"":         nil,
		"one":      {"one"},
		"a bc  d ": {"a", " bc", " ", " d", " "},
		" x":       {" x"},
	} {
		assert.Equal(t, want, chunks(text), "%q", text)
	}
}

// TestPrivateTokens reads like one word but are two tokens, so that a word can
// have a successor for each place where it stands.
func TestPrivateTokens(t *testing.T) {
	v := newVocab()
	a, b := v.addPrivate("the"), v.addPrivate("the")
	assert.NotEqual(t, a, b)
	assert.Equal(t, "the", v.text[a])
	assert.Equal(t, "the"+nul, v.text[b])
	assert.Equal(t, "Ġ"+nul, v.text[v.addPrivate(" ")], "not the token of the byte")
}

type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.left {
		return d.left, errors.New("disk full")
	}
	d.left -= len(p)
	return len(p), nil
}

func TestWriteErrors(t *testing.T) {
	var whole bytes.Buffer
	require.NoError(t, Scripted(&whole, Spec{}))
	for _, left := range []int{0, whole.Len() / 2, whole.Len() - 1} {
		assert.ErrorContains(t, Scripted(&fullDisk{left}, Spec{}), "disk full")
	}
	assert.ErrorContains(t, writeGGUF(io.Discard, []kv{{"k", 1i}}, nil), "no encoding for complex128")
	assert.ErrorContains(t, writeGGUF(io.Discard, nil, []tensor{{"x", []uint64{2, 2}, make([]float32, 3)}}),
		"3 values for dims [2 2]")
}
