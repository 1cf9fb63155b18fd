package loop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// Identical calls in a row get a warning from the number warnedFrom on. If they also have
// the same result, they are refused from the number refusedFrom on, and the run ends at
// endsAt.
const (
	warnedFrom  = 3
	refusedFrom = 6
	endsAt      = 10
)

// guard checks the calls of a run in order and stops an agent that repeats itself.
//
// Calls are identical if name and arguments are. Warnings count identical calls. Refusals
// count identical calls with the same result, so that a call whose results differ, such as
// waiting for children, may be repeated. Identical calls that run in parallel count as
// calls with the same result, because the agent made them before it saw any result.
type guard struct {
	streak *streak
	stuck  string // the tool whose calls end the run, or ""
}

// streak is a series of identical calls in a row.
type streak struct {
	key   string
	calls int
	since int    // number of the first of the latest calls, all of which had the same result
	last  string // the last result
}

// pass is the decision of the guard about one call.
type pass struct {
	streak  *streak
	nth     int    // number of the call in its streak, from 1
	refusal string // the reason why the call is not run, or ""
}

// enter decides whether the next call runs. It sets g.stuck if the run has to end.
func (g *guard) enter(c tool.Call) *pass {
	if g.stuck != "" {
		return &pass{refusal: "Error: not run: the run ends because of repeated calls"}
	}
	key := c.Name + "\x00" + compact(c.Arguments)
	if g.streak == nil || g.streak.key != key {
		g.streak = &streak{key: key, since: 1}
	}
	s := g.streak
	s.calls++
	p := &pass{streak: s, nth: s.calls}
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

// leave records the result of the call. The caller calls it in the order of the calls.
func (p *pass) leave(result string) {
	if p.refusal != "" {
		return
	}
	s := p.streak
	if s.last != result {
		s.since = p.nth
	}
	s.last = result
}

// warning returns the warning to append to the result, or "" for none.
func (p *pass) warning() string {
	if p.refusal != "" || p.nth < warnedFrom {
		return ""
	}
	return fmt.Sprintf("\n[warning: this is the %s identical call in a row; "+
		"change the arguments, use another tool, or answer]", ordinal(p.nth))
}

// compact returns args without insignificant white space.
func compact(args json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, args) != nil {
		return string(args)
	}
	return b.String()
}

// ordinal formats n as an ordinal number, such as "3rd" or "11th".
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

// refusals are the tools that were refused and have not worked since. While there are any,
// the task ends as refused.
type refusals []*refusal

type refusal struct {
	name string // of the tool, as the model wrote it
	err  *tool.RefusedError
}

// note updates the refusals with the outcome of a call of the tool name: refused adds it, a
// call that works removes it. The caller calls note in the order of the calls.
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

// String joins the reasons of all refusals, and below them the hints.
func (r refusals) String() string {
	var texts, hints []string
	for _, x := range r {
		texts = append(texts, x.err.Error())
		if x.err.Hint != "" {
			hints = append(hints, x.err.Hint)
		}
	}
	e := task.Error{Problem: strings.Join(texts, "; "), Hint: strings.Join(hints, "; ")}
	return e.Error()
}
