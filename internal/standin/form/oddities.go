package form

import (
	"math/rand/v2"
	"strconv"
	"unicode/utf8"
)

// Oddities are how servers deviate from what the vendor of their protocol documents. Each has been seen at some
// server. Those that make no sense in a form have no effect.
type Oddities struct {
	Whole         bool // calls come whole instead of in pieces
	BlankStart    bool // the first piece of a call has no arguments
	BlankEnd      bool // and so does the last
	NamesRepeated bool // each piece of a call has its name
	NameLate      bool // the name comes in the second piece
	IDs           IDs
	NoIndex       bool // calls and blocks have no index
	OneIndex      bool // all of them have index 0
	UsageEach     bool // each event has the usage so far
	NoUsage       bool // there is no usage
	NoDone        bool // nothing follows the finish reason of chat completions
	NoEnd         bool // the end mark is left out, so there is no answer
	StopEach      bool // each event of Gemini has a finish reason
	HalfCall      bool // the token limit ends the answer within its last call
	CRLF          bool // lines end with CRLF
	Comments      bool // there are comments, pings, blank lines and empty events between the others

	random *rand.Rand
}

// Documented is what is odd about a server that does as the vendor documents: nothing.
func Documented() *Oddities { return &Oddities{IDs: Repeated, Whole: true} }

// IDs says which ids the pieces of calls have.
type IDs int

// Kinds of ids.
const (
	Once     IDs = iota // the first piece of a call has one
	Repeated            // each piece has that of its call
	Random              // each piece has another
	Same                // all calls have the same
	None
	kinds
)

// AnyOddities returns any of them, but only what a client can understand: with neither ids nor indexes, for example,
// the beginning of a call is told from a piece by its arguments.
func AnyOddities(r *rand.Rand) Oddities {
	is := func() bool { return r.IntN(2) == 0 }
	o := Oddities{
		Whole: is(), BlankStart: is(), BlankEnd: is(), NamesRepeated: is(), IDs: IDs(r.IntN(int(kinds))),
		NoIndex: is(), OneIndex: is(), UsageEach: is(), NoUsage: is(), NoDone: is(), NoEnd: r.IntN(8) == 0,
		HalfCall: r.IntN(8) == 0, CRLF: is(), Comments: is(), random: r,
	}
	told := !o.NoIndex && !o.OneIndex // calls are told apart by their indexes
	o.NameLate, o.StopEach = told && o.IDs != Same && is(), !o.NoEnd && r.IntN(4) == 0
	if o.NameLate {
		o.Whole, o.BlankStart = false, true
	}
	switch o.IDs {
	case Random:
		o.BlankEnd = false
	case Same, None:
		o.BlankStart = o.BlankStart && told
		o.BlankEnd = o.BlankEnd && (told || !o.NamesRepeated)
	}
	return o
}

// split returns the pieces in which the arguments of c come.
func (odd *Oddities) split(c *Call) []string {
	text := string(c.Arguments)
	if c.half {
		runes := []rune(text)
		text = string(runes[:odd.random.IntN(len(runes))])
	}
	if odd.random == nil || odd.Whole && !c.half {
		return []string{text}
	}
	var pieces []string
	if odd.BlankStart {
		pieces = append(pieces, "")
	}
	for text != "" {
		n := 1 + odd.random.IntN(len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	if odd.BlankEnd && len(pieces) > 0 || len(pieces) == 0 {
		pieces = append(pieces, "")
	}
	return pieces
}

// id returns the id of piece i of c; empty means none.
func (odd *Oddities) id(c *Call, i int) string {
	switch odd.IDs {
	case None:
		return ""
	case Random:
		return "any_" + strconv.FormatUint(odd.random.Uint64(), 36)
	case Same:
		return "same"
	case Once:
		if i > 0 {
			return ""
		}
	}
	return c.ID
}

// between writes what may stand between two events.
func (odd *Oddities) between(o *Output, lines bool) {
	if !odd.Comments || odd.random.IntN(3) > 0 {
		return
	}
	if lines {
		o.newline()
		return
	}
	switch odd.random.IntN(4) {
	case 0:
		o.write(": keep-alive")
	case 1:
		o.write("event: ping")
		o.newline()
		o.write(`retry: 1000`)
	case 2:
		o.write("data:")
	case 3:
		o.write("id: 7")
		o.newline()
		o.write(":")
	}
	o.newline()
	o.newline()
}
