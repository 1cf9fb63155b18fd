package jobs

import (
	"errors"
	"slices"
	"sync"
)

// maxUnread is how many messages may wait for an agent that does not read them.
const maxUnread = 64

// Mailbox holds the messages from other agents to the agent of one job. Messages that come while the
// job is queued are kept until it starts. An attempt begins with all messages that came before it,
// because the process that has read them is gone; of many messages, the newest are kept. The zero
// value is empty. Several goroutines may call its methods at once.
type Mailbox struct {
	mu    sync.Mutex
	kept  []string
	inbox chan string // of the attempt that runs; nil before the first one
}

// Put adds a message. It does not wait: if too many messages are unread, it returns an error.
func (m *Mailbox) Put(text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := errors.New("too many messages are unread: wait until some were read")
	if m.inbox == nil && len(m.kept) == maxUnread {
		return full
	}
	if m.inbox != nil {
		select {
		case m.inbox <- text:
		default:
			return full
		}
	}
	m.kept = append(m.kept[max(0, len(m.kept)+1-maxUnread):], text)
	return nil
}

// Open returns the inbox for the next attempt. The inbox of the attempt before it gets no more
// messages.
func (m *Mailbox) Open() <-chan string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inbox = make(chan string, maxUnread)
	m.kept = slices.Clip(m.kept)
	for _, text := range m.kept {
		m.inbox <- text
	}
	return m.inbox
}
