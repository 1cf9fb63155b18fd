package servers

import (
	"strings"
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

func TestNoToolsIsAWord(t *testing.T) {
	s, err := Parse("lab", "openai http://10.0.0.7/v1 no-tools")
	require.NoError(t, err)
	assert.True(t, s.NoTools)
	assert.Equal(t, "openai http://10.0.0.7/v1 no-tools", s.String())
	_, err = Parse("lab", "openai http://10.0.0.7/v1 no-tools=1")
	assert.EqualError(t, err, "the option no-tools takes no value")
}

// TestNamesOfServers: what stands before the colon in the name of a model of Ollama's is no server, or a model that is
// named as Ollama names it would be asked for elsewhere.
func TestNamesOfServers(t *testing.T) {
	models := strings.Fields("llama2 llama3 llama3.1 llama3.2 llama3.3 llama4 llava codellama tinyllama mistral " +
		"mistral-nemo mistral-small mixtral codestral devstral magistral ministral-3 qwen " +
		"qwen2.5 qwen3 qwq qwen2.5-coder gemma gemma2 gemma3 gemini-3-flash-preview " +
		"codegemma phi phi3 phi4 deepseek-r1 deepseek-v3 deepseek-coder deepseek-llm " +
		"gpt-oss granite4 smollm2 command-r aya starcoder2 olmo2 falcon3 hermes3 nemotron " +
		"cogito glm4 kimi-k2 minimax-m2 llama3-groq-tool-use openchat orca-mini vicuna yi " +
		"solar dolphin3 nomic-embed-text bge-m3")
	for _, s := range BuiltIn() {
		assert.NotContains(t, models, s.Name)
	}
}
