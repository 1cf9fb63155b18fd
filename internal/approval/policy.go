// Package approval decides whether a call of a tool may run.
//
// A [Policy] holds what a person decided beforehand. It travels to every process of
// the tree and is judged twice: by the [Gate], in the process that executes the
// call, and by the [Queue] at the root, where a person can be asked. A
// [tool.Question] is a call that waits for a person. A [Prompter] asks that person:
// [Terminal] does so on the controlling terminal.
//
//	model → Gate.Admit ─ allowed ────────────────────────────▶ Tool.Run
//	           │ asked                                           ▲
//	           ▼                                                 │ Decision
//	        (up to the root) Queue.Ask → queue → Prompter.Ask ───┘
//
// The Gate checks each call in this order: is the tool offered to this agent, or why
// not; may a read-only agent make the call; is every path that it touches inside the
// working directory; what does the policy say; what does a person say. It trusts
// what a tool reports about a call in advance ([tool.Intent]), and refuses a call
// that nobody decided about.
//
// Allowing a tool in general, by the Policy or for the session, does not cover calls
// that are special: each of those is asked about.
//
// The Queue shows one question at a time, in the order of arrival, while the rest of
// the tree keeps working. With nobody to ask, it refuses at once. A question whose
// asker has gone is not shown.
//
// Not promised: a path inside the working directory may be a link that leads out of
// it; tools and kernel guard against that. A process that has been taken over does
// not ask; only the kernel bounds such a process.
package approval

import (
	"fmt"
	"slices"

	"qq/pkg/tool"
)

// Mode says what happens to a risky call of a tool that is neither on the Allow nor on the Deny
// list.
type Mode string

// Modes. An unknown one counts as Ask.
const (
	Ask  Mode = "ask"  // ask a person
	Auto Mode = "auto" // allow
	Deny Mode = "deny" // refuse
)

// Policy is what a person decided beforehand. The zero Policy asks.
type Policy struct {
	Mode Mode `json:"mode"`
	// Allow and Deny are names of tools. A tool on both is denied. Allow does not
	// cover special calls.
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Verdict is the decision of a Policy about a call.
type Verdict string

// Verdicts.
const (
	Allowed Verdict = "allowed"
	Refused Verdict = "refused"
	Asked   Verdict = "asked" // a person has to decide
)

// Judge returns the verdict about a call, and the reason if it is Refused.
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

// nobody returns why a call is refused that needs an approval when nobody can be asked.
func nobody(in tool.Intent) string {
	if in.Special {
		return fmt.Sprintf("it needs an approval of its own (%s), and nobody can be asked here: "+
			"only --auto-approve or a person on the terminal can allow it", in.Summary)
	}
	return fmt.Sprintf("it needs an approval and nobody can be asked here: "+
		"allow it with --allow %s, or everything with --auto-approve", in.Tool)
}
