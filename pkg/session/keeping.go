package session

import (
	"strings"

	"qq/pkg/llm"
)

// Choice says which transcript a run continues and keeps. The zero Choice begins
// one.
type Choice struct {
	ID        string // the one with this id, or whose id begins so
	Latest    bool   // the newest of the directory
	Ephemeral bool   // none
}

// Keeping is the transcript of one run while it is kept. Trouble with it is a warning: the answer
// matters more. A run without one has a Keeping that keeps nothing.
type Keeping struct {
	ID       string        // empty without one
	History  []llm.Message // what it continues
	Warnings []string
	session  *Session
	say      func(format string, args ...any)
}

// Open begins or continues the transcript that c asks for; h is what a new one
// says of itself, and say tells a person what is odd.
func (st *Store) Open(c Choice, h Header, say func(format string, args ...any)) (*Keeping, error) {
	t := &Keeping{say: say}
	if c.Ephemeral {
		return t, nil
	}
	id := c.ID
	if c.Latest {
		var err error
		if id, err = st.Latest(h.Dir); err != nil {
			return nil, err
		}
	}
	if id == "" {
		s, err := st.Create(h)
		if err != nil {
			t.warn(err)
			return t, nil
		}
		t.session, t.ID = s, s.ID()
		return t, nil
	}
	s, past, err := st.Continue(id)
	if err != nil {
		return nil, err
	}
	for _, d := range past.Damaged {
		t.say("session %s: %s", s.ID(), d)
	}
	t.History, t.session, t.ID = past.Messages(), s, s.ID()
	return t, nil
}

// Append adds m to the transcript. The first trouble ends the record.
func (t *Keeping) Append(m llm.Message) {
	if t.session == nil {
		return
	}
	if err := t.session.Append(m); err != nil {
		t.warn(err)
		t.Close()
	}
}

func (t *Keeping) warn(err error) {
	problem, _, _ := strings.Cut(err.Error(), "\n")
	text := "this run is not recorded: " + problem
	t.Warnings = append(t.Warnings, text)
	t.say("%s", text)
}

// Close ends the record.
func (t *Keeping) Close() {
	if t.session == nil {
		return
	}
	_ = t.session.Close() // what was appended is in the file already
	t.session = nil
}
