package editor

import (
	"slices"
	"strings"

	"qq/internal/terminal/keys"
)

// maxEntries is how many texts a History keeps.
const maxEntries = 1000

// History is what was submitted before, the oldest first. A nil History is empty.
type History struct{ entries []string }

// NewHistory returns a History with those entries.
func NewHistory(entries []string) *History {
	h := &History{}
	for _, e := range entries {
		h.Add(e)
	}
	return h
}

// Len returns the number of entries.
func (h *History) Len() int {
	if h == nil {
		return 0
	}
	return len(h.entries)
}

// Entries returns all entries.
func (h *History) Entries() []string { return slices.Clone(h.entries) }

// Add adds an entry, unless it is the same as the last one. It reports whether it did.
func (h *History) Add(entry string) bool {
	if strings.TrimSpace(entry) == "" || len(h.entries) > 0 && h.entries[len(h.entries)-1] == entry {
		return false
	}
	h.entries = append(h.entries[max(0, len(h.entries)+1-maxEntries):], entry)
	return true
}

// recall shows the entry that is that many after the one that is shown.
func (e *Editor) recall(n int) {
	to := e.place + n
	if to < 0 || to > e.History.Len() || to == e.place {
		return
	}
	if e.place == e.History.Len() {
		e.draft = e.pieces
	}
	if e.place = to; to == e.History.Len() {
		e.pieces, e.draft = e.draft, nil
		e.at = len(e.pieces)
		return
	}
	e.SetText(e.History.entries[to])
}

// search is a search in the history, from the newest entry back.
type search struct {
	query  string
	found  int // the entry; -1 means none
	before []piece
	at     int
}

func (e *Editor) startSearch() {
	if e.History.Len() > 0 {
		e.search = &search{found: -1, before: e.pieces, at: e.at}
	}
}

// searching handles a key during a search. It returns true if the search is over and the key is to be handled as
// always.
func (e *Editor) searching(k keys.Key) (over bool) {
	s := e.search
	switch {
	case k.Ctrl && k.Rune == 'r':
		e.find(s.found - 1)
	case k.Ctrl && (k.Rune == 'g' || k.Rune == 'c'), k.Code == keys.Escape:
		e.pieces, e.at, e.search = s.before, s.at, nil
	case k.Code == keys.Backspace:
		_, last := lastRune(s.query)
		s.query = s.query[:len(s.query)-last]
		e.find(e.History.Len() - 1)
	case k.Code == keys.Rune && !k.Ctrl && !k.Alt:
		s.query += string(k.Rune)
		from := s.found
		if from < 0 {
			from = e.History.Len() - 1
		}
		e.find(from)
	case k.Code == keys.Paste:
		first, _, _ := strings.Cut(k.Text, "\n")
		s.query += first
		e.find(e.History.Len() - 1)
	default:
		if s.found >= 0 {
			if e.place == e.History.Len() {
				e.draft = s.before
			}
			e.place = s.found
		}
		e.search = nil
		return true
	}
	return false
}

// find shows the newest entry with the query that is not newer than the one with number from.
func (e *Editor) find(from int) {
	s := e.search
	for i := min(from, e.History.Len()-1); i >= 0; i-- {
		if strings.Contains(strings.ToLower(e.History.entries[i]), strings.ToLower(s.query)) {
			s.found = i
			e.SetText(e.History.entries[i])
			return
		}
	}
}
