package agent

import (
	"sync"
	"time"
	"unicode/utf8"

	"qq/internal/agent/loop"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
)

// TokenEvents is a Screen that sends the text of a model as events. It sends at most one in
// each tokenInterval while text arrives, because an event for each token would cost more
// than the token.
type TokenEvents struct {
	To   supervisor.Report
	Next loop.Screen // also shows the text; may be nil
	mu   sync.Mutex
	text []byte
	last time.Time
}

const (
	tokenInterval = 50 * time.Millisecond
	// maxTokenText is how many bytes of text one event has at most.
	maxTokenText = 64 << 10
)

// Chunk implements loop.Screen.
func (t *TokenEvents) Chunk(c llm.Chunk) {
	if t.Next != nil {
		t.Next.Chunk(c)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, c.Text...)
	if now := time.Now(); len(t.text) > maxTokenText || len(t.text) > 0 && now.Sub(t.last) >= tokenInterval {
		t.last = now
		t.flush()
	}
}

// TurnEnd implements loop.Screen.
func (t *TokenEvents) TurnEnd(final bool) {
	if t.Next != nil {
		t.Next.TurnEnd(final)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
}

func (t *TokenEvents) flush() {
	for len(t.text) > 0 {
		n := min(len(t.text), maxTokenText)
		for n < len(t.text) && !utf8.RuneStart(t.text[n]) {
			n--
		}
		t.To.Emit(event.Event{Type: event.Token, Text: string(t.text[:n])})
		t.text = t.text[:copy(t.text, t.text[n:])]
	}
}
