package runs

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/control"
	"qq/internal/control/board"
	"qq/internal/record/ledger"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// standing is a root at work with jobs of these ids.
func standing(root, batch string, ids ...string) control.Standing {
	s := control.Standing{ID: root, Path: "/run/" + root}
	s.Root = control.Root{ExecutionID: root, BatchID: batch, PID: 7}
	for _, id := range ids {
		s.Jobs = append(s.Jobs, board.Job{Job: jobs.Job{ExecutionID: id}})
	}
	return s
}

func TestChoose(t *testing.T) {
	roots := []control.Standing{
		standing("01-root-a1", "", "01-root-a1", "02-child-b2", "03-queued-c3"),
		standing("04-root-d4", "05-batch-e5", "06-task-f6"),
		{ID: "07", Err: errors.New("silent"), Snapshot: standing("07", "", "08-silent").Snapshot},
	}
	for _, c := range []struct {
		id       string
		recorded string // what the ledger knows by that id
		want     string // the chosen id, or what is wrong
		job      bool
		path     string
	}{
		{"02-child-b2", "02-child-b2", "02-child-b2", true, "/run/01-root-a1"},
		{"b2", "02-child-b2", "02-child-b2", true, "/run/01-root-a1"},
		{"03", "", "03-queued-c3", true, "/run/01-root-a1"},
		{"01", "01-root-a1", "01-root-a1", false, "/run/01-root-a1"},
		{"e5", "05-batch-e5", "05-batch-e5", false, "/run/04-root-d4"},
		{"d4", "", "04-root-d4", false, "/run/04-root-d4"},
		{"08", "08-silent", "08-silent", false, ""},
		{"08", "", "cancel 08: no run at work has this id", false, ""},
		{"xyz", "", "cancel xyz: no run at work has this id", false, ""},
		{"0", "", "cancel 0: several ids begin or end so", false, ""},
		{"06", "06-another", "cancel 06: several ids begin or end so", false, ""},
	} {
		got, err := choose(c.id, target{id: c.recorded}, matching(roots, c.id))
		if err != nil {
			problem, hint := task.Explain(errors.Unwrap(err))
			assert.Equal(t, c.want, problem, c.id)
			assert.NotEmpty(t, hint, c.id)
			continue
		}
		assert.Equal(t, []any{c.want, c.job, c.path}, []any{got.id, got.job != nil, got.path}, c.id)
	}
}

func TestExactIDIsNotAmbiguous(t *testing.T) {
	roots := []control.Standing{standing("r", "", "a", "ab", "ba")}
	got, err := choose("a", target{}, matching(roots, "a"))
	require.NoError(t, err)
	assert.Equal(t, "a", got.id)
}

func TestUnreachable(t *testing.T) {
	to := target{id: "child", root: ledger.Root{ID: "0198-0123abcd", PID: 7}}
	refuses := &control.Fault{Code: control.CodeForbidden, Problem: "may not", Hint: "do so"}
	for name, c := range map[string]struct {
		s             control.Standing
		problem, hint string
	}{
		"none": {control.Standing{ID: "other"},
			"cancel child: its root, process 7, has no control socket: it is older than this qq, could not make one, " +
				"or runs on another machine",
			"qq runs cancel 0123abcd ends the whole run"},
		"silent": {control.Standing{ID: to.root.ID, Err: control.ErrSilent},
			"cancel child: its root, process 7, does not answer: the root does not reply",
			"qq runs cancel 0123abcd ends the whole run"},
		"refuses": {control.Standing{ID: to.root.ID, Err: refuses}, "may not", "do so"},
		"ended": {control.Standing{ID: to.root.ID},
			"cancel child: it does not run any more", "qq runs show child tells how it ended"},
	} {
		err := to.unreachable([]control.Standing{c.s})
		problem, hint := task.Explain(err)
		if inner := errors.Unwrap(err); name == "ended" {
			problem, hint = task.Explain(inner)
		}
		assert.Equal(t, []string{c.problem, c.hint}, []string{problem, hint}, name)
	}
}
