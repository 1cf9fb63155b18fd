package event

import "slices"

// Calls are the tool calls that run, each as the event of its start, the oldest first.
type Calls []Event

// End removes the call that e ends. Without an id, that is the oldest one of its tool.
func (c *Calls) End(e Event) {
	i := slices.IndexFunc(*c, func(start Event) bool {
		return start.ExecutionID == e.ExecutionID && start.CallID == e.CallID && start.Tool == e.Tool
	})
	if i >= 0 {
		*c = slices.Delete(*c, i, i+1)
	}
}
