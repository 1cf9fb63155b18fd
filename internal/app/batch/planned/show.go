package planned

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"qq/pkg/supervisor/plan"
)

// Lines are a plan for people. The zero Lines have nothing.
type Lines struct {
	tasks   []plan.Described
	Summary string
}

// Lines returns the plan for people, and nothing if there is none.
func (b *Batch) Lines(past Past) Lines {
	if b.Plan == nil {
		return Lines{}
	}
	d := b.Describe(past)
	return Lines{d.Tasks, strings.Join(summary(d), "\n") + "\n"}
}

// maxWaits is how many waits of a task are shown; the JSON has all.
const maxWaits = 5

// Waits returns a sentence for each task that the one at index i waits for.
func (l Lines) Waits(i int) []string {
	if l.tasks == nil {
		return nil
	}
	var lines []string
	waits := l.tasks[i].WaitsFor
	for k, b := range waits {
		if k == maxWaits && len(waits) > maxWaits+1 {
			return append(lines, fmt.Sprintf("and after %d more", len(waits)-k))
		}
		lines = append(lines, sentence(b))
	}
	return lines
}

// sentence says why a task waits.
func sentence(b plan.Blame) string {
	paths := list(b.Paths, 3)
	anything := len(b.Paths) == 0
	why := ""
	switch b.Reason {
	case plan.Phase:
		return "after all that gather information"
	case plan.Need:
		why = "it needs the result"
	case plan.BothWrite:
		why = "both write " + cmp.Or(paths, "anything")
	case plan.ReadsAfter:
		if why = "this reads " + paths + ", which " + b.ID + " writes"; anything {
			why = b.ID + " may write anything"
		}
	case plan.WriteAfter:
		if why = "this writes " + paths + ", which " + b.ID + " reads"; anything {
			why = b.ID + " may read anything"
		}
	}
	return "after " + b.ID + ": " + why
}

// maxListed is how many tasks of a stage are listed.
const maxListed = 20

// summary returns what is said of the plan as a whole, in lines.
func summary(d plan.Description) []string {
	s := d.Summary
	lines := []string{"order: " + list(s.Order, maxListed)}
	for k, stage := range d.Stages {
		if k == maxListed && len(d.Stages) > maxListed+1 {
			lines = append(lines, fmt.Sprintf("and %d more stages", len(d.Stages)-k))
			break
		}
		lines = append(lines, fmt.Sprintf("stage %d: %s", k+1, list(stage, maxListed)))
	}
	lines = append(lines,
		fmt.Sprintf("at once: %d at most, of %d jobs", s.Peak, s.Jobs),
		fmt.Sprintf("longest chain: %d of %d tasks: %s", len(s.LongestChain), s.Tasks, list(s.LongestChain, maxListed)))
	switch {
	case s.Seconds == nil:
		return append(lines, "time: not known, these agents have not completed a task before")
	case s.Known < s.Tasks:
		return append(lines, fmt.Sprintf("time: about %s, from earlier tasks of the agents of %d of the %d tasks",
			round(*s.Seconds), s.Known, s.Tasks))
	}
	return append(lines, fmt.Sprintf("time: about %s, from earlier tasks of these agents", round(*s.Seconds)))
}

// round returns a time as precise as it is an estimate.
func round(seconds float64) time.Duration {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(time.Second / 10)
	}
	return max(d.Round(time.Millisecond), time.Millisecond)
}

// list returns names with commas, at most so many.
func list(names []string, most int) string {
	if more := len(names) - most; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Chart returns the plan as a flow chart of Mermaid. Arrows for needs are solid, those for conflicts are dotted.
func Chart(d plan.Description) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	at := map[string]int{}
	for _, t := range d.Tasks {
		at[t.ID] = t.Index
		fmt.Fprintf(&b, "  t%d[\"%s<br/>%s\"]\n", t.Index, quoted(t.ID), quoted(t.Agent))
	}
	phases := false
	for _, t := range d.Tasks {
		for _, w := range t.WaitsFor {
			switch {
			case w.Reason == plan.Phase:
				fmt.Fprintf(&b, "  phase --> t%d\n", t.Index)
				phases = true
			case w.Reason == plan.Need:
				fmt.Fprintf(&b, "  t%d --> t%d\n", at[w.ID], t.Index)
			default:
				label := cmp.Or(list(w.Paths, 3), "anything")
				fmt.Fprintf(&b, "  t%d -. \"%s\" .-> t%d\n", at[w.ID], quoted(label), t.Index)
			}
		}
	}
	if !phases {
		return b.String()
	}
	b.WriteString("  phase([\"all that gather information\"])\n")
	for _, t := range d.Tasks {
		if !slices.ContainsFunc(t.WaitsFor, func(w plan.Blame) bool { return w.Reason == plan.Phase }) {
			fmt.Fprintf(&b, "  t%d --> phase\n", t.Index)
		}
	}
	return b.String()
}

// quoted returns text for a label between quotes.
func quoted(text string) string {
	return strings.NewReplacer("&", "#amp;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "#", "#35;", "\n", " ").
		Replace(text)
}
