package replay

import (
	"fmt"
	"slices"
	"strings"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// left returns what was given to the agent in the record and is not in a replay, or was done and is not done again.
// entries are those of its attempt, from the task on, and schema says whether the replay has one.
func left(recorded task.Result, entries []llm.Entry, schema bool) (all []string) {
	messages, images, repaired := 0, 0, false
	for i, e := range entries {
		images += len(e.Images)
		if e.Role == llm.User && i > 0 {
			if strings.HasPrefix(e.Content, "[message from ") {
				messages++
			}
			repaired = repaired || strings.HasPrefix(e.Content, "Your answer does not fit the JSON Schema")
		}
	}
	if messages > 0 {
		all = append(all, count(messages, "message")+" to the agent")
	}
	if images > 0 {
		all = append(all, count(images, "image"))
	}
	if !schema && (recorded.Structured != nil || repaired) {
		all = append(all, "the schema of the answer")
	}
	checks := func(c task.Command) bool { return c.Check }
	if did := recorded.Did; did != nil && slices.ContainsFunc(did.Commands, checks) {
		all = append(all, "the check")
	}
	return all
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
