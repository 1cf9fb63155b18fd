package output

import (
	"fmt"
	"strings"
	"time"

	"qq/internal/app/command"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// Transcript returns the entries of a transcript as text for people: who wrote each message and when,
// its tool calls, and its text.
func Transcript(entries []llm.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		about := []string{strings.TrimSpace(string(e.Role) + " " + e.Tool), e.Time.Local().Format("15:04:05")}
		if !e.Started.IsZero() {
			about = append(about, "took "+Roundly(time.Duration(e.DurationMS)*time.Millisecond))
		}
		if e.Failed {
			about = append(about, "failed")
		}
		if e.Usage != (task.Usage{}) {
			about = append(about, Tokens(e.Usage)+" tokens")
		}
		fmt.Fprintf(&b, "\n── %s\n", Spelled(strings.Join(about, ", ")))
		for _, call := range e.Calls {
			fmt.Fprintf(&b, "→ %s\n", command.Printable(call.Line()))
		}
		if e.Content != "" {
			b.WriteString(strings.TrimRight(command.Printable(e.Content), "\n") + "\n")
		}
	}
	return b.String()
}
