// Package listing reads how servers other than Ollama list their models.
package listing

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Entry is a model as servers other than Ollama list it. What they say of it, and how that is called, differs.
type Entry struct {
	ID     string `json:"id"`   // of chat completions and Anthropic
	Gemini string `json:"name"` // of Gemini, with "models/" before it
	// The size of its context: OpenRouter, vLLM, Groq and LM Studio, Mistral, Anthropic, Gemini, llama.cpp.
	ContextLength    int `json:"context_length"`
	MaxModelLen      int `json:"max_model_len"`
	ContextWindow    int `json:"context_window"`
	MaxContextLength int `json:"max_context_length"`
	MaxInputTokens   int `json:"max_input_tokens"`
	InputTokenLimit  int `json:"inputTokenLimit"`
	Meta             struct {
		Size    int64 `json:"size"`
		Context int   `json:"n_ctx"` // newer ones
	} `json:"meta"` // llama.cpp
	Owner string `json:"owned_by"` // of those like OpenAI, what serves the model, such as llamacpp
	// MaxTokens and OutputTokenLimit are the longest answer: Anthropic, Gemini.
	MaxTokens        int `json:"max_tokens"`
	OutputTokenLimit int `json:"outputTokenLimit"`
	// Parameters are what OpenRouter takes for the model.
	Parameters []string `json:"supported_parameters"`
	// Methods are what Gemini offers for the model.
	Methods  []string `json:"supportedGenerationMethods"`
	Thinking bool     `json:"thinking"` // Gemini
	// What servers call by the same name is not the same: these are read where they are as expected.
	Created      json.RawMessage `json:"created"`      // seconds: OpenAI and those like it
	Capabilities json.RawMessage `json:"capabilities"` // Anthropic, Mistral
	Architecture json.RawMessage `json:"architecture"` // OpenRouter
}

// Abilities are what Anthropic, Mistral and OpenRouter say that a model can do.
type Abilities struct {
	Chat      *bool `json:"completion_chat"`  // Mistral
	Functions *bool `json:"function_calling"` // Mistral
	Vision    *bool `json:"vision"`           // Mistral
	Images    struct {
		Supported *bool `json:"supported"`
	} `json:"image_input"` // Anthropic
	Inputs []string `json:"input_modalities"` // OpenRouter
}

// Abilities returns what the server says that the model can do.
func (e Entry) Abilities() (a Abilities) {
	for _, said := range []json.RawMessage{e.Capabilities, e.Architecture} {
		if err := json.Unmarshal(said, &a); err != nil {
			continue // another server says something else there
		}
	}
	if e.Parameters != nil {
		a.Functions = new(slices.Contains(e.Parameters, "tools"))
	}
	if a.Vision = cmp.Or(a.Vision, a.Images.Supported); a.Inputs != nil {
		a.Vision = new(slices.Contains(a.Inputs, "image"))
	}
	return a
}

// Name returns the name by which requests name the model.
func (e Entry) Name() string {
	if e.ID != "" {
		return e.ID
	}
	return strings.TrimPrefix(e.Gemini, "models/")
}

// embedding is how OpenAI and LM Studio begin the names of models that cannot chat.
const embedding = "text-embedding-"

// Chats reports whether the model answers chats, as far as the server says. a is what it can do.
func (e Entry) Chats(a Abilities) bool {
	return (e.Methods == nil || slices.Contains(e.Methods, "generateContent")) && (a.Chat == nil || *a.Chat) &&
		!strings.HasPrefix(e.Name(), embedding)
}

// Context returns how many tokens the context of the model has; 0 is unknown.
func (e Entry) Context() int {
	size := max(e.ContextLength, e.MaxModelLen, e.ContextWindow, e.MaxContextLength, e.MaxInputTokens,
		e.InputTokenLimit, e.Meta.Context, 0)
	if size > 1<<30 {
		return 0 // implausible
	}
	return size
}

// Longest returns how many tokens an answer may have; 0 is unknown.
func (e Entry) Longest() int { return max(e.MaxTokens, e.OutputTokenLimit, 0) }

// Made returns when the model was made; the zero time is unknown.
func (e Entry) Made() (t time.Time) {
	if seconds, err := strconv.ParseInt(string(e.Created), 10, 64); err == nil {
		return time.Unix(seconds, 0)
	}
	return t
}
