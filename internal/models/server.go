package models

import (
	"fmt"
	"net/url"

	"qq/internal/models/dialect"
	"qq/internal/models/servers"
)

// anthropicHost is the host of Anthropic's own servers.
const anthropicHost = "api.anthropic.com"

// dialectOf returns how the server s at base is spoken to.
func dialectOf(s servers.Server, base *url.URL) (dialect.Dialect, error) {
	switch s.Kind {
	case servers.Ollama:
		return dialect.Ollama{}, nil
	case servers.OpenAI:
		return dialect.OpenAI{Vendor: dialect.VendorAt(base.Hostname())}, nil
	case servers.Anthropic:
		return dialect.Anthropic{Own: base.Hostname() == anthropicHost}, nil
	case servers.Gemini:
		return dialect.Gemini{}, nil
	}
	return nil, fmt.Errorf("no model server of kind %q", s.Kind)
}
