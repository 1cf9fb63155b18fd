package history

import (
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Reads collects the calls of an agent as long as it does nothing but read.
type Reads struct {
	calls []task.Read
	other bool // it did something else
}

// Ran notes one call.
func (r *Reads) Ran(s tool.Spec, c tool.Call, res tool.Result) {
	if s.Effect != tool.Reads {
		r.other = true
		return
	}
	r.calls = append(r.calls, task.Read{Tool: c.Name, Arguments: c.Arguments, Digest: digest(res)})
}

// All is nil when an answer rests on more than what was read.
func (r *Reads) All() []task.Read {
	switch {
	case r == nil || r.other:
		return nil
	case r.calls == nil:
		return []task.Read{}
	}
	return r.calls
}
