// Package approval decides whether a call of a tool may run.
//
// A [Policy] holds what a person decided beforehand. It travels to every process of
// the tree and is judged twice: by the [Gate], in the process that executes the
// call, and by the [Queue] at the root, where a person can be asked. A
// [tool.Question] is a call that waits for a person. A [Prompter] asks that person:
// package qq/internal/approval/dialog does so on the controlling terminal.
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
// that are special: each of those is asked about. A rule with a pattern (package
// qq/internal/approval/rules) allows some calls of a tool; those do exactly what the
// rule could see. A person can make such a rule for good with an answer; the [Lasting]
// rules answer for that person from then on.
//
// Several questions may be open at once, while the rest of the tree keeps working. A person answers them in any
// order: the Prompter asks about one after the other, and a face that is connected to the root uses [Queue.Answer].
// The first answer counts. With nobody to ask, the Queue refuses at once. A question whose asker has gone is
// withdrawn.
//
// Not promised: a path inside the working directory may be a link that leads out of
// it; tools and kernel guard against that. A process that has been taken over does
// not ask; only the kernel bounds such a process.
package approval

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"qq/internal/approval/rules"
	"qq/pkg/task"
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
	// Allow and Deny are rules. A call that is on both is denied. Allow does not
	// cover special calls.
	Allow []rules.Rule `json:"allow,omitempty"`
	Deny  []rules.Rule `json:"deny,omitempty"`
	// Root is the real path of the working directory of the run. The paths of rules begin there.
	Root string `json:"root,omitempty"`
	// Home is the real path of the home directory of the user; empty means none. There, in a folder above it and in
	// the root of all folders, Allow covers no change until a person has confirmed one.
	Home string `json:"home,omitempty"`
}

// Denied returns the tools, and the calls of tools, that nobody may make.
func (p Policy) Denied() (list []string) {
	for _, r := range p.Deny {
		list = append(list, r.String())
	}
	return list
}

// Verdict is the decision of a Policy about a call.
type Verdict string

// Verdicts.
const (
	Allowed Verdict = "allowed"
	Refused Verdict = "refused"
	Asked   Verdict = "asked" // a person has to decide
)

// Judge returns the verdict about a call of an agent that works in the folder with the real path
// dir; empty means Root. A call that a denying rule suspects is Asked, whatever allows it. why is the
// reason if the call is Refused, and the rule if one with a pattern allowed it.
func (p Policy) Judge(in tool.Intent, dir string) (v Verdict, why string) {
	folder := p.folder(dir)
	for _, r := range p.Deny {
		switch {
		case !r.Touches(in, folder):
		case r.Pattern == "":
			return Refused, "it is denied in this run"
		default:
			return Refused, fmt.Sprintf("the rule %s denies it", r)
		}
	}
	r, ok := covering(p.Allow, in, folder)
	ok = ok && p.wide(in, dir) == ""
	switch {
	case in.Denier != "" && p.Mode != Deny:
		return Asked, ""
	case p.Mode == Auto, in.Risk == tool.Low:
		return Allowed, ""
	case ok && r.Pattern == "":
		return Allowed, ""
	case ok:
		return Allowed, r.String()
	case p.Mode == Deny:
		return Refused, "it needs an approval, and this run refuses what needs one"
	}
	return Asked, ""
}

// suspected returns in as a call that needs an approval of its own, if one of the denying rules may mean it.
func suspected(in tool.Intent, denying []rules.Rule) tool.Intent {
	if i := slices.IndexFunc(denying, func(r rules.Rule) bool { return r.Suspects(in) }); i >= 0 && in.Denier == "" {
		in.Denier, in.Special = denying[i].String(), true
		in.Summary += fmt.Sprintf(" (the rule %s may deny it)", in.Denier)
	}
	return in
}

// covering returns the rule that allows a call which is not special: one for the whole tool before
// one with a pattern.
func covering(list []rules.Rule, in tool.Intent, folder string) (found rules.Rule, ok bool) {
	for _, r := range list {
		if in.Special || !r.Covers(in, folder) {
			continue
		}
		if r.Pattern == "" {
			return r, true
		}
		found, ok = r, true
	}
	return found, ok
}

