package supervisor

import (
	"fmt"
	"strings"

	"qq/pkg/supervisor/ceiling"
	"qq/pkg/task"
)

// grant returns t limited to what its agent may delegate (see package ceiling), with a timeout that
// its definition allows. If t defines a temporary agent, grant registers it. If the agent of h may
// not delegate t, the second result is the result of t, which says why; otherwise it is nil.
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

// summarizer is the name of the agent that summarizes the parts of a document that is too long for
// a model.
const summarizer = "summarizer"

// MaxParts is how many parts of documents one child may have summarized. Parts do not count towards
// the limits on children, and an agent that may not delegate may have parts summarized too.
const MaxParts = 5000

// countPart counts a part of a document and reports whether it may be summarized. For job zero
// there is no limit.
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

// isZero reports whether the agent is that of job zero. It runs in this process, so its requests are
// what the code of this process sent.
func (h *handle) isZero() bool { return h.exec != nil && h.exec.zero() }

// partModel returns the model that summarizes parts for the agent. asked is the model that the
// agent asks for. As its input may be untrusted, the agent may not choose: it gets the model of its
// task, or that of its definition if it asks for that, or that of the run (""). There are two
// exceptions, which return asked: job zero, and a summarizer whose definition names a model,
// because the parts were cut to fit the model of the agent.
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

// bareModel returns the name of a model without "ollama:" and ":latest", because names with and
// without them mean the same model.
func bareModel(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "ollama:"), ":latest")
}
