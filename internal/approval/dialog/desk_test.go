package dialog

import (
	"context"
	"sync"

	"qq/internal/approval"
	"qq/pkg/tool"
)

// alone is a desk with one question.
type alone struct {
	question tool.Question

	mu     sync.Mutex
	answer approval.Answer
}

func (a *alone) Waiting() []tool.Question {
	if a.Over("") != nil {
		return nil
	}
	return []tool.Question{a.question}
}

func (a *alone) Changed() <-chan struct{} { return nil }

func (a *alone) Answer(_ string, answer approval.Answer, by string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
	return nil
}

func (a *alone) Shown(...string) {}

func (a *alone) PutOff(string) bool { return false }

func (a *alone) Over(string) *approval.OverError {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answer == "" {
		return nil
	}
	return &approval.OverError{Answer: a.answer, By: approval.ByTerminal}
}

// ask has p ask about q alone.
func ask(ctx context.Context, p *Terminal, q tool.Question) (approval.Answer, error) {
	desk := &alone{question: q}
	err := p.Ask(ctx, q, desk)
	return desk.answer, err
}
