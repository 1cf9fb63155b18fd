package engine

import (
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/llm"
)

// tokenEvents gathers what a model writes into events of a useful size: one for
// each token would cost more than the token.
type tokenEvents struct {
	emit func(event.Event)
	mu   sync.Mutex
	text []byte
	last time.Time
}

const tokenInterval = 50 * time.Millisecond

// Chunk implements Live.
func (t *tokenEvents) Chunk(c llm.Chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, c.Text...)
	if now := time.Now(); len(t.text) > 0 && now.Sub(t.last) >= tokenInterval {
		t.last = now
		t.flush()
	}
}

// TurnEnd implements Live.
func (t *tokenEvents) TurnEnd(bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
}

func (t *tokenEvents) flush() {
	if len(t.text) > 0 {
		t.emit(event.Event{Type: event.Token, Text: string(t.text)})
		t.text = t.text[:0]
	}
}
