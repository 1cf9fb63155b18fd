package ceiling

import (
	"strings"
	"sync/atomic"

	"qq/pkg/task"
)

// summarizer is the name of the agent that summarizes the parts of a document that is too long for
// a model.
const summarizer = "summarizer"

// Part returns the task of summarizing the part t of a document. trusted says that the code of this
// process chose the model of t; otherwise the agent did, whose input may be untrusted.
func (c Ceiling) Part(t task.Task, known *Agents, trusted bool) task.Task {
	if !trusted {
		t.Model = c.partModel(t.Model, known)
	}
	return task.Task{Text: t.Text, Context: t.Context, Agent: summarizer, Model: t.Model, ReadOnly: true, Part: true}
}

// partModel returns the model that summarizes parts for the agent. asked is the model that the
// agent asks for. The agent may not choose: it gets the model of its task, or that of its
// definition if it asks for that, or that of the run (""). A summarizer whose definition names a
// model is an exception, which returns asked, because the parts were cut to fit the model of the
// agent.
func (c Ceiling) partModel(asked string, known *Agents) string {
	if c.Task.Model != "" {
		return c.Task.Model
	}
	if c.Agent.Model != "" && bareModel(asked) == bareModel(c.Agent.Model) {
		return c.Agent.Model
	}
	if a, err := known.Agent(summarizer); err == nil && a.Model != "" {
		return asked
	}
	return ""
}

// bareModel returns the name of a model without "ollama:" and ":latest", because names with and
// without them mean the same model.
func bareModel(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "ollama:"), ":latest")
}

// MaxParts is how many parts of documents one child may have summarized. Parts do not count towards
// the limits on children, and an agent that may not delegate may have parts summarized too.
const MaxParts = 5000

// Parts counts the parts of documents that were summarized for one child. Several goroutines may use it.
type Parts struct{ n atomic.Int64 }

// Take counts a part and reports whether it may be summarized.
func (p *Parts) Take() bool { return p.n.Add(1) <= MaxParts }
