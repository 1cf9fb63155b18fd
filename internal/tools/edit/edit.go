// Package edit changes one place of a text: it finds the place, which must be
// there exactly once ([Edit.Find]), says what is nearest to a text that is not
// there, and shows a change to a person ([Diff]).
//
// The text of an edit comes from a model, which writes \n and no byte order
// mark. A file keeps its own: line ends count only in a file that mixes them.
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

// maxPlaces is how many places of a text that is not unique are named.
const maxPlaces = 10

// bom is the byte order mark of UTF-8. Readers do not see it, so it is never a
// part of what is matched.
const bom = "\ufeff"

// ErrAbsent says that the text of an edit is not in a content.
var ErrAbsent = errors.New("old_text is not there")

// Edit replaces one text by another. The zero value finds nothing of use: make
// it with [New].
type Edit struct {
	old, new string
}

// New makes an edit, if it can change anything.
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

// Splice is a place in a content, in bytes, and the text that comes there.
type Splice struct {
	Start, End int
	Text       string
}

// Apply returns content with the splice made in it, and leaves content alone.
func (s Splice) Apply(content []byte) []byte {
	out := make([]byte, 0, len(content)-(s.End-s.Start)+len(s.Text))
	out = append(out, content[:s.Start]...)
	out = append(out, s.Text...)
	return append(out, content[s.End:]...)
}

// Lines names the lines that are changed, as they are numbered afterwards.
func (s Splice) Lines(content []byte) string { return lineRange(lineAt(content, s.Start), s.Text) }

// Keep is a new content in the conventions of the old one: its byte order mark,
// and its line ends where these are CR LF.
func Keep(old []byte, content string) []byte {
	if lineEnds(old) == crlf {
		content = crlf.apply(content)
	}
	if bytes.HasPrefix(old, []byte(bom)) && !strings.HasPrefix(content, bom) {
		content = bom + content
	}
	return []byte(content)
}

// ends is how the lines of a text end.
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

// apply gives the lines of text these ends.
func (e ends) apply(text string) string {
	if e == lf || e == crlf {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	if e == crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// Find returns what the edit does to content. The error is [ErrAbsent], or says
// in which lines the text is when it is there several times. Where all lines end alike, so do
// those of the edit. In a mixed file the edit is taken as it is, and only where
// that is not found the ends do not count.
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

// beforeRemoval is the place in content of what is at the place at once every
// CR LF is an LF.
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

// once finds old in content, where it must be exactly once.
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

// several says where what is in content.
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

// Nearest says what in content is nearest to the text of the edit, which is not
// in it.
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

// lineAt is the number of the line of the place at.
func lineAt(content []byte, at int) int { return 1 + bytes.Count(content[:at], []byte{'\n'}) }

// lineRange names the lines that text has from line on.
func lineRange(line int, text string) string {
	last := line + strings.Count(strings.TrimSuffix(text, "\n"), "\n")
	if last == line {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("lines %d-%d", line, last)
}
