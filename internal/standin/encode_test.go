package standin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func FuzzWords(f *testing.F) {
	f.Add("a b  c ")
	f.Add(" ")
	f.Fuzz(func(t *testing.T, s string) {
		assert.Equal(t, s, strings.Join(words(s), ""))
	})
}

func TestSample(t *testing.T) {
	for format, want := range map[string]string{
		`"json"`: `{}`,
		`{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["a"]}`: `{"a":"sample text"}`,
		`{"type":["null","string"]}`:                               `null`,
		`{"type":"integer"}`:                                       `1`,
		`{"const":[1]}`:                                            `[1]`,
		`{"type":"array","minItems":2}`:                            `[1,1]`,
		`{"type":"array","items":{"type":"number"}}`:               `[]`,
		`{"type":"object","required":["x"],"properties":{"x":{}}}`: `{"x":{}}`,
	} {
		assert.Equal(t, want, sample(json.RawMessage(format)), format)
	}
}
