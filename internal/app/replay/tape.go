package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"qq/internal/agent/loop"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// tape has the results of the tool calls of a recorded run. It is the gate and all the tools of a replay: nothing else
// can be called.
//
// A call is found by its tool and its arguments, however these are written. The second call gets the second result, and
// so on. A tool that only reads gives its last result again. Any other call is not recorded: it ends the replay.
type tape struct {
	tools []tool.Spec
	end   context.CancelCauseFunc // of the replay

	mu      sync.Mutex
	results map[string][]llm.Entry // by [key], in the order of the calls
	given   map[string]int         // how many of them were given
}

var (
	_ loop.Gate = (*tape)(nil)
	_ tool.Tool = (*playback)(nil)
)

// newTape returns the tape of the entries of a transcript, for an agent with those tools.
func newTape(entries []llm.Entry, tools []tool.Spec, end context.CancelCauseFunc) *tape {
	t := &tape{tools: tools, end: end, results: map[string][]llm.Entry{}, given: map[string]int{}}
	calls := map[string]tool.Call{}
	for _, e := range entries {
		for _, c := range e.Calls {
			calls[c.ID] = c
		}
		if c, ok := calls[e.CallID]; ok && e.Role == llm.ToolRole {
			k := key(c.Name, c.Arguments)
			t.results[k] = append(t.results[k], e)
			delete(calls, e.CallID)
		}
	}
	return t
}

// key is the same for two calls of a tool whose arguments mean the same. What is no JSON is compared as it is.
func key(name string, args json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(tool.Unwrap(args)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return name + "\x00" + string(args)
	}
	text, _ := json.Marshal(canonical(v)) // maps are sorted; what was decoded is encoded without an error
	return name + "\x00" + string(text)
}

// canonical returns v with each number in one form, and without fields that are null: they say the same as none.
func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, one := range v {
			if one == nil {
				delete(v, k)
				continue
			}
			v[k] = canonical(one)
		}
	case []any:
		for i := range v {
			v[i] = canonical(v[i])
		}
	case json.Number:
		return number(v)
	}
	return v
}

// number returns n without zeros that say nothing. One with an exponent stays as it is.
func number(n json.Number) json.Number {
	text := string(n)
	if strings.ContainsAny(text, "eE") {
		return n
	}
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		text = "0"
	}
	return json.Number(text)
}

// Admit implements loop.Gate. It admits each call, also of a tool that the agent does not have: see [tape.play].
func (t *tape) Admit(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error) {
	for _, s := range t.tools {
		if s.Name == c.Name {
			return playback{t, s}, ctx, nil
		}
	}
	return playback{t, tool.Spec{Name: c.Name}}, ctx, nil
}

// set returns the tools that the agent is offered.
func (t *tape) set() (all tool.Set) {
	for _, s := range t.tools {
		all = append(all, playback{t, s})
	}
	return all
}

// play returns the recorded result of a call.
func (t *tape) play(s tool.Spec, args json.RawMessage) tool.Result {
	k := key(s.Name, args)
	t.mu.Lock()
	defer t.mu.Unlock()
	n, list := t.given[k], t.results[k]
	if n >= len(list) && len(list) > 0 && s.Effect == tool.Reads {
		n = len(list) - 1
	}
	if n >= len(list) {
		err := missing(tool.Call{Name: s.Name, Arguments: args}, len(list))
		t.end(err)
		return tool.Failure("Error: " + err.Error())
	}
	t.given[k]++
	e := list[n]
	r := tool.Result{Content: e.Content, Failed: e.Failed}
	if reason, ok := strings.CutPrefix(e.Content, "Error: "+s.Name+" was refused: "); ok && e.Failed {
		r.Refused = &tool.RefusedError{Tool: s.Name, Reason: reason} // so the replay ends as refused too
	}
	return r
}

// missing is why a replay ends that makes a call which was made so often in the record.
func missing(c tool.Call, recorded int) error {
	line := task.Shorten(c.Line(), 300)
	if recorded > 0 {
		return &task.Error{Status: task.NotRecorded,
			Problem: fmt.Sprintf("the record has this call %d times, not more: %s", recorded, line)}
	}
	return &task.Error{Status: task.NotRecorded, Problem: "the record does not have this call: " + line}
}

// playback is a tool that gives recorded results. It does nothing.
type playback struct {
	tape *tape
	spec tool.Spec
}

// Spec implements tool.Tool.
func (p playback) Spec() tool.Spec { return p.spec }

// Run implements tool.Tool.
func (p playback) Run(_ context.Context, args json.RawMessage) tool.Result {
	return p.tape.play(p.spec, args)
}
