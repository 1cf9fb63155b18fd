package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/internal/control"
	"qq/internal/control/board"
	"qq/internal/record/ledger"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// TestWaiting: what waits is found below the run or in the batch that is shown, and by what chooses runs.
func TestWaiting(t *testing.T) {
	job := func(id, parent, batch string, s task.Status) board.Job {
		return board.Job{Job: jobs.Job{ExecutionID: id, ParentExecutionID: parent, BatchID: batch, State: s,
			Agent: "coder"}}
	}
	one := standing("root", "")
	one.Jobs = []board.Job{job("root", "", "", task.Waiting), job("x", "root", "", task.Running),
		job("y", "root", "", task.Queued), job("z", "x", "", task.Queued)}
	two := standing("other", "0198-batch")
	two.Jobs = []board.Job{job("1", "", "0198-batch", task.Running), job("2", "", "0198-batch", task.Queued)}
	w := waiting{one, two, control.Standing{}}
	ids := func(runs []ledger.Run) (all []string) {
		for _, r := range runs {
			assert.True(t, r.Live && r.Status == task.Queued)
			all = append(all, r.ID)
		}
		return all
	}
	assert.Equal(t, []string{"y", "z"}, ids(w.below([]ledger.Run{{ID: "root"}, {ID: "x"}}, "")))
	assert.Equal(t, []string{"2"}, ids(w.below([]ledger.Run{{ID: "1"}}, "0198-batch")))
	assert.Equal(t, []string{"y", "z", "2"}, ids(w.chosen(ledger.Filter{})))
	assert.Equal(t, []string{"2"}, ids(w.chosen(ledger.Filter{Batch: "batch", Agent: "coder"})))
	assert.Empty(t, w.chosen(ledger.Filter{Agent: "explorer"}))
	assert.Equal(t, map[string]string{"root": "tasks of its agents: 1 at work, 2 queued"}, w.counts())
}
