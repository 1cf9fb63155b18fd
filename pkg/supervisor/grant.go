package supervisor

import (
	"context"
	"fmt"

	"qq/pkg/supervisor/ceiling"
	"qq/pkg/task"
)

// grant returns t limited to what its agent may delegate (see package ceiling). If t defines a
// temporary agent, grant registers it. If the agent of h may not delegate t, the second result is the
// result of t, which says why; otherwise it is nil.
func (h *handle) grant(ctx context.Context, t task.Task) (task.Task, *task.Result) {
	c := ceiling.Ceiling{Agent: h.agent, Task: h.job.Task, ReadOnly: h.s.cfg.ReadOnly,
		Folders: h.s.cfg.Folders, Models: h.s.cfg.Models}
	refuse := func(status task.Status, why string) (task.Task, *task.Result) {
		r := h.s.resolved(t).Ended(status, why)
		return t, &r
	}
	if status, why := c.DenyReason(t, h.s.agents); why != "" {
		return refuse(status, why)
	}
	if t.Part {
		t = c.Part(t, h.s.agents, h.isZero())
		if !h.isZero() && !h.parts.Take() {
			return refuse(task.Limit, fmt.Sprintf("%s has had %d parts of texts summarised, which is the most",
				h.agent.Name, MaxParts))
		}
	}
	if t.Temporary != nil {
		var err error
		if t, err = h.s.agents.Register(h.agent, t); err != nil {
			return refuse(task.Misused, err.Error())
		}
	}
	t, why := c.Settle(ctx, h.s.resolved(t))
	if why != "" {
		return refuse(task.Misused, why)
	}
	return t, nil
}

// MaxParts is how many parts of documents one child may have summarized, see [ceiling.Parts].
const MaxParts = ceiling.MaxParts

// isZero reports whether the agent is that of job zero. It runs in this process, so its requests are
// what the code of this process sent.
func (h *handle) isZero() bool { return h.exec != nil && h.exec.zero() }
