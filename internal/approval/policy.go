// Package approval decides whether a call of a tool may run.
//
// A [Policy] is what a person decided beforehand. It travels to every process of
// the tree, and is judged twice: by the [Gate], where the call is executed, and by
// the [Desk] at the root, where a person can be asked. A [Question] is a call that
// waits for a person, a [Face] is where that person sits.
//
//	model → Gate.Admit ─ allowed ────────────────────────▶ Tool.Run
//	           │ asked                                       ▲
//	           ▼                                             │ Decision
//	        (up to the root) Desk.Ask → queue → Face.Ask ────┘
//
// The Gate answers five questions about each call, in this order: is the tool
// offered to this agent, or why not; may an agent that only reads do it; is every
// path that it touches inside the working directory; what does the policy say;
// what does a person say. It believes what a tool tells about a call beforehand,
// and refuses whatever nobody decided.
//
// What is allowed for a tool in general, by the Policy or for the session, is not
// allowed for a call that is special ([tool.Intent]): each of those is asked about.
//
// The Desk shows one question at a time, in the order in which they came. The
// rest of the tree goes on meanwhile. Nothing waits for a person who is not there,
// and a question whose asker has gone is not shown any more.
//
// What is not promised: a path inside the working directory may be a link that
// leads out of it, which tools and kernel have to keep; and a process that has
// been taken over does not ask. What such a process can do is for the kernel to
// bound, not for this package.
package approval

import (
	"fmt"
	"slices"

	"qq/pkg/tool"
)

// Mode says what becomes of a call that is not harmless and that no list names.
type Mode string

// Modes. An unknown one is as Ask.
const (
	Ask  Mode = "ask"  // ask a person
	Auto Mode = "auto" // allow
	Deny Mode = "deny" // refuse
)

// ParseMode reads a Mode.
func ParseMode(s string) (Mode, error) {
	if m := Mode(s); m == Ask || m == Auto || m == Deny {
		return m, nil
	}
	return "", fmt.Errorf("unknown approval mode %q (accepted: %s, %s, %s)", s, Ask, Auto, Deny)
}

// Policy is what a person decided beforehand. The zero Policy asks.
type Policy struct {
	Mode Mode `json:"mode"`
	// Allow and Deny are names of tools. Who is on both is denied. Allow does not
	// cover calls that are special.
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Verdict is what a Policy says about a call.
type Verdict string

// Verdicts.
const (
	Allowed Verdict = "allowed"
	Refused Verdict = "refused"
	Asked   Verdict = "asked" // a person has to decide
)

// Judge decides about a call, and says why when it refuses.
func (p Policy) Judge(in tool.Intent) (Verdict, string) {
	switch {
	case slices.Contains(p.Deny, in.Tool):
		return Refused, "it is denied in this run"
	case p.Mode == Auto, in.Risk == tool.Low, slices.Contains(p.Allow, in.Tool) && !in.Special:
		return Allowed, ""
	case p.Mode == Deny:
		return Refused, "it needs an approval, and this run refuses what needs one"
	}
	return Asked, ""
}

// nobody is the reason for refusing a call that has to be asked about.
func nobody(in tool.Intent) string {
	if in.Special {
		return fmt.Sprintf("it needs an approval of its own (%s), and nobody can be asked here: "+
			"only --auto-approve or a person on the terminal can allow it", in.Summary)
	}
	return fmt.Sprintf("it needs an approval and nobody can be asked here: allow it with --allow %s, or everything with --auto-approve", in.Tool)
}
