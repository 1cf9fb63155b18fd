package tokens

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
		assert.Equal(t, want, Estimate(text), "%.20q", text)
		assert.Equal(t, want, Estimate([]byte(text)), "%.20q", text)
	}
}
