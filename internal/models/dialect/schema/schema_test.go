package schema

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestClosed(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}}}`: `{"type":"object",` +
			`"additionalProperties":false,"properties":{"a":{"type":"array","items":{"type":"object",` +
			`"additionalProperties":false}}}}`,
		`{"type":"object","additionalProperties":true,"anyOf":[{"type":"object"}]}`: `{"type":"object",` +
			`"additionalProperties":true,"anyOf":[{"type":"object","additionalProperties":false}]}`,
		`{"type":"string","maximum":12345678901234567890}`: `{"type":"string","maximum":12345678901234567890}`,
	} {
		assert.JSONEq(t, want, string(Closed(json.RawMessage(text))), text)
	}
	assert.Contains(t, string(Closed(json.RawMessage(`{"maximum":12345678901234567890}`))), "12345678901234567890")
}

func TestIsObject(t *testing.T) {
	for text, want := range map[string]bool{`{"type":"object"}`: true, `{"type":["object"]}`: false, `{}`: false,
		`{"type":"array"}`: false, `[]`: false, ``: false} {
		assert.Equal(t, want, IsObject(json.RawMessage(text)), text)
	}
}
