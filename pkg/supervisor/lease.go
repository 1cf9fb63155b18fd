package supervisor

import (
	"cmp"
	"slices"

	"qq/pkg/supervisor/access"
	"qq/pkg/supervisor/lease"
	"qq/pkg/supervisor/needs"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

// Planned returns what a plan has to know of t: what its agent can do under its ceiling, and the real paths of its
// targets. A task of an agent that is not known may do anything.
func (s *Supervisor) Planned(t task.Task) plan.Task {
	p := plan.Task{ID: t.ID, Needs: t.Needs, Priority: t.Priority}
	p.Agent, p.Role, p.Effect = s.agents.Outline(t.Normalized(), s.cfg.ReadOnly, s.cfg.Denied)
	if len(t.Targets) > 0 && s.cfg.Paths != nil {
		p.Targets = s.cfg.Paths.Targets(cmp.Or(t.Dir, t.WorkingDir), t.Targets)
	}
	return p
}

// ask asks for the lease of the job, also after forgo. group is the same for jobs that are not held apart from
// each other. wake gets a message if the lease is granted later.
func (x *execution) ask(group string, wake chan<- struct{}) *access.Lease {
	if x.lease == nil && x.s.leases != nil {
		t := x.s.Planned(x.job.Task)
		var parent *access.Lease
		if p := x.parent.exec; p != nil {
			parent, x.copied = p.lease, p.copied
		}
		own := x.s.cfg.Copies && !x.copied && t.Effect == targets.Writes
		x.copied = x.copied || own
		x.lease = x.s.leases.Ask(parent, lease.Request{
			Job: x.job.ExecutionID, Effect: t.Effect, Targets: t.Targets, Group: group,
			Copy: own && len(t.Targets) == 0, // what tasks say they touch, they do not touch at once
		}, wake)
	}
	x.lease.Claim()
	x.queue(!x.lease.Granted())
	return x.lease
}

// queue says whether the job waits for its lease before it starts. Meanwhile the run clocks of its ancestors that wait
// for it pause.
func (x *execution) queue(waits bool) {
	p := x.parent.exec
	if x.queues == waits || p == nil {
		return
	}
	x.queues = waits
	x.s.jobs.Hold(x.job.ExecutionID, waits)
	p.time.Child(waits)
}

// forgo lets others have the lease of a job that does not start yet. It asks again later.
func (x *execution) forgo() {
	x.queue(false)
	x.lease.Rest()
}

// plan returns the plan of the tasks that the agent delegates. It is nil if none of them says what it needs or touches:
// they start as they come, held apart by their leases alone. The error says what is wrong with their needs, or with
// what they name of each other.
func (h *handle) plan(tasks []task.Task) (*plan.Plan, error) {
	apart := h.s.leases != nil
	wrong := cmp.Or(needs.Check(tasks...), needs.CheckFields(h.s.agents.WithSchemas(tasks)...))
	if !slices.ContainsFunc(tasks, func(t task.Task) bool {
		return len(t.Needs) > 0 || t.Priority != 0 || apart && len(t.Targets) > 0
	}) {
		return nil, wrong
	}
	all := make([]plan.Task, len(tasks))
	for i, t := range tasks {
		all[i] = h.s.Planned(t)
		if len(all[i].Targets) == 0 && h.exec != nil {
			all[i].Targets = h.exec.lease.Targets() // what it may touch, it has from its parent
		}
	}
	p, err := plan.New(all, plan.Options{Together: !apart})
	return p, cmp.Or(err, wrong)
}
