package ceiling_test

import (
	"fmt"
	"strings"

	"qq/pkg/agents"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/task"
)

// An agent that only looks may ask others to look, and not to change anything.
func ExampleCeiling() {
	known := agents.Load(nil) // the built-in agents
	c := ceiling.Ceiling{Agent: agents.Agent{Name: "reader", Role: agents.Gathering}}
	work := task.Task{Agent: "coder", Text: "look at the tests"}

	status, why := c.DenyReason(work, known)
	why, hint, _ := strings.Cut(why, " (")
	fmt.Println(status, why)
	fmt.Println("(" + hint)
	work.ReadOnly = true
	_, why = c.DenyReason(work, known)
	fmt.Printf("%q\n", why)
	// Output:
	// usage reader may only read and may not delegate to coder, which can change things
	// (with read_only it can be asked to look)
	// ""
}
