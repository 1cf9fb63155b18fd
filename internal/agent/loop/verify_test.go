package loop

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// faults are the verdicts of a Verifier, one for each time that it is asked; then the work is right.
type faults struct {
	list  []*Fault
	asked int
	end   context.CancelCauseFunc // may be nil
}

func (f *faults) Verify(context.Context) *Fault {
	f.asked++
	if f.end != nil {
		f.end(errEnough)
	}
	if f.asked > len(f.list) {
		return nil
	}
	return f.list[f.asked-1]
}

// TestVerify: work with a fault goes back to the agent as often as it may be repaired, in the same conversation. Then
// the status is check_failed.
func TestVerify(t *testing.T) {
	bad := &Fault{Problem: "it is wrong", Message: "Mend it."}
	look := reading("look", func(context.Context) tool.Result { return tool.Text("a fact") })
	for _, c := range []struct {
		name    string
		faults  []*Fault
		repairs int
		turns   int
		steps   []step
		status  task.Status
		asked   int
	}{
		{"right at once", nil, 1, 5, []step{says("done")}, task.Completed, 1},
		{"mended", []*Fault{bad}, 1, 5, []step{says("done"), says("", calling("look")), says("mended")},
			task.Completed, 2},
		{"never mended", []*Fault{bad, bad, bad}, 2, 5, []step{says("a"), says("b"), says("c")}, task.CheckFailed, 3},
		{"no repair", []*Fault{bad}, 0, 5, []step{says("done")}, task.CheckFailed, 1},
		{"no turns left", []*Fault{bad}, 1, 1, []step{says("done")}, task.CheckFailed, 1},
		{"nothing to mend", []*Fault{{Problem: "no check"}}, 3, 5, []step{says("done")}, task.CheckFailed, 1},
		{"an empty answer", []*Fault{bad}, 1, 5, []step{says("")}, task.Empty, 0},
		{"a cut answer", []*Fault{bad}, 1, 5, []step{cut("done")}, task.Limit, 0},
		{"turns used up", []*Fault{bad}, 1, 1, []step{says("", calling("look")), says("so far")}, task.TurnLimit, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			model, v := &script{steps: c.steps}, &faults{list: c.faults}
			cfg := Config{Backend: model, Tools: tool.Set{look}, MaxTurns: c.turns, Verifier: v, Repairs: c.repairs}
			out, rec := start(t, t.Context(), cfg, nil)
			assert.Equal(t, c.status, out.Status)
			assert.Equal(t, c.asked, v.asked)
			assert.Len(t, model.asked, len(c.steps))
			if c.status == task.CheckFailed {
				assert.Equal(t, c.faults[0].Problem, out.Err())
				assert.NotEmpty(t, out.Output, "what the agent said is kept")
			}
			told := 0
			for _, m := range rec.messages {
				if m.Role == llm.User && m.Content == bad.Message {
					told++
				}
			}
			assert.Equal(t, max(0, min(c.asked-1, c.repairs)), told)
		})
	}
}

// TestVerifyStopped: a run that ends while its work is verified is no success.
func TestVerifyStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	out, _ := start(t, ctx, Config{Backend: &script{steps: []step{says("done")}}, MaxTurns: 5, Repairs: 1,
		Verifier: &faults{end: cancel}}, nil)
	assert.Equal(t, task.Interrupted, out.Status)
	assert.Equal(t, "done", out.Output)
}
