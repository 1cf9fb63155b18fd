package loop

import (
	"context"

	"qq/pkg/event"
	"qq/pkg/tool"
)

// phase reports what the agent does now, and how far it is.
func (l *loop) phase(p event.Phase, done, total int, tasks ...string) {
	l.cfg.Host.Emit(event.Event{
		Type: event.SubAgentProgress, Phase: p, Done: done, Total: total, Tasks: event.Listed(tasks),
	})
}

// dispatch reports the tasks that calls, which run at once, hand to other agents, if there are any.
func (l *loop) dispatch(ctx context.Context, calls []tool.Call) {
	var tasks []string
	for _, c := range calls {
		if t, ok := l.cfg.Tools.Lookup(c.Name); ok && t.Spec().Effect == tool.Delegates {
			in, _ := tool.Plan(ctx, t, c.Arguments) // a call that cannot work has no tasks
			tasks = append(tasks, in.Tasks...)
		}
	}
	if len(tasks) > 0 {
		l.phase(event.PhaseDelegating, 0, len(tasks), tasks...)
	}
}
