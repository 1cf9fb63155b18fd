package callid

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMistral(t *testing.T) {
	assert.Equal(t, "AbCdE1234", Mistral("AbCdE1234"))
	assert.Equal(t, Mistral("call_1"), Mistral("call_1"))
	assert.NotEqual(t, Mistral("call_1"), Mistral("call_2"))
	for _, id := range []string{"", "a", "toolu_01A09q90qw90lq917835lq9", "é12345678", "call_1234"} {
		assert.Regexp(t, "^[a-zA-Z0-9]{9}$", Mistral(id))
	}
}

func TestAnthropic(t *testing.T) {
	assert.Equal(t, "call-1_zZ09", Anthropic("call-1_zZ09"))
	assert.Equal(t, "a_b__c_____", Anthropic("a.b::c{@[`/"))
}
