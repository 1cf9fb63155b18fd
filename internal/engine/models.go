package engine

import (
	"qq/internal/models"
	"qq/pkg/llm"
)

// connected is a model that an agent can ask.
type connected struct {
	models.Model
	llm.Backend
}

// Tokens implements agent.Model.
func (connected) Tokens(text string) int { return models.Tokens(text) }
