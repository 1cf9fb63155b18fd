package agent

import (
	"cmp"
	"sync"
	"time"
	"unicode/utf8"

	"qq/internal/agent/loop"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
)

// TokenEvents is a Screen that sends the text of a model as events. It sends at most one in
// each interval while text arrives, because an event for each token would cost more
// than the token.
type TokenEvents struct {
	To   supervisor.Report
	Next loop.Screen // also shows the text; may be nil
	// Unwatched says that nobody is known to read the text: one event a second will do, and what is left at the end of
	// the turn is in the transcript.
	Unwatched bool
	mu        sync.Mutex
	text      []byte
	last      time.Time // of the last event; or, unwatched, when the turn began
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
	now, interval := time.Now(), tokenInterval
	if t.Unwatched {
		interval, t.last = unwatchedFor+tokenInterval, cmp.Or(t.last, now)
	}
	t.text = append(t.text, c.Text...)
	if len(t.text) > maxTokenText || len(t.text) > 0 && now.Sub(t.last) >= interval {
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
	if t.Unwatched {
		t.text, t.last = nil, time.Time{}
	}
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
