// Package edit changes one place of a text: it finds the place, which must be
// there exactly once ([Edit.Find]), says what is nearest to a text that is not
// there, and shows a change to a person ([Diff]).
//
// The text of an edit comes from a model, which writes \n and no byte order mark. A file keeps its own line ends
// and its mark. The line ends of an edit matter only if the file mixes them.
//
// Not promised: the best of all diffs and the most similar of all places; both
// are bounded work.
package edit

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxPlaces is how many places an error names when the text of an edit is not unique.
const maxPlaces = 10

// bom is the byte order mark of UTF-8. It is never part of a match, because no reader sees it.
const bom = "\ufeff"

// ErrAbsent says that the content does not contain the old text of an edit.
var ErrAbsent = errors.New("old_text is not there")

// Edit replaces one text by another. Make it with [New].
type Edit struct {
	old, new string
}

// New makes an edit. It returns an error if the edit would change nothing.
func New(old, new string) (Edit, error) {
	e := Edit{strings.TrimPrefix(old, bom), strings.TrimPrefix(new, bom)}
	switch {
	case e.old == "":
		return e, errors.New("old_text is empty: give the text to replace, or use create_file or write_file")
	case e.old == e.new:
		return e, errors.New("old_text and new_text are the same: nothing would change")
	}
	return e, nil
}

// Splice is the result of an edit: the bytes of a content to replace, and the new text for them.
type Splice struct {
	Start, End int
	Text       string
}

// Apply returns a copy of content with the splice made in it.
func (s Splice) Apply(content []byte) []byte {
	out := make([]byte, 0, len(content)-(s.End-s.Start)+len(s.Text))
	out = append(out, content[:s.Start]...)
	out = append(out, s.Text...)
	return append(out, content[s.End:]...)
}

// Lines names the changed lines, such as "lines 3-5", by their numbers after the change. content is the old
// content.
func (s Splice) Lines(content []byte) string { return lineRange(lineAt(content, s.Start), s.Text) }

// Keep returns content in the conventions of the old content: with its byte order mark, and with
// CR LF where the old lines end so.
func Keep(old []byte, content string) []byte {
	if lineEnds(old) == crlf {
		content = crlf.apply(content)
	}
	if bytes.HasPrefix(old, []byte(bom)) && !strings.HasPrefix(content, bom) {
		content = bom + content
	}
	return []byte(content)
}

// ends is the kind of line ends that a text has.
type ends int

const (
	noEnds ends = iota
	lf
	crlf
	mixed
)

func lineEnds(content []byte) ends {
	all, long := bytes.Count(content, []byte("\n")), bytes.Count(content, []byte("\r\n"))
	switch {
	case all == 0:
		return noEnds
	case long == 0:
		return lf
	case long == all:
		return crlf
	}
	return mixed
}

// apply converts the line ends of text to e. If e is noEnds or mixed, text stays as it is.
func (e ends) apply(text string) string {
	if e == lf || e == crlf {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	if e == crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// Find returns the splice that the edit makes in content. The error is [ErrAbsent], or names the
// lines if the old text occurs several times. If all lines of content end alike, the edit is
// converted to that line end. In a content with mixed line ends it is searched as given, and if
// that fails, without regard to line ends.
func (e Edit) Find(content []byte) (Splice, error) {
	style := lineEnds(content)
	s, err := once(content, style.apply(e.old), style.apply(e.new))
	if style != mixed || !errors.Is(err, ErrAbsent) {
		return s, err
	}
	plain := bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))
	if s, err = once(plain, lf.apply(e.old), lf.apply(e.new)); err != nil {
		return s, err
	}
	s.Start, s.End = beforeRemoval(content, s.Start), beforeRemoval(content, s.End)
	if lineEnds(content[s.Start:s.End]) == crlf {
		s.Text = crlf.apply(s.Text)
	}
	return s, nil
}

// beforeRemoval returns the index in content that corresponds to at, an index in the copy of content in which each
// CR LF is replaced by LF.
func beforeRemoval(content []byte, at int) int {
	pos := 0
	for {
		i := bytes.Index(content[pos:], []byte("\r\n"))
		if i < 0 || i >= at {
			return pos + at
		}
		pos += i + len("\r\n")
		at -= i + 1
	}
}

// once returns the splice that replaces old, which must occur in content exactly once.
func once(content []byte, old, new string) (Splice, error) {
	what := []byte(old)
	at := bytes.Index(content, what)
	if at < 0 {
		return Splice{}, ErrAbsent
	}
	if again := bytes.Index(content[at+1:], what); again >= 0 {
		return Splice{}, several(content, what)
	}
	return Splice{at, at + len(old), new}, nil
}

// several returns an error that names the lines at which content contains what.
func several(content, what []byte) error {
	var lines []string
	n, line := 0, 1
	for at := 0; ; n++ {
		i := bytes.Index(content[at:], what)
		if i < 0 {
			break
		}
		if len(lines) < maxPlaces {
			line += bytes.Count(content[at:at+i], []byte{'\n'})
			lines = append(lines, strconv.Itoa(line))
			line += bytes.Count(what, []byte{'\n'})
		}
		at += i + len(what)
	}
	if n == 1 {
		return fmt.Errorf("old_text overlaps itself at line %s: give more of the text around it, so that it is there "+
			"once", lines[0])
	}
	more := ""
	if n > len(lines) {
		more = " and others"
	}
	return fmt.Errorf("old_text is there %d times, at lines %s%s: give more of the text around it, so that it is "+
		"there once",
		n, strings.Join(lines, ", "), more)
}

// Nearest describes the part of content that is most similar to the old text of the edit, for a
// text that was not found.
func (e Edit) Nearest(content []byte) string {
	hint := ""
	if strings.ContainsRune(e.old, utf8.RuneError) && !utf8.Valid(content) {
		hint = "the file is not UTF-8: leave out what was shown as U+FFFD. "
	}
	if r, ok := sameButSpace(content, e.old); ok {
		return hint + "only the white space differs, " + r.show(content, e.old)
	}
	if r, ok := mostSimilar(content, e.old); ok {
		return hint + "the nearest is " + r.show(content, e.old)
	}
	return hint + "nothing is like it: read the file again"
}

// lineAt returns the number of the line that contains byte at.
func lineAt(content []byte, at int) int { return 1 + bytes.Count(content[:at], []byte{'\n'}) }

// lineRange names the lines of a text that begins at line.
func lineRange(line int, text string) string {
	last := line + strings.Count(strings.TrimSuffix(text, "\n"), "\n")
	if last == line {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("lines %d-%d", line, last)
}
