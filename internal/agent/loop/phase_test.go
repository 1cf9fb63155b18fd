package loop

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// handing is a tool that hands on the tasks in its arguments.
type handing struct{ fn }

// Plan implements tool.Planner.
func (handing) Plan(_ context.Context, args json.RawMessage) (in tool.Intent, err error) {
	in.Tasks = []string{string(args)}
	if string(args) == `"two"` {
		in.Tasks = append(in.Tasks, "second")
	}
	return in, nil
}

// An agent reports each model call with its turns, the calls of each answer, and the tasks that calls
// which run at once hand on.
func TestPhases(t *testing.T) {
	ok := func(context.Context) tool.Result { return tool.Text("ok") }
	tools := tool.Set{handing{fn{"hand", tool.Delegates, ok}}, reading("look", ok), fn{"write", tool.Writes, ok}}
	hand := func(args string) tool.Call { return tool.Call{Name: "hand", Arguments: json.RawMessage(args)} }
	look, write := tool.Call{Name: "look"}, tool.Call{Name: "write"}
	model := &script{steps: []step{
		says("", hand(`"one"`), hand(`"two"`), write, hand(`"three"`), look),
		says("", look), says("", look), says("done"),
	}}
	_, rec := start(t, t.Context(), Config{Backend: model, Tools: tools, MaxTurns: 3}, []llm.Message(nil))
	assert.Equal(t, []string{
		"model 0/3",
		"tools 0/5", `delegating 0/3 "one", "two", second`, `delegating 0/1 "three"`,
		"model 1/3", "tools 0/1",
		"model 2/3", "tools 0/1",
		"model 3/3",
	}, rec.phases, "the last one is the call that asks for what there is")
}

// What a call has done is in the transcript before the next call begins.
func TestResultsAreWrittenAtOnce(t *testing.T) {
	rec := &recorder{}
	var before []string
	writer := func(name string) tool.Tool {
		return fn{name, tool.Writes, func(context.Context) tool.Result {
			before = append(before, strings.Join(rec.written(), " "))
			return tool.Text(name + " done")
		}}
	}
	model := &script{steps: []step{says("", tool.Call{Name: "one"}, tool.Call{Name: "two"}), says("done")}}
	h := hooks{rec: rec}
	Run(t.Context(), Config{Backend: model, Tools: tool.Set{writer("one"), writer("two")}, MaxTurns: 2,
		Host: h, Transcript: h, Screen: h}, nil, "the task")
	assert.Equal(t, []string{"", "one done"}, before)
}

// A result is in the transcript while a call beside it, which came first, is still at work.
func TestResultsDoNotWait(t *testing.T) {
	rec := &recorder{}
	h := hooks{rec: rec}
	slow := fn{"delegate", tool.Delegates, func(context.Context) tool.Result {
		assert.Eventually(t, func() bool { return slices.Equal(rec.written(), []string{"seen"}) }, 10*time.Second,
			time.Millisecond)
		return tool.Text("answer")
	}}
	quick := fn{"read", tool.Reads, func(context.Context) tool.Result { return tool.Text("seen") }}
	model := &script{steps: []step{says("", tool.Call{Name: "delegate"}, tool.Call{Name: "read"}), says("done")}}
	Run(t.Context(), Config{Backend: model, Tools: tool.Set{slow, quick}, MaxTurns: 2,
		Host: h, Transcript: h, Screen: h}, nil, "the task")
	assert.Equal(t, []string{"answer", "seen"}, rec.written(), "a session has them in the order of the calls")
	assert.Equal(t, []string{"answer", "seen"}, answersOf(model.asked[1].Messages))
}
