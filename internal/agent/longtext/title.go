package longtext

import (
	"strings"
	"unicode"

	"qq/pkg/task"
)

const (
	maxHeading = 40  // characters of one heading in a title
	maxTitle   = 120 // characters of a title
)

// headings are the headings above a line, one for each level.
type headings struct {
	at  [6]string // the heading of each level, as it is written
	set [6]bool   // whether there is a heading of that level
}

// enter makes the heading l the current one of its level, and forgets those of deeper
// levels.
func (h *headings) enter(l line) {
	h.at[l.level-1], h.set[l.level-1] = l.title, true
	for i := l.level; i < len(h.at); i++ {
		h.at[i], h.set[i] = "", false
	}
}

// path returns the current headings from the highest level to the deepest.
func (h *headings) path() []string {
	var path []string
	for i, raw := range h.at {
		if !h.set[i] {
			continue
		}
		if title := tidy(raw); title != "" {
			path = append(path, title)
		}
	}
	return path
}

// tidy shortens a heading and removes control characters, so that it fits into a line of
// a prompt.
func tidy(raw string) string {
	raw = strings.ToValidUTF8(raw[:min(len(raw), 8*maxHeading)], "")
	raw = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, raw)
	return task.Shorten(raw, maxHeading)
}

// entitle sets the titles of parts, which joined are text.
func entitle(text string, parts []Part) {
	var now headings
	var from []string
	i, start := 0, 0
	lines := newLineScanner(text)
	for l, ok := lines.next(); ok; l, ok = lines.next() {
		for l.start >= start+len(parts[i].Text) {
			parts[i].Title = title(from, now.path())
			start += len(parts[i].Text)
			i++
			from = now.path()
		}
		if l.kind == heading {
			now.enter(l)
			if l.start == start || from == nil {
				from = now.path()
			}
		}
	}
	for ; i < len(parts); i++ {
		parts[i].Title = title(from, now.path())
		from = now.path()
	}
}

// title returns the title of a part. from are the headings above its first line, to are
// those above its last line.
func title(from, to []string) string {
	same := 0
	for same < min(len(from), len(to)) && from[same] == to[same] {
		same++
	}
	t := strings.Join(from, " > ")
	if same < len(from) && same < len(to) {
		t += " … " + strings.Join(to[same:], " > ")
	}
	return task.Shorten(t, maxTitle)
}
