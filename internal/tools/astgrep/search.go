package astgrep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"qq/internal/tools/tree"
	"qq/pkg/tool"
)

const (
	defaultMatches = 200
	maxMatches     = 2000
	// maxShown is how many characters of a line are shown.
	maxShown = 300
)

func searchSpec() tool.Spec {
	return tool.Spec{Name: "ast_grep", Effect: tool.Reads,
		Description: `Search code by structure: $NAME is one node, $$$NAME any number. ` +
			`Example: {"pattern":"if $E != nil { $$$BODY }","lang":"go"}`,
		Parameters: json.RawMessage(`{"type":"object","required":["pattern","lang"],"properties":{` +
			queryProperties + `,"limit":{"type":"integer"}}}`)}
}

func (c Config) search(ctx context.Context, args json.RawMessage) (string, error) {
	var q query
	var limit int
	fields := q.fields()
	fields["limit"] = &limit
	if err := tool.Decode(args, fields); err != nil {
		return "", err
	}
	if err := q.check(); err != nil {
		return "", err
	}
	files, err := c.files(ctx, q)
	if err != nil {
		return "", err
	}
	found, remark, err := c.find(ctx, q, files)
	much := errors.Is(err, errMuch)
	if err != nil && !much {
		return "", err
	}
	return c.report(found, tool.Bounded(limit, defaultMatches, maxMatches), much, remark), nil
}

// report formats the answer of ast_grep. The lines that it shows are read through the root, not
// taken from ast-grep's output.
func (c Config) report(found []match, limit int, much bool, remark string) string {
	var lines []string
	file, content, err := "", []byte(nil), error(nil)
	shown, moved := 0, 0
	last := -1 // the line of file that was shown last
	for _, m := range found {
		if shown == limit {
			break
		}
		if m.File != file {
			file, last = m.File, -1
			content, err = c.read(file)
		}
		if err != nil || !m.in(content) {
			moved++
			continue
		}
		shown++
		if m.Range.Start.Line == last {
			continue
		}
		last = m.Range.Start.Line
		lines = append(lines, m.show(content))
	}
	if shown == 0 && moved == 0 {
		lines = append(lines, "[no matches]")
		if text := gist(remark, "Warning: "); text != "" {
			lines = append(lines, "["+text+"]")
		}
	}
	if moved > 0 {
		lines = append(lines, fmt.Sprintf("[%d matches in files that changed meanwhile: try again]", moved))
	}
	if more := len(found) - shown - moved; more > 0 || much {
		atLeast := ""
		if much {
			atLeast = "at least "
		}
		lines = append(lines,
			fmt.Sprintf("[%s%d more matches: narrow the pattern, the path or the glob]", atLeast, more))
	}
	return strings.Join(lines, "\n")
}

// in reports whether content has the text of m at the place where ast-grep found it.
func (m match) in(content []byte) bool {
	at := m.Range.ByteOffset
	return 0 <= at.Start && at.Start <= at.End && at.End <= len(content) && string(content[at.Start:at.End]) == m.Text
}

// show returns the line in which m begins, and the number of the line where m ends.
func (m match) show(content []byte) string {
	at := m.Range.ByteOffset.Start
	start := bytes.LastIndexByte(content[:at], '\n') + 1
	line := content[start:]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	text := around(strings.TrimRight(strings.ToValidUTF8(string(line), "\ufffd"), "\r"), at-start)
	number := m.Range.Start.Line + 1
	if end := m.Range.End.Line + 1; end > number {
		text += fmt.Sprintf(" [to line %d]", end)
	}
	return fmt.Sprintf("%s:%d: %s", tree.Printable(m.File), number, text)
}

// around returns line, or the part of a long line around the byte at.
func around(line string, at int) string {
	if utf8.RuneCountInString(line) <= maxShown {
		return line
	}
	left := ""
	if at = min(at, len(line)) - maxShown/3; at > 0 {
		for !utf8.RuneStart(line[at]) {
			at--
		}
		left, line = "…", line[at:]
	}
	return left + tool.First(line, maxShown, "…")
}
