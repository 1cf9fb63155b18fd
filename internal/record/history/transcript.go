package history

import (
	"slices"

	"qq/internal/record/ledger"
	"qq/pkg/llm"
	"qq/pkg/session"
)

// Before returns what was said in the session of a prompt before it.
func (h History) Before(run ledger.Run) ([]llm.Message, error) {
	if run.Session == "" {
		return nil, nil
	}
	t, err := session.Of(h.home).Load(run.Session)
	own := slices.IndexFunc(t.Entries, func(e llm.Entry) bool { return isOf(run, e) })
	t.Entries = t.Entries[:max(own, 0)]
	return t.Messages(), err
}

// isOf reports whether a run has added an entry to its session.
func isOf(run ledger.Run, e llm.Entry) bool {
	if e.Run == "" { // written by an older qq
		return !e.Time.Before(run.Started) && (run.Ended.IsZero() || !e.Time.After(run.Ended))
	}
	return e.Run == run.ID
}

// Transcript reads the transcript of a job. That of a prompt is the part of its session that the prompt has added. The
// error wraps [session.ErrNotFound] if there is none: --ephemeral and --no-ledger keep none, an answer from the cache
// has none, and old ones are removed.
func (h History) Transcript(run ledger.Run) (session.Transcript, error) {
	if run.Session == "" {
		return session.Archive{Dir: ledger.Transcripts(h.home)}.Of(run.Root).Whole(run.ID)
	}
	t, err := session.Of(h.home).Whole(run.Session)
	t.Entries = slices.DeleteFunc(t.Entries, func(e llm.Entry) bool { return !isOf(run, e) })
	return t, err
}
