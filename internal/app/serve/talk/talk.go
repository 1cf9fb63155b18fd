// Package talk shows the transcript of a job: its messages, and what it has changed.
package talk

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"qq/internal/app/figures"
	"qq/internal/app/serve/page"
	"qq/pkg/llm"
	"qq/pkg/task"
)

const (
	maxText  = 20_000 // bytes of a text of a message
	foldFrom = 700    // bytes of the result of a tool that is folded
)

// Shorten returns the beginning of a text that is too long, with a line that says how much is missing.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + fmt.Sprintf("\n[%d more bytes are not shown]", len(text)-most)
}

// Entries shows the messages of a transcript.
func Entries(entries []llm.Entry) []page.Entry {
	views := make([]page.Entry, len(entries))
	for i, e := range entries {
		v := page.Entry{Text: page.Clean(Shorten(e.Content, maxText)), Failed: e.Failed,
			Thinking: page.Clean(Shorten(e.Thinking, maxText))}
		v.Who = page.Line(strings.TrimSpace(map[llm.Role]string{llm.User: "Task", llm.Assistant: "Agent",
			llm.ToolRole: "Result of " + e.Tool, llm.System: "System"}[e.Role]), 60)
		meta := []string{e.Time.Local().Format("15:04:05")}
		if !e.Started.IsZero() {
			meta = append(meta, figures.Roundly(time.Duration(e.DurationMS)*time.Millisecond))
		}
		if e.Usage != (task.Usage{}) {
			meta = append(meta, figures.Tokens(e.Usage)+" tokens")
		}
		if e.Attempt > 1 {
			meta = append(meta, fmt.Sprintf("attempt %d begins", e.Attempt))
		}
		if e.Failed {
			meta = append(meta, "failed")
		}
		for _, m := range meta {
			v.Meta = append(v.Meta, page.Clean(m))
		}
		if e.Role == llm.ToolRole && (len(e.Content) > foldFrom || strings.Count(e.Content, "\n") > 8) {
			v.Folded = page.Line(e.Content, 120)
		}
		for _, c := range e.Calls {
			line := strings.TrimPrefix(c.Line(), c.Name)
			v.Calls = append(v.Calls, page.Call{Tool: page.Line(c.Name, 60), Brief: page.Line(line, 160),
				Arguments: page.Clean(Shorten(indented(c.Arguments), maxText))})
		}
		for _, image := range e.Images {
			v.Meta = append(v.Meta, page.Line(image.String(), 200))
		}
		views[i] = v
	}
	return views
}

// indented is the JSON of arguments as people read it.
func indented(args json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(args, &fields) != nil {
		return string(args)
	}
	out := new(strings.Builder)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if enc.Encode(fields) != nil {
		return string(args)
	}
	return strings.TrimSpace(strings.ReplaceAll(out.String(), `\n`, "\n    "))
}

// Lines are the lines of a text. Those of a diff that were added or removed have a class.
func Lines(text string) (lines []page.Piece) {
	if text == "" {
		return nil
	}
	isDiff := strings.Contains(text, "\n@@ ") || strings.HasPrefix(text, "@@ ") || strings.HasPrefix(text, "--- ")
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		p := page.Piece{Text: page.Clean(line)}
		switch {
		case !isDiff:
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "@@"):
			p.Class = "gap"
		case strings.HasPrefix(line, "+"):
			p.Class = "add"
		case strings.HasPrefix(line, "-"):
			p.Class = "del"
		}
		lines = append(lines, p)
	}
	return lines
}
