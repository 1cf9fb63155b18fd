package models

import (
	"qq/internal/models/dialect"
	"qq/pkg/llm"
)

// Room returns how many tokens of a document fit into the context of m besides the prompt r and an answer, at least
// 1. 0 means that the size of the context is unknown.
func (m Model) Room(r llm.Request) int {
	if m.Context == 0 {
		return 0
	}
	answer := min(answerTokens(m, r), m.Context/4)
	return max(1, int(float64(m.Context-answer)/margin)-dialect.PromptTokens(r))
}
