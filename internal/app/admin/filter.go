package admin

import (
	"slices"
	"strings"
	"time"

	"qq/internal/app/command"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// DefaultLimit is how many rows a list has unless --limit says otherwise.
const DefaultLimit = 20

// choice is the flags that choose among runs, as they were typed; what is empty
// excludes none.
type choice struct {
	Status string // some, with commas
	Agent  string
	Batch  string
	Since  string
	Before string
	Live   bool
	Limit  int // 0 is all
}

// filter reads the flags; now is what a time ago is counted from. Errors have a
// second line with a hint.
func (f choice) filter(now time.Time) (ledger.Filter, error) {
	to := ledger.Filter{Agent: strings.TrimSpace(f.Agent), Batch: strings.TrimSpace(f.Batch), Live: f.Live, Limit: f.Limit}
	if f.Limit < 0 {
		return to, command.Usagef("accepted is a whole number from 0 on; 0 is all", "--limit is %d", f.Limit)
	}
	var err error
	if to.Status, err = parseStatus(f.Status); err != nil {
		return to, err
	}
	if to.Since, err = command.ParseTime("--since", f.Since, now); err != nil {
		return to, err
	}
	if to.Until, err = command.ParseTime("--before", f.Before, now); err != nil {
		return to, err
	}
	if !to.Since.IsZero() && !to.Until.IsZero() && !to.Since.Before(to.Until) {
		return to, command.Usagef("--since is the earlier time", "nothing is both since %s and before %s", f.Since, f.Before)
	}
	return to, nil
}

func statuses() []task.Status {
	return []task.Status{task.Queued, task.Starting, task.Running, task.Waiting, task.Completed, task.Failed, task.Timeout, task.Idle,
		task.Cancelled, task.Refused, task.Interrupted, task.TurnLimit, task.Empty, task.Broken, task.NoResult, task.Killed,
		task.Unavailable, task.Limit, task.Misused, task.UnknownOutcome}
}

// parseStatus reads names of statuses with commas between them.
func parseStatus(s string) ([]task.Status, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var found []task.Status
	for word := range strings.SplitSeq(s, ",") {
		name := task.Status(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(word)), "-", "_"))
		if !slices.Contains(statuses(), name) {
			all := make([]string, len(statuses()))
			for i, known := range statuses() {
				all[i] = string(known)
			}
			return nil, command.Usagef("accepted is, with commas between them: "+strings.Join(all, ", "), "--status has no %q", word)
		}
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found, nil
}

// runStore is where runs are looked up.
type runStore interface {
	List(ledger.Filter) ([]ledger.Run, error)
	Batches(ledger.Filter) ([]ledger.BatchRow, error)
	Find(id string) (ledger.Batch, error)
}

var _ runStore = (*ledger.Ledger)(nil)

// query returns what [printRuns] shows of the runs that f lets through. Who asks for
// nothing special sees what was started by a person, a batch as one row. Who asks
// for an agent, a status or a batch sees every run that is meant, by whomever it was
// started. The batch may be shortened, as a run.
func query(from runStore, f ledger.Filter) ([]ledger.Run, []ledger.BatchRow, error) {
	if f.Batch != "" {
		b, err := from.Find(f.Batch)
		if err != nil {
			return nil, nil, err
		}
		f.Batch = b.ID
	}
	if f.Batch != "" || f.Agent != "" || len(f.Status) > 0 {
		runs, err := from.List(f)
		return runs, nil, err
	}
	batches, err := from.Batches(f)
	if err != nil {
		return nil, nil, err
	}
	f.Roots = true
	runs, err := from.List(f)
	return runs, batches, err
}
