package agent

import (
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
)

// TokenEvents is a Screen that sends the text of a model as events. It sends at most one in
// each tokenInterval while text arrives, because an event for each token would cost more
// than the token.
type TokenEvents struct {
	To   supervisor.Report
	mu   sync.Mutex
	text []byte
	last time.Time
}

const tokenInterval = 50 * time.Millisecond

// Chunk implements loop.Screen.
func (t *TokenEvents) Chunk(c llm.Chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, c.Text...)
	if now := time.Now(); len(t.text) > 0 && now.Sub(t.last) >= tokenInterval {
		t.last = now
		t.flush()
	}
}

// TurnEnd implements loop.Screen.
func (t *TokenEvents) TurnEnd(bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
}

func (t *TokenEvents) flush() {
	if len(t.text) > 0 {
		t.To.Emit(event.Event{Type: event.Token, Text: string(t.text)})
		t.text = t.text[:0]
	}
}
