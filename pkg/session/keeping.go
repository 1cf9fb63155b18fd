package session

import (
	"strings"

	"qq/pkg/llm"
)

// Choice says which transcript a run continues. The zero Choice begins a new one.
type Choice struct {
	ID        string // id of the session, or its beginning
	Latest    bool   // the last session used in the working directory
	Ephemeral bool   // no transcript at all
}

// Keeping writes the transcript of one run. An error only becomes a warning, because the
// answer matters more. Without a transcript, every message is dropped.
type Keeping struct {
	ID       string        // id of the session; empty without a transcript
	History  []llm.Message // the messages so far
	Warnings []string      // for the user, one line each
	session  *Session
	say      func(format string, args ...any)
}

// Open begins or continues the transcript that c selects. h is the header of a new
// transcript. say prints a line for the user about damage and errors.
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

// Append adds m to the transcript. After the first error nothing more is written.
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

// Close closes the transcript.
func (t *Keeping) Close() {
	if t.session == nil {
		return
	}
	_ = t.session.Close() // every message is in the file already
	t.session = nil
}
