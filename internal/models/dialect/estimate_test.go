package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

func TestEstimate(t *testing.T) {
	for text, want := range map[string]int{
		"":                           0,
		"hello world":                2,
		"internationalization":       3,
		"1234567":                    3,
		"{\"a\": 1}":                 5,
		"if x {\n\t\treturn\n}":      6,
		"你好世界你":                      4,
		"naïve Größe":                2,
		"\xff\xfe":                   1,
		strings.Repeat("a ", 1000):   1000,
		"a" + strings.Repeat(" ", 9): 2,
	} {
		assert.Equal(t, want, estimate(text), "%.20q", text)
		assert.Equal(t, want, estimate([]byte(text)), "%.20q", text)
	}
}

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
