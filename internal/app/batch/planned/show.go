package planned

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"qq/internal/app/columns"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/targets"
)

// Lines are a plan for people. The zero Lines have nothing.
type Lines struct {
	tasks   []plan.Described
	at      map[string]int // indexes by id
	Summary string
}

// Lines returns the plan for people, and nothing if there is none.
func (b *Batch) Lines(past Past) Lines {
	if b.Plan == nil {
		return Lines{}
	}
	d := b.Describe(past)
	l := Lines{tasks: d.Tasks, at: map[string]int{}, Summary: strings.Join(summary(d), "\n") + "\n"}
	for i, t := range d.Tasks {
		l.at[t.ID] = i
	}
	return l
}

// Fit returns lines of a plan for a terminal of that width; 0 means that it is none, for which tabs separate.
func Fit(text string, width int) string {
	if width == 0 {
		return text
	}
	text = strings.ReplaceAll(text, "\n\t", "\n    ")
	return columns.Wrap(strings.ReplaceAll(text, "\t", "  "), width)
}

// Name returns what the task at index i is called: its number, and its id and its priority if it has them.
func (l Lines) Name(i int) string {
	name := strconv.Itoa(i + 1)
	if l.tasks == nil {
		return name
	}
	t := l.tasks[i]
	if t.ID != name && t.ID != "#"+name {
		name += " " + t.ID
	}
	if t.Priority != 0 {
		name += fmt.Sprintf(" (priority %d)", t.Priority)
	}
	return name
}

// maxWaits is how many waits of a task are shown; the JSON has all.
const maxWaits = 5

// Waits returns a sentence for each task that the one at index i waits for.
func (l Lines) Waits(i int) []string {
	if l.tasks == nil {
		return nil
	}
	var lines, first []string
	waits := l.tasks[i].WaitsFor
	for k, b := range waits {
		if b.Reason == plan.Phase { // they are the last ones
			first = append(first, b.ID)
			continue
		}
		if k == maxWaits && len(waits) > maxWaits+1 {
			return append(lines, fmt.Sprintf("and after %d more", len(waits)-k))
		}
		lines = append(lines, l.sentence(l.tasks[i], b))
	}
	if len(first) > 0 {
		lines = append(lines, "after all that gather information: "+list(first, maxWaits))
	}
	return lines
}

// sentence says why the task t waits for another.
func (l Lines) sentence(t plan.Described, b plan.Blame) string {
	paths := list(b.Paths, 3)
	if len(b.Paths) == plan.MaxPaths { // there may be more than are known
		paths = strings.Join(b.Paths[:3], ", ") + " and many more"
	}
	other := l.tasks[l.at[b.ID]]
	why := ""
	switch b.Reason {
	case plan.Need:
		why = "it needs the result"
	case plan.Undecided:
		why = "there are too many globs to compare, so they count as touching the same files"
	case plan.BothWrite:
		why = cmp.Or(anything(t, other, "write"), "both write "+paths)
	case plan.ReadsAfter:
		why = cmp.Or(anything(t, other, "read"), "this reads "+paths+", which "+b.ID+" writes")
		if imports := list(b.Imports, 2); imports != "" {
			why = imports + ", which " + b.ID + " writes"
		}
	case plan.WriteAfter:
		why = cmp.Or(anything(t, other, "write"), "this writes "+paths+", which "+b.ID+" reads")
		if imports := list(b.Imports, 2); imports != "" {
			why = imports + ", which this writes"
		}
	}
	return "after " + b.ID + ": " + why
}

// anything says that a task may touch anything, because it has no targets. It returns "" if both have some. does is
// what the task t does.
func anything(t, other plan.Described, does string) string {
	switch {
	case len(t.Targets) == 0 && len(other.Targets) == 0 && t.Effect == other.Effect:
		return "both have no targets, so they may " + does + " anything"
	case len(other.Targets) == 0:
		return other.ID + " has no targets, so it may " + strings.TrimSuffix(other.Effect, "s") + " anything"
	case len(t.Targets) == 0:
		return "this has no targets, so it may " + does + " anything"
	}
	return ""
}

// maxListed is how many tasks of a stage are listed.
const maxListed = 20

// summary returns what is said of the plan as a whole, in lines.
func summary(d plan.Description) []string {
	s := d.Summary
	lines := []string{"order: " + list(s.Order, maxListed)}
	if s.Stages == s.Tasks { // a chain: there is nothing else to say about it
		lines = append(lines, "at once: 1: each task waits for the one before it")
	} else {
		for k, stage := range d.Stages {
			if k == maxListed && len(d.Stages) > maxListed+1 {
				lines = append(lines, fmt.Sprintf("and %d more stages", len(d.Stages)-k))
				break
			}
			lines = append(lines, fmt.Sprintf("stage %d: %s", k+1, list(stage, maxListed)))
		}
		lines = append(lines,
			fmt.Sprintf("at once: %d at most (-j %d)", s.Peak, s.Jobs),
			fmt.Sprintf("longest chain: %d of %d tasks: %s", len(s.LongestChain), s.Tasks,
				list(s.LongestChain, maxListed)))
	}
	if n := wild(d); n > 0 {
		const text = "without targets: %d of %d tasks: with targets, fewer tasks wait"
		lines = append(lines, fmt.Sprintf(text, n, s.Tasks))
	}
	switch {
	case s.Seconds == nil:
		return append(lines, "time: not known, these agents have not completed a task before")
	case s.Known < s.Tasks:
		return append(lines, fmt.Sprintf("time: about %s, from earlier tasks (%d tasks have an agent without any)",
			round(*s.Seconds), s.Tasks-s.Known))
	}
	return append(lines, fmt.Sprintf("time: about %s, from earlier tasks of these agents", round(*s.Seconds)))
}

// wild returns how many tasks others wait for, or wait themselves, because they have no targets.
func wild(d plan.Description) int {
	var tasks, waits int
	for _, t := range d.Tasks {
		if len(t.Targets) == 0 && t.Effect != targets.None.String() {
			tasks++
		}
		for _, w := range t.WaitsFor {
			if w.Reason != plan.Need && w.Reason != plan.Phase && len(w.Paths) == 0 {
				waits++
			}
		}
	}
	if waits == 0 {
		return 0
	}
	return tasks
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
	phases, last := false, -1
	for _, t := range d.Tasks {
		for _, w := range t.WaitsFor {
			switch {
			case w.Reason == plan.Phase && last == t.Index:
			case w.Reason == plan.Phase:
				fmt.Fprintf(&b, "  phase --> t%d\n", t.Index)
				phases, last = true, t.Index
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
