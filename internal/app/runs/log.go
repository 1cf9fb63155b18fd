package runs

import (
	"cmp"
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

// showLog prints the transcript of a run, and how the run ended. attempts are those before the last.
func (r runs) showLog(run ledger.Run, attempts []ledger.AttemptRow, o layout) error {
	t, err := transcript(run, o.Home)
	if errors.Is(err, session.ErrNotFound) {
		return command.Usagef("qq runs show prints its result; --ephemeral and --no-ledger keep none, "+
			"an answer from the cache has none, and qq sessions rm and prune remove it", "%s has no transcript", run.ID)
	}
	if err != nil {
		return err
	}
	if o.JSON {
		return output.WriteJSON(r.Out, t)
	}
	for _, d := range t.Damaged {
		r.Say("%s", d)
	}
	var ends []string
	for _, a := range attempts {
		ends = append(ends, said(string(a.Status), a.Error))
	}
	head := fmt.Sprintf("run %s, agent %s, model %s, in %s", run.ID, run.Agent, cmp.Or(run.Model, t.Header.Model),
		t.Header.Dir)
	text := output.Spelled(head) + "\n" + output.Transcript(t.Entries, ends) + "\nstatus: " +
		command.Printable(said(o.status(run), run.Error))
	return o.write(r.Out, strings.Split(text, "\n"))
}

// said returns a status with the error, if there is one.
func said(status, problem string) string {
	if problem = strings.TrimSpace(problem); problem == "" {
		return status
	}
	return status + ": " + problem
}

// transcript reads the transcript of a run. That of a prompt is the part of its session that the run
// has added.
func transcript(run ledger.Run, home string) (session.Transcript, error) {
	if run.Session == "" {
		return session.Archive{Dir: ledger.Transcripts(home)}.Of(run.Root).Load(run.ID)
	}
	t, err := session.Of(home).Load(run.Session)
	t.Entries = slices.DeleteFunc(t.Entries, func(e llm.Entry) bool {
		if e.Run == "" { // written by an older qq
			return e.Time.Before(run.Started) || !run.Ended.IsZero() && e.Time.After(run.Ended)
		}
		return e.Run != run.ID
	})
	return t, err
}
