package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

func TestPromptTokensCountsAllOfIt(t *testing.T) {
	long := strings.Repeat("word ", 100)
	parts := llm.Request{
		System: long,
		Messages: []llm.Message{
			{Content: long}, {Thinking: long},
			{Calls: []tool.Call{{Name: "x", Arguments: json.RawMessage(`"` + long + `"`)}}},
		},
		Tools: []tool.Spec{{Description: long, Parameters: json.RawMessage(`"` + long + `"`)}},
	}
	assert.InDelta(t, 600, PromptTokens(parts), 80)
}
