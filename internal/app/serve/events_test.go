package serve

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/serve/view"
	"qq/internal/control"
	"qq/internal/control/board"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// many is a root with 400 jobs: more than one message has rows.
func many() view.State {
	st := view.State{ID: "root-1", Snapshot: control.Snapshot{Root: control.Root{ExecutionID: "root-1"}}}
	for i := range 400 {
		st.Jobs = append(st.Jobs, board.Job{Job: jobs.Job{ExecutionID: fmt.Sprint("job-", i),
			ParentExecutionID: "root-1", Agent: "a", Task: "t",
			State: task.Running, Queued: time.Now(), Started: time.Now()}})
	}
	return st
}

// hear returns the next message about the root, and adds the states of its rows to heard.
func (v *runView) hear(t *testing.T, st view.State, heard map[string]string) (m sentRun, more bool) {
	t.Helper()
	v.hub.Publish(st)
	said, more, err := v.next()
	require.NoError(t, err)
	m = said.(sentRun)
	for _, r := range m.Changed {
		heard[r.ID] = r.State[1]
	}
	return m, more
}

// Ten of 400 jobs end while all the others change: the page hears of each end.
func TestEachEndIsTold(t *testing.T) {
	s := newSite(t)
	v := runView{server: s.web, id: "root-1", sent: map[string]sentRow{}}
	heard := map[string]string{}
	st := many()
	v.hear(t, st, heard)
	v.hear(t, st, heard)
	require.Len(t, heard, 400)
	for i := range 400 {
		if i < 370 { // more than one message has rows
			st.Ended = append(st.Ended, board.Ended{ExecutionID: fmt.Sprint("job-", i), Status: task.Completed,
				Ended: time.Now()})
		}
		st.Jobs[i].Call = &board.Call{Tool: "grep", Text: "grep foo", Running: true}
	}
	st.Jobs = st.Jobs[370:]
	for range 3 {
		v.hear(t, st, heard)
	}
	for i := range 370 {
		assert.Equal(t, "completed", heard[fmt.Sprint("job-", i)])
	}
	assert.Len(t, v.live, 30)
}

// A root of 400 jobs is killed: the page hears of each, and then that this was all.
func TestEachKilledJobIsTold(t *testing.T) {
	s := newSite(t)
	v := runView{server: s.web, id: "root-1", sent: map[string]sentRow{}}
	heard := map[string]string{}
	st := many()
	v.hear(t, st, heard)
	v.hear(t, st, heard)
	st.End = view.Lost
	m, more := v.hear(t, st, heard)
	assert.True(t, more)
	assert.Empty(t, m.Ended)
	assert.NotEmpty(t, m.Gone)
	m, more = v.hear(t, st, heard)
	assert.False(t, more)
	assert.Equal(t, "killed", m.Ended)
	for id, state := range heard {
		assert.Equal(t, "interrupted", state, id)
	}
}
