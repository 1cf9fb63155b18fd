package supervisor

import (
	"context"

	"qq/pkg/supervisor/ceiling"
	"qq/pkg/task"
)

// grant returns t limited to what its agent may delegate, or the result of t, which says why the agent may not: see
// [ceiling.Asker].
func (h *handle) grant(ctx context.Context, t task.Task) (task.Task, *task.Result) {
	c := ceiling.Ceiling{Agent: h.agent, Task: h.job.Task, ReadOnly: h.s.cfg.ReadOnly,
		Folders: h.s.cfg.Folders, Models: h.s.cfg.Models}
	return ceiling.Asker{Ceiling: c, Known: h.s.agents, Parts: &h.parts, Trusted: h.isZero()}.Grant(ctx, t)
}

// MaxParts is how many parts of documents one child may have summarized, see [ceiling.Parts].
const MaxParts = ceiling.MaxParts

// isZero reports whether the agent is that of job zero. It runs in this process, so its requests are
// what the code of this process sent.
func (h *handle) isZero() bool { return h.exec != nil && h.exec.zero() }
