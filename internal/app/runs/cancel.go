package runs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/control"
	"qq/internal/record/ledger"
	"qq/internal/record/ledger/alive"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// target is what qq runs cancel ends: a job, or a whole run.
type target struct {
	id   string      // the full one
	job  *jobs.Job   // nil for a whole run, and for a job whose root has no socket
	root ledger.Root // that works on it
	path string      // of the socket of the root; empty if nobody replies there
}

// shortest is how many characters of an id must be given to cancel something.
const shortest = 4

func (r runs) cancelRun(c *cli.Context) error {
	return r.oneRun(c, func(led *ledger.Ledger, id string, o layout) error {
		if len(id) < shortest { // an empty variable of a script would end the only run
			return command.Usagef("qq runs list --live shows them", "cancel %q: an id has at least %d characters", id,
				shortest)
		}
		recorded, root, err := led.Owner(id)
		if err != nil && !errors.Is(err, ledger.ErrNone) {
			return err
		}
		roots := look(o.Home, root)
		t, err := choose(id, target{id: recorded, root: root}, matching(roots, id))
		if err == nil {
			err = t.end(led, roots)
		}
		if err != nil {
			return err
		}
		return t.print(r.Out, o)
	})
}

// openingTime is how long a root may take from its start until its socket is open.
const openingTime = time.Second

// look asks all roots that can be reached. It waits a moment for the socket of a root that has just
// started.
func look(home string, root ledger.Root) []control.Standing {
	for {
		roots := control.Look(home)
		opened := slices.ContainsFunc(roots, func(s control.Standing) bool { return s.ID == root.ID })
		if opened || time.Since(root.Started) > openingTime {
			return roots
		}
		time.Sleep(openingTime / 20)
	}
}

// matching returns the runs and jobs at work whose id is id, or begins or ends with it.
func matching(roots []control.Standing, id string) (found []target) {
	for _, s := range roots {
		if s.Err != nil {
			continue
		}
		of := s.Root
		root := ledger.Root{ID: of.ExecutionID, PID: of.PID, Started: of.Started, Dir: of.Dir, Command: of.Command}
		ids := map[string]*jobs.Job{of.BatchID: nil}
		for _, j := range s.Jobs {
			ids[j.ExecutionID] = &j.Job
		}
		ids[of.ExecutionID] = nil // it has a job of its own, if it is a prompt
		for whole, job := range ids {
			if whole != "" && (strings.HasPrefix(whole, id) || strings.HasSuffix(whole, id)) {
				found = append(found, target{whole, job, root, s.Path})
			}
		}
	}
	return found
}

// choose returns the only target that id can mean: recorded, which the ledger knows, or one of live,
// which the roots themselves know. It is an error if there are none or several.
func choose(id string, recorded target, live []target) (target, error) {
	same := func(t target) bool { return t.id == recorded.id }
	if recorded.id != "" && !slices.ContainsFunc(live, same) {
		live = append(live, recorded)
	}
	if exact := slices.IndexFunc(live, func(t target) bool { return t.id == id }); exact >= 0 {
		return live[exact], nil
	}
	switch len(live) {
	case 0:
		const hint = "qq runs list --live shows what is; to cancel a run of another QQ_HOME, set that"
		return target{}, command.Usagef(hint, "cancel %s: no run at work has this id", id)
	case 1:
		return live[0], nil
	}
	return target{}, command.Usagef(fmt.Sprintf("use more of it: %s, %s …", live[0].id, live[1].id),
		"cancel %s: several ids begin or end so", id)
}

// end tells the root to end t. If the root does not listen, a signal ends the whole run.
func (t target) end(led *ledger.Ledger, roots []control.Standing) error {
	if t.path != "" {
		c, err := control.Dial(t.path)
		if err == nil {
			err = c.Cancel(t.id)
			c.Close()
		}
		if fault, ok := errors.AsType[*control.Fault](err); ok && fault.Code == control.CodeUnknownJob {
			return t.ended()
		}
		if err == nil || t.job != nil {
			return err
		}
	}
	if _, err := led.Find(t.id); err != nil && t.id != t.root.ID {
		return t.unreachable(roots)
	}
	err := led.Terminate(t.root)
	if errors.Is(err, alive.ErrEnded) {
		return command.Usagef("it has just ended, or runs on another machine or in a container: cancel it there",
			"cancel %s: process %d is not its root", t.id, t.root.PID)
	}
	return err
}

func (t target) ended() error {
	return command.Usagef("qq runs show "+t.id+" tells how it ended", "cancel %s: it does not run any more", t.id)
}

// unreachable returns why the root of a job cannot be told to end it.
func (t target) unreachable(roots []control.Standing) error {
	why := "has no control socket: it is older than this qq, could not make one, or runs on another machine"
	for _, s := range roots {
		switch {
		case s.ID != t.root.ID:
		case s.Err == nil:
			return t.ended() // between the two looks
		default:
			var hint string
			if why, hint = task.Explain(s.Err); hint != "" {
				return s.Err // the root refuses
			}
			why = "does not answer: " + why
		}
	}
	return task.Hinted(fmt.Sprintf("qq runs cancel %s ends the whole run", task.ShortID(t.root.ID)),
		"cancel %s: its root, process %d, %s", t.id, t.root.PID, why)
}

// print prints what was told to end.
func (t target) print(w io.Writer, o layout) error {
	if t.job != nil {
		if o.JSON {
			return output.WriteJSON(w, struct {
				Cancelled jobs.Job    `json:"cancelled"`
				Root      ledger.Root `json:"root"`
			}{*t.job, t.root})
		}
		text := fmt.Sprintf("told %s %s to end, and all that it started: %s", o.brief(t.job.Agent, 16), short(t.id),
			o.text(t.job.Task))
		return o.write(w, []string{text})
	}
	if o.JSON {
		return output.WriteJSON(w, struct {
			Cancelled ledger.Root `json:"cancelled"`
		}{t.root})
	}
	what := "qq"
	if t.root.Command == "batch" {
		what = "qq batch"
	}
	where := ""
	if t.root.Dir != "" {
		where = " in " + output.OneLine(t.root.Dir)
	}
	text := fmt.Sprintf("told %s%s to end, process %d, and with it all that it started", what, where, t.root.PID)
	return o.write(w, []string{text})
}
