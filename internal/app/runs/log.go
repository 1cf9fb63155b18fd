package runs

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/app/output/transcript"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/llm"
	"qq/pkg/session"
)

// Bounds of a log for people. With --json there are none.
const (
	maxLogged = 100               // jobs
	maxNested = 6                 // how far a job is indented
	indent    = "    "            // of a job below another one
	noLog     = "(no transcript)" // in the place of one that is not there
)

// logged is the JSON of a log: a job with its transcript and those of the jobs that it has handed on.
type logged struct {
	Run *ledger.Run `json:"run,omitempty"`
	session.Transcript
	Batch *ledger.BatchRow `json:"batch,omitempty"`
	Jobs  []logged         `json:"jobs,omitempty"`
}

// showLog prints the transcripts of a run and of all its jobs, and how each ended.
func (r runs) showLog(h history.History, id string, o layout) error {
	run, err := h.Run(id)
	if err != nil {
		return fmt.Errorf("show %w", err)
	}
	run.Sort()
	if o.JSON {
		return r.logJSON(h, run)
	}
	l := &logText{runs: r, from: h, layout: o}
	for _, j := range run.Jobs {
		if err := l.job(j, 0); err != nil {
			return err
		}
	}
	if l.left > 0 {
		l.add(0, fmt.Sprintf("(%d more jobs: qq runs tree %s shows them, and qq runs show ID --log each)", l.left,
			output.OneLine(run.ID)))
	}
	return o.write(r.Out, l.lines)
}

// noTranscript is the error for a run without any transcript.
func noTranscript(id string) error {
	return command.Usagef("qq runs show prints its result; --ephemeral and --no-ledger keep none, "+
		"an answer from the cache has none, and qq sessions rm and prune remove it", "%s has no transcript", id)
}

// logJSON prints a log for programs.
func (r runs) logJSON(h history.History, run history.Run) error {
	var tree func(jobs []*history.Job) ([]logged, int, error)
	tree = func(jobs []*history.Job) (all []logged, kept int, err error) {
		for _, j := range jobs {
			t, err := h.Transcript(j.Run)
			if err == nil {
				kept++
			} else if !errors.Is(err, session.ErrNotFound) {
				return nil, 0, err
			}
			below, n, err := tree(j.Jobs)
			if err != nil {
				return nil, 0, err
			}
			if t.Entries == nil {
				t.Entries = []llm.Entry{}
			}
			all, kept = append(all, logged{Run: &j.Run, Transcript: t, Jobs: below}), kept+n
		}
		return all, kept, nil
	}
	all, kept, err := tree(run.Jobs)
	if err == nil && kept == 0 {
		err = noTranscript(run.ID)
	}
	switch {
	case err != nil:
		return err
	case run.Batch != nil:
		return output.WriteJSON(r.Out, struct {
			Batch *ledger.BatchRow `json:"batch"`
			Jobs  []logged         `json:"jobs"`
		}{run.Batch, all})
	}
	return output.WriteJSON(r.Out, all[0])
}

// logText writes a log for people. A job stands, indented, in the transcript of the job that handed it on: before the
// first result that came after its start. So jobs that ran at once follow each other, and are not mixed.
type logText struct {
	runs
	layout
	from  history.History
	lines []string
	shown int // jobs
	left  int // jobs that were too many
}

// add adds text at that depth. It is clean.
func (l *logText) add(depth int, text string) {
	before := strings.Repeat(indent, min(depth, maxNested))
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		l.lines = append(l.lines, strings.TrimRight(before+line, " "))
	}
}

func (l *logText) job(j *history.Job, depth int) error {
	if l.shown++; l.shown > maxLogged {
		l.left++
		return l.jobs(j.Jobs, depth)
	}
	t, err := l.from.Transcript(j.Run)
	missing := errors.Is(err, session.ErrNotFound)
	if err != nil && !missing {
		return err
	}
	if missing && depth == 0 && j.Batch == "" && len(j.Jobs) == 0 {
		return noTranscript(j.ID)
	}
	for _, d := range t.Damaged {
		l.Say("%s", d)
	}
	if len(l.lines) > 0 {
		l.add(0, "")
	}
	head := fmt.Sprintf("run %s, agent %s, model %s", j.ID, j.Agent, cmp.Or(j.Model, t.Header.Model))
	if t.Header.Dir != "" {
		head += ", in " + t.Header.Dir
	}
	l.add(depth, figures.Spelled(head))
	if missing {
		l.add(depth, noLog)
	}
	if err := l.entries(j, t.Entries, depth); err != nil {
		return err
	}
	l.add(depth, "\nstatus: "+command.Printable(said(l.status(j.Run), j.Error)))
	return nil
}

// entries adds those of a job, each with the jobs that were started before it.
func (l *logText) entries(j *history.Job, entries []llm.Entry, depth int) error {
	var ends []string
	for _, a := range j.Earlier {
		ends = append(ends, said(string(a.Status), a.Error))
	}
	below := j.Jobs
	for _, e := range entries {
		n := 0
		for e.Role == llm.ToolRole && n < len(below) && !below[n].Started.After(e.Time) {
			n++
		}
		if err := l.jobs(below[:n], depth+1); err != nil {
			return err
		}
		below = below[n:]
		l.add(depth, output.Bounded(transcript.Text([]llm.Entry{e}, ends)))
	}
	return l.jobs(below, depth+1)
}

func (l *logText) jobs(jobs []*history.Job, depth int) error {
	for _, j := range jobs {
		if err := l.job(j, depth); err != nil {
			return err
		}
	}
	return nil
}

// said returns a status with the error, if there is one.
func said(status, problem string) string {
	if problem = strings.TrimSpace(problem); problem == "" {
		return status
	}
	return status + ": " + problem
}
