package servers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVisionIsAWord(t *testing.T) {
	s, err := Parse("lab", "openai http://10.0.0.7/v1 vision context=99 key_cmd=pass lab vision")
	require.NoError(t, err)
	assert.Equal(t, Server{Name: "lab", Kind: OpenAI, URL: "http://10.0.0.7/v1", Vision: true, Context: 99,
		KeyCommand: "pass lab vision"}, s)
	_, err = Parse("lab", "openai http://10.0.0.7/v1 vision=yes")
	assert.EqualError(t, err, "the option vision takes no value")
	_, err = Parse("lab", "openai http://10.0.0.7/v1 sight")
	assert.EqualError(t, err, "sight is no option")
}
