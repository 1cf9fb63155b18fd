package supervisor

import (
	"fmt"
	"strings"

	"qq/pkg/supervisor/ceiling"
	"qq/pkg/task"
)

// grant is t as the agent may have it done: within its folder, its time and its
// ceiling. A child's ceiling is that of its parent and what the definition of the
// parent takes away, never more. What may not be done is a result that says so.
func (h *handle) grant(t task.Task) (task.Task, *task.Result) {
	c := ceiling.Ceiling{Agent: h.agent, Task: h.job.Task, ReadOnly: h.s.cfg.ReadOnly}
	refuse := func(status task.Status, why string) (task.Task, *task.Result) {
		r := h.s.resolved(t).Ended(status, why)
		return t, &r
	}
	if status, why := c.DenyReason(t, h.s.agents); why != "" {
		return refuse(status, why)
	}
	if t.Part {
		model := h.partModel(t.Model)
		t = task.Task{Text: t.Text, Context: t.Context, Agent: summarizer, Model: model, ReadOnly: true, Part: true}
		if !h.countPart() {
			return refuse(task.Limit, fmt.Sprintf("%s has had %d parts of texts summarised, which is the most",
				h.agent.Name, MaxParts))
		}
	}
	if t.Temporary != nil {
		var err error
		if t, err = h.s.agents.Register(h.agent, t); err != nil {
			return refuse(task.Refused, err.Error())
		}
	}
	t = c.Restrict(h.s.resolved(t))
	if a, err := h.s.Agent(t.Agent); err == nil && h.s.timeout(a) > 0 {
		t.Timeout = min(t.Timeout, h.s.timeout(a).Seconds()) // an agent may ask for less, not for more
	}
	return t, nil
}

// summarizer is the agent for the parts of a document that is too long.
const summarizer = "summarizer"

// MaxParts is how many parts of documents one child may have summarised. They
// count among no other limit, and whoever may not hand on work may ask for them.
const MaxParts = 5000

// countPart reports whether one more part may be summarised.
func (h *handle) countPart() bool {
	if h.isZero() {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.parts == MaxParts {
		return false
	}
	h.parts++
	return true
}

// isZero reports whether the agent is that of this process, which follows no untrusted
// input.
func (h *handle) isZero() bool { return h.exec != nil && h.exec.zero() }

// partModel is the model for parts, of which the agent says that it is its own. It
// may not choose another: it gets that of its task, of its definition, or of the
// run. Only where the definition of the summarizer would have it otherwise, the
// agent is believed: the parts were cut for its model.
func (h *handle) partModel(asked string) string {
	if h.isZero() {
		return asked
	}
	if h.job.Model != "" {
		return h.job.Model
	}
	if h.agent.Model != "" && bareModel(asked) == bareModel(h.agent.Model) {
		return h.agent.Model
	}
	if a, err := h.s.Agent(summarizer); err == nil && a.Model != "" {
		return asked
	}
	return ""
}

// bareModel is the name of a model without what may be left out of it.
func bareModel(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "ollama:"), ":latest")
}
