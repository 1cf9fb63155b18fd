package loop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"qq/pkg/tool"
)

// How often a call may be made again and again: at first it is run with a
// warning, then refused, and then the run ends.
const (
	warnedFrom  = 3
	refusedFrom = 6
	endsAt      = 10
)

// guard sees all calls of a run in their order and stops an agent that makes the
// same one again and again.
//
// Calls are identical when name and arguments are. A warning counts those alone.
// For a refusal the results have to be the same as well: a call that brings
// something new, such as one that waits for children, goes on. Identical calls
// in one group that runs at once count as calls with the same result, since the
// agent made them without having seen one.
type guard struct {
	streak *streak
	stuck  string // the tool whose calls end the run, or ""
}

// streak is identical calls in a row.
type streak struct {
	key   string
	calls int
	since int    // the first call whose result is that of all the later ones
	last  string // the last result
}

// pass is what the guard says about one call.
type pass struct {
	streak  *streak
	nth     int    // place of the call in its streak
	refusal string // why it is not run, or ""
}

// enter decides about the next call.
func (g *guard) enter(c tool.Call) pass {
	if g.stuck != "" {
		return pass{refusal: "Error: not run: the run ends because of repeated calls"}
	}
	key := c.Name + "\x00" + compact(c.Arguments)
	if g.streak == nil || g.streak.key != key {
		g.streak = &streak{key: key, since: 1}
	}
	s := g.streak
	s.calls++
	p := pass{streak: s, nth: s.calls}
	same := s.calls - s.since + 1
	if same >= refusedFrom {
		p.refusal = fmt.Sprintf("Error: refused: the same call %d times in a row: "+
			"change the arguments, use another tool, or answer", same)
	}
	if same >= endsAt {
		g.stuck = c.Name
	}
	return p
}

// leave is told of the result of a call, in the order of the calls, and returns
// what to add to it.
func (p pass) leave(result string) string {
	if p.refusal != "" {
		return ""
	}
	s := p.streak
	if s.last != result {
		s.since = p.nth
	}
	s.last = result
	if p.nth < warnedFrom {
		return ""
	}
	return fmt.Sprintf("\n[warning: this is the %s identical call in a row; "+
		"change the arguments, use another tool, or answer]", ordinal(p.nth))
}

// compact is args without space between its parts.
func compact(args json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, args) != nil {
		return string(args)
	}
	return b.String()
}

func ordinal(n int) string {
	suffix := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n, suffix)
}

// refusals remembers the tools that were refused and did not work afterwards.
type refusals []*refusal

type refusal struct {
	name string // as it was called
	err  *tool.RefusedError
}

// note takes in how a call ended; calls come in their order.
func (r *refusals) note(name string, refused *tool.RefusedError, failed bool) {
	at := slices.IndexFunc(*r, func(x *refusal) bool { return x.name == name })
	switch {
	case refused != nil && at < 0:
		*r = append(*r, &refusal{name, refused})
	case refused != nil:
		(*r)[at].err = refused
	case !failed && at >= 0:
		*r = slices.Delete(*r, at, at+1)
	}
}

func (r refusals) String() string {
	texts := make([]string, len(r))
	for i, x := range r {
		texts[i] = x.err.Error()
	}
	return strings.Join(texts, "; ")
}