// folder returns dir relative to Root, with slashes. Outside of Root no pattern of paths matches.
func (p Policy) folder(dir string) string {
	if dir == "" || dir == p.Root {
		return ""
	}
	rel, err := filepath.Rel(p.Root, dir)
	if err != nil {
		return ".."
	}
	return filepath.ToSlash(rel)
}

// wide describes the folder dir, as for Judge, if a call could change something there and it is the home directory of
// the user, a folder above it, or the root of all folders. Else it returns "".
func (p Policy) wide(in tool.Intent, dir string) string {
	dir = cmp.Or(dir, p.Root)
	if in.Effect != tool.Writes && in.Effect != tool.Executes || p.Home == "" || dir == "" {
		return ""
	}
	switch rel, err := filepath.Rel(dir, p.Home); {
	case dir == string(filepath.Separator):
		return "the root of the file system"
	case err != nil || !filepath.IsLocal(rel):
		return ""
	case rel == ".":
		return "your home directory"
	}
	return "a folder above your home directory"
}

// unasked returns why a call in the folder dir is refused when nobody can be asked. list are the rules that could have
// allowed it.
func (p Policy) unasked(in tool.Intent, dir string, list []rules.Rule) string {
	_, ok := covering(list, in, p.folder(dir))
	if wide := p.wide(in, dir); ok && wide != "" {
		return fmt.Sprintf("it needs an approval because the working directory is %s, and nobody can be asked here: "+
			"name a folder of the project with -C, or allow everything with --auto-approve", wide)
	}
	return nobody(in, list)
}

// nobody returns why a call is refused that needs an approval when nobody can be asked. list are the rules that could
// have allowed it.
func nobody(in tool.Intent, list []rules.Rule) string {
	if in.Denier != "" {
		return fmt.Sprintf("the rule %s may deny it, which its words do not tell, and nobody can be asked here: "+
			"call the program itself, without an alias, inline code or a launcher", in.Denier)
	}
	if in.Special {
		return fmt.Sprintf("it needs an approval of its own (%s), and nobody can be asked here: "+
			"only --auto-approve or a person on the terminal can allow it", in.Summary)
	}
	doubt := ""
	if in.Doubt != "" && slices.ContainsFunc(list, func(r rules.Rule) bool { return r.Tool == in.Tool }) {
		doubt = fmt.Sprintf("no pattern can allow it (%s), ", in.Doubt)
	}
	return fmt.Sprintf("it needs an approval and nobody can be asked here: "+
		"%sallow it with --allow %s, or everything with --auto-approve", doubt, in.Tool)
}

// maxOffered is the longest rule that is offered, in bytes: a person must see all of it.
const maxOffered = 200

// exactly returns the rule of [rules.Exactly], if a person can read it whole.
func exactly(in tool.Intent) (r rules.Rule, ok bool) {
	r, ok = rules.Exactly(in)
	text := r.String()
	return r, ok && len(text) <= maxOffered && tool.Visible(text) == text
}

// narrow returns a hint for a person: which call of an agent in the folder dir was refused, and the narrowest rule
// that allows it, if there is one. A special call is named in the reason itself.
func (p Policy) narrow(in tool.Intent, dir string) string {
	if in.Special || in.Summary == "" {
		return ""
	}
	call := strconv.Quote(task.Shorten(strings.Join(strings.Fields(in.Summary), " "), 200))
	if r, ok := exactly(in); ok && r.Covers(in, p.folder(dir)) && p.wide(in, dir) == "" {
		// A shell takes all in single quotes as it is, but the single quote.
		return "--allow '" + strings.ReplaceAll(r.String(), "'", `'\''`) + "' is enough for this call: " + call
	}
	return "the call was " + call
}

// tooLong returns why a call is refused that is too long to be shown whole.
func tooLong(in tool.Intent) string {
	how := "; without a question it runs with --allow " + in.Tool
	switch {
	case in.Denier != "":
		how = ""
	case in.Special:
		how = "; without a question it runs with --auto-approve"
	}
	return "it is too long to be shown to the user whole, and the user can only allow what was shown: " +
		"make it in smaller steps" + how
}
