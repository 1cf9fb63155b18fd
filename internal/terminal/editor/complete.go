package editor

import (
	"strings"
	"unicode/utf8"

	"qq/internal/terminal/keys"
)

// maxOffers is how many candidates are shown.
const maxOffers = 8

// offers are the possible ends of a text. One of them may be chosen.
type offers struct {
	base       []piece // before the part that they replace
	rest       []piece // behind the cursor
	candidates []string
	chosen     int // -1 means none
}

// complete completes the text before the cursor, as far as all candidates agree.
func (e *Editor) complete() {
	if e.Completer == nil {
		return
	}
	before := text(e.pieces[:e.at])
	from, candidates := e.Completer.Complete(before)
	if len(candidates) == 0 || from < 0 || from > len(before) {
		return
	}
	base, ok := e.base(from)
	if !ok {
		return
	}
	o := &offers{base: base, rest: append([]piece(nil), e.pieces[e.at:]...), candidates: candidates, chosen: -1}
	if common := commonStart(candidates); len(common) > len(before)-from || len(candidates) == 1 {
		e.take(o, common)
	}
	if len(candidates) > 1 {
		e.offers = o
	}
}

// base returns the pieces with the first n bytes of the text.
func (e *Editor) base(n int) (pieces []piece, ok bool) {
	for i, p := range e.pieces {
		if n == 0 {
			return append([]piece(nil), e.pieces[:i]...), true
		}
		if n -= len(p.text); n < 0 {
			return nil, false // within a paste
		}
	}
	return append([]piece(nil), e.pieces...), n == 0
}

// take makes candidate the end of the text before the cursor.
func (e *Editor) take(o *offers, candidate string) {
	e.pieces = append([]piece(nil), o.base...)
	e.pieces = append(e.pieces, split(candidate)...)
	e.at = len(e.pieces)
	e.pieces = append(e.pieces, o.rest...)
}

// choose handles a key while candidates are shown. It returns false if the key ends that and is to be handled as
// always.
func (e *Editor) choose(k keys.Key) bool {
	o, n := e.offers, len(e.offers.candidates)
	switch {
	case k.Code == keys.Tab && k.Shift, k.Code == keys.Up && o.chosen >= 0:
		o.chosen = (max(o.chosen, 0) + n - 1) % n
	case k.Code == keys.Tab, k.Code == keys.Down && o.chosen >= 0:
		o.chosen = (o.chosen + 1) % n
	case k.Code == keys.Escape:
		e.offers = nil
		return true
	case k.Code == keys.Enter && o.chosen >= 0: // it takes what is chosen
		e.offers = nil
		return true
	default:
		e.offers = nil
		return false
	}
	e.take(o, o.candidates[o.chosen])
	return true
}

// commonStart returns what all of several texts begin with.
func commonStart(all []string) string {
	start := all[0]
	for _, s := range all[1:] {
		n := 0
		for n < len(start) && n < len(s) && start[n] == s[n] {
			n++
		}
		start = start[:n]
	}
	for !utf8.ValidString(start) {
		start = start[:len(start)-1]
	}
	return start
}

func lastRune(s string) (rune, int) { return utf8.DecodeLastRuneInString(s) }

// lines returns the candidates as lines, with a mark before the chosen one.
func (o *offers) lines() []string {
	first := max(0, min(o.chosen-maxOffers/2, len(o.candidates)-maxOffers))
	last := min(len(o.candidates), first+maxOffers)
	var lines []string
	for i := first; i < last; i++ {
		mark := "  "
		if i == o.chosen {
			mark = "> "
		}
		lines = append(lines, mark+strings.TrimSuffix(o.candidates[i], " "))
	}
	if more := len(o.candidates) - last; more > 0 {
		lines = append(lines, "  … "+thousands(more)+" more")
	}
	return lines
}
