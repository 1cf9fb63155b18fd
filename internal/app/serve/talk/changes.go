package talk

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"qq/internal/app/serve/page"
	"qq/internal/tools/edit"
	"qq/pkg/llm"
	"qq/pkg/tool"
)

const (
	maxFiles    = 100       // that one job has changed
	maxLines    = 5000      // of the changes of one file
	maxDiffSize = 100 << 10 // bytes of one change
)

// Changes are what a job has changed, each file once: the calls of its transcript that changed a file, and the names of
// the other files that changed.
func Changes(changed []string, entries []llm.Entry) []page.File {
	c := changes{names: changed, at: map[string]int{}, text: map[string]string{}}
	calls := map[string]tool.Call{}
	for _, e := range entries {
		for _, call := range e.Calls {
			calls[call.ID] = call
		}
		if e.Role == llm.ToolRole && !e.Failed {
			c.did(calls[e.CallID], e.Content)
		}
	}
	for _, name := range changed {
		if _, ok := c.at[name]; !ok {
			c.add(name, name, "changed by a command, or by a job below: there is no diff", nil)
		}
	}
	return c.files
}

// changes collects what a job has changed.
type changes struct {
	names []string // of the files that changed, relative to the folder of the job
	files []page.File
	at    map[string]int    // where a file is in files
	text  map[string]string // of a file, as the job has read or written it last
}

// arguments are those of the tools that read or change one file.
type arguments struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Old     string `json:"old_text"`
	New     string `json:"new_text"`
	Start   any    `json:"start_line"`
	End     any    `json:"end_line"`
	Pattern string `json:"pattern"`
	Rewrite string `json:"rewrite"`
}

// did notes a call that has succeeded with that result. An existing file is overwritten only if it is as the job has
// read or written it last, so that is what was there before.
func (c *changes) did(call tool.Call, result string) {
	var args arguments
	if json.Unmarshal(tool.Unwrap(call.Arguments), &args) != nil {
		args = arguments{}
	}
	name := among(c.names, args.Path)
	before, known := c.text[name]
	switch {
	case call.Name == "ast_grep_replace":
		c.replaced(args, result)
	case strings.HasPrefix(call.Name, "run_"): // a command, or jobs, may have changed any file
		clear(c.text)
	case args.Path == "":
	case call.Name == "read_file":
		if delete(c.text, name); args.Start == nil && args.End == nil && !partial().MatchString(result) {
			c.text[name] = result
		}
	case call.Name == "edit_file":
		if known && strings.Count(before, args.Old) == 1 {
			c.text[name] = strings.Replace(before, args.Old, args.New, 1)
			c.add(name, args.Path, "edited", Diff(before, c.text[name]))
			return
		}
		delete(c.text, name)
		c.add(name, args.Path, "edited", Diff(ended(args.Old), ended(args.New)))
	case call.Name == "create_file", call.Name == "write_file" && strings.HasPrefix(result, "created "):
		c.text[name] = args.Content
		c.add(name, args.Path, "created", Diff("", args.Content))
	case call.Name == "write_file":
		c.text[name] = args.Content
		note := "overwritten"
		if !known {
			note = "written whole: what was there before is not recorded"
		}
		c.add(name, args.Path, note, Diff(before, args.Content))
	case call.Name == "delete_file":
		delete(c.text, name)
		c.add(name, args.Path, "deleted", nil)
	}
}

// partial matches a line about a file that read_file adds to its content.
var partial = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\[.*\]\n?\z`) })

// replacedIn matches a line of the result of ast_grep_replace.
var replacedIn = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^(.+): (\d+) replaced$`) })

// replaced notes the files that a call of ast_grep_replace has changed. It tells how often, not where.
func (c *changes) replaced(args arguments, result string) {
	for _, m := range replacedIn().FindAllStringSubmatch(result, -1) {
		delete(c.text, m[1])
		c.add(m[1], m[1], fmt.Sprintf("%s replaced by ast_grep_replace, there is no diff: %s → %s",
			times(m[2]), page.Line(args.Pattern, 80), page.Line(args.Rewrite, 80)), nil)
	}
}

func times(n string) string {
	if n == "1" {
		return "1 place"
	}
	return n + " places"
}

// add adds a change of a file, which the call names in its own way.
func (c *changes) add(name, called, note string, lines []page.Piece) {
	i, ok := c.at[name]
	if name == "" || !ok {
		if len(c.files) == maxFiles {
			return
		}
		i = len(c.files)
		c.at[name] = i
		c.files = append(c.files, page.File{Name: page.Line(called, 300)})
	}
	f := &c.files[i]
	if !slices.Contains(strings.Split(f.Note, ", then "), note) {
		f.Note = strings.TrimPrefix(f.Note+", then "+note, ", then ")
	}
	if left := maxLines - len(f.Lines); len(lines) > left {
		left = max(left, 0)
		more := fmt.Sprintf("[%d more lines]", len(lines)-left)
		lines = append(lines[:left:left], page.Piece{Class: "gap", Text: page.Clean(more)})
	}
	f.Lines = append(f.Lines, lines...)
}

// among returns the name in changed, relative to the folder of a job, of the file that a call names in its own way. A
// path from the top of the disk means the longest of those with which it ends: the folder may be gone.
func among(changed []string, path string) string {
	if path == "" {
		return ""
	}
	path = filepath.ToSlash(filepath.Clean(path))
	if !filepath.IsAbs(path) {
		return path
	}
	longest := path
	for _, name := range changed {
		if strings.HasSuffix(path, "/"+name) && (longest == path || len(name) > len(longest)) {
			longest = name
		}
	}
	return longest
}

// ended is text with a newline at its end, so that nothing is said about that.
func ended(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }

// Diff are the lines of a unified diff, without those that name the file.
func Diff(before, after string) []page.Piece {
	text, _ := edit.Diff("file", []byte(before), []byte(after))
	lines := Lines(Shorten(text, maxDiffSize))
	for len(lines) > 0 && lines[0].Class == "gap" && !strings.HasPrefix(lines[0].Text.String(), "@@") {
		lines = lines[1:]
	}
	return lines
}
