package event_test

import (
	"encoding/json"
	"fmt"
	"os"

	"qq/pkg/event"
)

// counter is a sink that counts the tool calls of each agent.
type counter map[string]int

func (c counter) Handle(e event.Event) {
	if e.Type == event.ToolStart {
		c[e.Agent]++
	}
}

func ExampleStream() {
	calls := counter{}
	trace := event.StartTrace(os.Getenv("TRACEPARENT"))
	stream := event.NewStream(trace.TraceID(), calls, event.SinkFunc(func(e event.Event) {
		fmt.Println(e.Seq, e.Type, e.Agent)
	}))
	stream.Emit(event.Event{Type: event.SubAgentStart, ExecutionID: "1", Agent: "coder"})
	stream.Emit(event.Event{Type: event.ToolStart, ExecutionID: "1", Agent: "coder", Tool: "read_file"})
	stream.Emit(event.Event{Type: event.SubAgentComplete, ExecutionID: "1", Agent: "coder"})
	fmt.Println("calls of coder:", calls["coder"])
	// Output:
	// 1 sub_agent_start coder
	// 2 tool_start coder
	// 3 sub_agent_complete coder
	// calls of coder: 1
}

func ExampleEvent() {
	line := `{"v":1,"seq":7,"type":"sub_agent_error","agent":"coder","depth":1,"status":"timeout"}`
	var e event.Event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		panic(err)
	}
	fmt.Println(e.Type == event.SubAgentError, e.Agent, e.Status)
	// Output: true coder timeout
}

func ExampleTrace() {
	trace := event.StartTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	fmt.Println(trace.TraceID())
	fmt.Println(trace.ParentID())
	fmt.Println("TRACEPARENT=" + trace.Traceparent("an execution id"))
	// Output:
	// 0af7651916cd43dd8448eb211c80319c
	// b7ad6b7169203331
	// TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-f13d594c66c13d5d-01
}
