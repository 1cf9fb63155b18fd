// Package transcript shows a transcript to people.
package transcript

import (
	"fmt"
	"strings"
	"time"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// Text returns the entries of a transcript as text for people: who wrote each message and when, its text, and its tool
// calls. What a model or a file says stands behind a bar, so that it cannot look like an entry of its own; further
// lines of a call stand behind a dotted one. ends says how each attempt ended that another one followed, as far as
// known.
func Text(entries []llm.Entry, ends []string) string {
	var b strings.Builder
	for _, e := range entries {
		if e.Attempt > 1 {
			before := ""
			if e.Attempt-2 < len(ends) {
				before = fmt.Sprintf("attempt %d ended: %s, ", e.Attempt-1, ends[e.Attempt-2])
			}
			fmt.Fprintf(&b, "\n── %s\n", figures.Spelled(fmt.Sprintf("%sattempt %d begins", before, e.Attempt)))
		}
		about := []string{strings.TrimSpace(string(e.Role) + " " + e.Tool), e.Time.Local().Format("15:04:05")}
		if !e.Started.IsZero() || e.DurationMS >= seen {
			about = append(about, "took "+figures.Roundly(time.Duration(e.DurationMS)*time.Millisecond))
		}
		if e.FirstMS >= seen {
			about = append(about, "first token after "+figures.Roundly(time.Duration(e.FirstMS)*time.Millisecond))
		}
		if e.Failed {
			about = append(about, "failed")
		}
		if e.Usage != (task.Usage{}) {
			about = append(about, figures.Tokens(e.Usage)+" tokens")
		}
		fmt.Fprintf(&b, "\n── %s\n", figures.Spelled(strings.Join(about, ", ")))
		for _, image := range e.Images {
			b.WriteString(barred("▣ ", "┆ ", image.String()))
		}
		if e.Content != "" {
			b.WriteString(barred("│ ", "│ ", e.Content))
		}
		for _, call := range e.Calls { // a model writes its text before them
			b.WriteString(barred("→ ", "┆ ", call.Line()))
		}
	}
	return b.String()
}

// seen is how long an answer of a model takes at least whose time is told, in milliseconds.
const seen = 100

// barred returns text with first before its first line and bar before each other line.
func barred(first, bar, text string) string {
	text = strings.TrimRight(command.Printable(text), "\n")
	return first + strings.ReplaceAll(text, "\n", "\n"+bar) + "\n"
}
