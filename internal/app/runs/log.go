package runs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/record/ledger"
	"qq/pkg/llm"
	"qq/pkg/session"
)

// showLog prints the transcript of a run, and how the run ended.
func (r runs) showLog(run ledger.Run, o layout) error {
	t, err := transcript(run, o.Home)
	if errors.Is(err, session.ErrNotFound) {
		return command.Usagef("--ephemeral and --no-ledger keep none, and an answer from the cache has none; "+
			"qq runs show prints its result", "%s has no transcript", run.ID)
	}
	if err != nil {
		return err
	}
	if o.JSON {
		return output.WriteJSON(r.Out, t)
	}
	head := fmt.Sprintf("run %s, agent %s, model %s, in %s", run.ID, run.Agent, t.Header.Model, t.Header.Dir)
	end := "status: " + o.status(run)
	if run.Error != "" {
		end += ": " + strings.TrimSpace(command.Printable(run.Error))
	}
	text := output.Spelled(head) + "\n" + output.Transcript(t.Entries) + "\n" + end
	for _, d := range t.Damaged {
		r.Say("%s", d)
	}
	return o.write(r.Out, strings.Split(text, "\n"))
}

// transcript reads the transcript of a run. That of a prompt is the part of its session that the run
// has added.
func transcript(run ledger.Run, home string) (session.Transcript, error) {
	if run.Session == "" {
		return session.Archive{Dir: ledger.Transcripts(home)}.Of(run.Root).Load(run.ID)
	}
	t, err := session.Of(home).Load(run.Session)
	t.Entries = slices.DeleteFunc(t.Entries, func(e llm.Entry) bool {
		return e.Time.Before(run.Started) || !run.Ended.IsZero() && e.Time.After(run.Ended)
	})
	return t, err
}
