package files

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"qq/internal/tools/tree"
	"qq/pkg/tool"
)

const (
	defaultMatches = 200
	maxMatches     = 2000
	maxContext     = 10
	// maxShown is how many characters of a line are shown.
	maxShown = 300
)

func grepSpec() tool.Spec {
	return tool.Spec{Name: "grep_file", Effect: tool.Reads,
		Description: `Search files for a regular expression. ` +
			`Example: {"pattern":"func main","glob":"*.go"}`,
		Parameters: json.RawMessage(`{"type":"object","required":["pattern"],"properties":{` +
			`"pattern":{"type":"string"},"path":{"type":"string"},"glob":{"type":"string"},` +
			`"ignore_case":{"type":"boolean"},"context":{"type":"integer"},"limit":{"type":"integer"}}}`)}
}

func (w *Workspace) grepFile(ctx context.Context, args json.RawMessage) (string, error) {
	var pattern, start, glob string
	var ignoreCase bool
	var near, limit int
	err := tool.Decode(args, tool.Fields{"pattern": &pattern, "path": &start, "glob": &glob,
		"ignore_case": &ignoreCase, "context": &near, "limit": &limit})
	if err != nil {
		return "", err
	}
	if pattern == "" {
		return "", tool.Missing("pattern")
	}
	p, err := tree.Compile(pattern, ignoreCase)
	if err != nil {
		return "", err
	}
	glob = strings.TrimPrefix(glob, "./")
	if err := checkGlob(glob); err != nil {
		return "", err
	}
	s := tree.Search{Pattern: p, Show: lineFormat(p),
		Context: tool.Bounded(near, 0, maxContext), Limit: tool.Bounded(limit, defaultMatches, maxMatches)}
	rel, isDir, err := w.look(start)
	if err != nil {
		return "", err
	}
	if !isDir {
		found, err := w.grepOne(ctx, cmp.Or(start, "."), s)
		return describeFound(found, 0), err
	}
	secrets := 0
	s.Wants = func(file string) bool {
		if !tree.Admits(glob, file[len(under(rel)):]) {
			return false
		}
		if w.unread(file) != "" {
			secrets++
			return false
		}
		return true
	}
	found, err := s.Tree(ctx, w.root, slash(rel))
	return describeFound(found, secrets), err
}

func (w *Workspace) grepOne(ctx context.Context, file string, s tree.Search) (tree.Report, error) {
	f, err := w.open(file)
	if err != nil {
		return tree.Report{}, err
	}
	defer f.Close()
	found, err := s.File(ctx, slash(f.rel), f.text())
	if errors.Is(err, tree.ErrBinary) {
		return tree.Report{}, f.binary()
	}
	if err != nil {
		return tree.Report{}, fmt.Errorf("%s: %w", file, tree.Reason(err))
	}
	return found, nil
}

// describeFound formats the answer of grep_file.
func describeFound(r tree.Report, secrets int) string {
	var lines []string
	for i, b := range r.Blocks {
		if b.Apart && i > 0 {
			lines = append(lines, "--")
		}
		lines = append(lines, b.Text)
	}
	if r.Matches == 0 {
		lines = append(lines, "[no matches]")
	}
	if secrets > 0 {
		lines = append(lines, fmt.Sprintf("[%d files that look like secrets were skipped]", secrets))
	}
	if r.Unreadable > 0 {
		lines = append(lines, fmt.Sprintf("[%d files or folders could not be read]", r.Unreadable))
	}
	if more := r.Matches - len(r.Blocks); more > 0 {
		lines = append(lines, fmt.Sprintf("[%d more matches: narrow the pattern, the path or the glob]", more))
	}
	return strings.Join(lines, "\n")
}

// lineFormat returns the function that formats one line of the answer. Of a long line it shows
// the part around the match.
func lineFormat(p *tree.Pattern) func(file string, number int, line []byte, match bool) string {
	return func(file string, number int, line []byte, match bool) string {
		mark, at := "-", 0
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if match {
			mark = ":"
		}
		if match && len(line) > maxShown {
			if loc := p.Index(line); loc != nil {
				at = loc[0]
			}
		}
		return tree.Printable(file) + mark + strconv.Itoa(number) + mark + " " + around(line, at)
	}
}

// around returns at most maxShown characters of line, with the byte at in their first third if
// possible.
func around(line []byte, at int) string {
	left, right := "", ""
	if len(line) > maxShown && utf8.RuneCount(line) > maxShown {
		from := tool.LastRunes(line[:at], maxShown/3)
		if rest := utf8.RuneCount(line[from:]); rest < maxShown {
			from = tool.LastRunes(line[:from], maxShown-rest)
		}
		part := line[from:][:tool.FirstRunes(line[from:], maxShown)]
		if from > 0 {
			left = "…"
		}
		if from+len(part) < len(line) {
			right = "…"
		}
		line = part
	}
	text, _ := repair(line)
	return left + text + right
}
