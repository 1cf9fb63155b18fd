package wire

import (
	"slices"
	"strings"
)

// IsTooLong reports whether text says that a prompt does not fit. The servers that say it by a class are known by that,
// see [llm.IsOverflow]. Of the others the status is 400 and the class is that of every bad request, so only the text
// tells them apart.
func IsTooLong(text string) bool {
	return slices.ContainsFunc([]string{
		"exceeds the context length",           // Ollama 0.17
		"exceeds the available context size",   // llama.cpp, and Ollama where it passes that on
		"maximum context length",               // vLLM, DeepSeek, OpenRouter
		"prompt is too long",                   // Anthropic
		"exceeds the maximum number of tokens", // Gemini
		"too large for model with",             // Mistral
	}, func(words string) bool { return strings.Contains(text, words) })
}
