package models

import (
	"fmt"
	"net/url"

	"qq/internal/models/dialect"
	"qq/internal/models/servers"
)

// dialectOf returns how the server s at base is spoken to.
func dialectOf(s servers.Server, base *url.URL) (dialect.Dialect, error) {
	switch s.Kind {
	case servers.Ollama:
		return dialect.Ollama{}, nil
	case servers.OpenAI:
		return dialect.OpenAI{CompletionTokens: base.Hostname() == "api.openai.com"}, nil
	case servers.Anthropic:
		return dialect.Anthropic{}, nil
	case servers.Gemini:
		return dialect.Gemini{}, nil
	}
	return nil, fmt.Errorf("no model server of kind %q", s.Kind)
}
