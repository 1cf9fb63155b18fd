package session

import (
	"errors"
	"strings"

	"qq/pkg/llm"
)

// Choice says which session a run continues. The zero Choice begins a new one.
type Choice struct {
	ID        string // id of the session, or the beginning of the id
	Latest    bool   // continue the session last used in the working directory
	Ephemeral bool   // write no transcript
}

// Keeping writes the transcript of one run. An error in writing becomes only a warning, because the
// answer matters more than its transcript. If there is no transcript, Append does nothing.
type Keeping struct {
	ID       string        // id of the session; empty without a transcript
	History  []llm.Message // the messages so far
	Warnings []string      // for the user, one line each
	Run      string        // id of the execution that adds messages; empty in the transcript of a child
	attempt  int           // for the next message
	session  *Session
	user     User // nil if the warnings reach the user in another way
}

// User is told what is wrong with a transcript.
type User interface {
	// Say prints a line, with the arguments of [fmt.Sprintf].
	Say(format string, args ...any)
}

// Chosen returns c with the whole id of the session that it continues, if it continues one. dir is where Latest looks.
func (st *Store) Chosen(c Choice, dir string) (Choice, error) {
	var err error
	switch {
	case c.Ephemeral:
	case c.Latest:
		c.Latest = false
		c.ID, err = st.Latest(dir)
	case c.ID != "":
		c.ID, err = st.Find(c.ID)
	}
	return c, err
}

// Open begins or continues the transcript that c selects. h is the header of a new transcript, and
// its Dir is where Latest looks. user is told of damage and errors. If a new transcript cannot be
// created, that is only a warning; if an existing one cannot be continued, it is an error.
func (st *Store) Open(c Choice, h Header, user User) (*Keeping, error) {
	t := &Keeping{user: user}
	if c.Ephemeral {
		return t, nil
	}
	c, err := st.Chosen(c, h.Dir)
	if err != nil {
		return nil, err
	}
	if c.ID == "" {
		s, err := st.Create(h)
		if err != nil {
			t.warn(err)
			return t, nil
		}
		t.session, t.ID = s, s.ID()
		return t, nil
	}
	s, past, err := st.Continue(c.ID)
	if err != nil {
		return nil, err
	}
	for _, d := range past.Damaged {
		user.Say("session %s: %s", s.ID(), d)
	}
	t.History, t.session, t.ID = past.Messages(), s, s.ID()
	for _, lost := range recall(t.History) {
		t.warn(errors.New(lost))
	}
	return t, nil
}

// Keep begins or continues the transcript with the id of h. attempt is the number of the attempt that
// writes it, from 1. An error is only a warning.
func (st *Store) Keep(h Header, attempt int) *Keeping {
	t := &Keeping{ID: h.ID}
	if attempt > 1 {
		t.attempt = attempt
	}
	var err error
	if t.session, err = st.Begin(h); err != nil {
		t.warn(err)
	}
	return t
}

// Append adds e to the transcript. After an error it warns, and nothing more is written.
func (t *Keeping) Append(e llm.Entry) {
	if t.session == nil {
		return
	}
	e.Run, e.Attempt = t.Run, t.attempt
	t.attempt = 0 // the others belong to the same one
	if err := t.session.Add(e); err != nil {
		t.warn(err)
		t.Close()
	}
}

func (t *Keeping) warn(err error) {
	problem, _, _ := strings.Cut(err.Error(), "\n")
	text := "the transcript is incomplete: " + problem
	t.Warnings = append(t.Warnings, text)
	if t.user != nil {
		t.user.Say("%s", text)
	}
}

// Close closes the transcript. Further messages are dropped.
func (t *Keeping) Close() {
	if t.session == nil {
		return
	}
	_ = t.session.Close() // every message is in the file already
	t.session = nil
}
