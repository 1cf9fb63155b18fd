// Package talk shows the transcript of a job: its messages, and what it has changed.
package talk

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"qq/internal/app/figures"
	"qq/internal/app/serve/page"
	"qq/internal/tools/edit"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

const (
	maxText     = 20_000    // bytes of a text of a message
	foldFrom    = 700       // bytes of the result of a tool that is folded
	maxDiffs    = 100       // changes of one job
	maxDiffSize = 100 << 10 // bytes of one
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

// Changes are what a job has changed: the calls of its transcript that changed a file, and the names of the other files
// that changed.
func Changes(changed []string, entries []llm.Entry) (files []page.File) {
	failed, done := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		if e.Role == llm.ToolRole {
			failed[e.CallID], done[e.CallID] = e.Failed, true
		}
	}
	named := map[string]bool{}
	for _, e := range entries {
		for _, c := range e.Calls {
			name, f, ok := change(c)
			if !ok || failed[c.ID] || !done[c.ID] {
				continue
			}
			named[among(changed, name)] = true
			if files = append(files, f); len(files) == maxDiffs {
				return files
			}
		}
	}
	for _, name := range changed {
		if !named[name] {
			files = append(files, page.File{Name: page.Line(name, 300),
				Note: "changed by a command, or by a job below"})
		}
	}
	return files
}

// among returns the name in changed, relative to the folder of a job, of the file that a call names in its own way. A
// path from the top of the disk means the longest of those with which it ends: the folder may be gone.
func among(changed []string, path string) string {
	path = filepath.ToSlash(filepath.Clean(path))
	if !filepath.IsAbs(path) {
		return path
	}
	longest := ""
	for _, name := range changed {
		if strings.HasSuffix(path, "/"+name) && len(name) > len(longest) {
			longest = name
		}
	}
	return longest
}

// change is what a call has changed in a file.
func change(c tool.Call) (name string, f page.File, ok bool) {
	var args struct {
		Path    string `json:"path"`
		Content string `json:"content"`
		Old     string `json:"old_text"`
		New     string `json:"new_text"`
	}
	if json.Unmarshal(tool.Unwrap(c.Arguments), &args) != nil || args.Path == "" {
		return "", f, false
	}
	f.Name = page.Line(args.Path, 300)
	before, after := "", ""
	switch c.Name {
	case "edit_file": // whole lines, so that nothing is said about their ends
		before, after = strings.TrimSuffix(args.Old, "\n")+"\n", strings.TrimSuffix(args.New, "\n")+"\n"
	case "write_file":
		f.Note, after = "written whole", args.Content
	case "create_file":
		f.Note, after = "created", args.Content
	case "delete_file":
		f.Note = "deleted"
		return args.Path, f, true
	default:
		return "", f, false
	}
	f.Lines = Diff(before, after)
	return args.Path, f, true
}

// Diff are the lines of a unified diff, without those that name the file.
func Diff(before, after string) []page.Piece {
	text, _ := edit.Diff("file", []byte(before), []byte(after))
	lines := Lines(Shorten(text, maxDiffSize))
	for len(lines) > 0 && lines[0].Class == "gap" && !strings.HasPrefix(lines[0].Text.String(), "@@") {
		lines = lines[1:]
	}
	return lines
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
