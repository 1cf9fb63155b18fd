package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"qq/pkg/supervisor/targets"
)

// Description is a plan as people and scripts see it. A task without an id is called by its number in the
// input, from 1, or as #1 if ids are numbers.
type Description struct {
	Tasks []Described `json:"tasks"` // in input order
	// Stages are the tasks by how many others each has to wait for, one after another. They show what can run at
	// once; no task waits for a stage.
	Stages  [][]string `json:"stages"`
	Summary Summary    `json:"summary"`
}

// Described is one task of a [Description].
type Described struct {
	ID       string   `json:"id"`
	Index    int      `json:"index"` // as in results, from 0
	Agent    string   `json:"agent"`
	Role     string   `json:"role"`
	Effect   string   `json:"effect"`
	Targets  []string `json:"targets"` // real paths, relative where they can be; none is anything
	Needs    []string `json:"needs"`
	Priority int      `json:"priority"`
	WaitsFor []Blame  `json:"waits_for"`
	Stage    int      `json:"stage"` // from 1
}

// Blame is one task that another one waits for, and why.
type Blame struct {
	ID     string   `json:"id"`
	Reason Reason   `json:"reason"`
	Paths  []string `json:"paths"`
	// Imports say why a task that reads touches a path that it does not name.
	Imports []string `json:"imports,omitempty"`
}

// Summary is what is said of a plan as a whole.
type Summary struct {
	Tasks  int `json:"tasks"`
	Stages int `json:"stages"`
	Jobs   int `json:"jobs"` // how many may run at once
	Peak   int `json:"peak"` // how many do
	// LongestChain are the tasks that decide how long it takes at least: each waits for the one before it.
	LongestChain []string `json:"longest_chain"`
	Order        []string `json:"order"` // in which the tasks start
	// Seconds is how long it takes, if each task takes what earlier ones of its agent did; null if none is known.
	// Known is for how many tasks that is known; the others count as the average.
	Seconds *float64 `json:"estimate_s"`
	Known   int      `json:"estimate_known"`
}

// Circumstances are what the plan itself does not know.
type Circumstances struct {
	Root  string                   // paths below it are shown relative to it
	Jobs  int                      // how many tasks may run at once
	Usual map[string]time.Duration // how long earlier tasks of an agent took
}

// Describe returns the plan as people and scripts see it.
func (p *Plan) Describe(c Circumstances) Description {
	n := p.Len()
	d := Description{Tasks: make([]Described, n), Stages: [][]string{}}
	budget := targets.NewBudget(allSteps / 2)
	seen := map[string]bool{}
	first := p.firstPhase()
	for i, t := range p.tasks {
		d.Tasks[i] = Described{
			ID: p.id(i), Index: i, Agent: t.Agent, Role: t.Role, Effect: t.Effect.String(), Targets: []string{},
			Needs: append([]string{}, t.Needs...), Priority: t.Priority, WaitsFor: []Blame{},
		}
		clear(seen)
		for _, target := range t.Targets {
			if path := c.show(target.String()); !seen[path] {
				seen[path] = true
				d.Tasks[i].Targets = append(d.Tasks[i].Targets, path)
			}
		}
		for _, w := range p.waits(i, budget) {
			if w.Reason == Phase {
				d.Tasks[i].WaitsFor = append(d.Tasks[i].WaitsFor, first...)
				continue
			}
			b := Blame{ID: p.id(w.On), Reason: w.Reason, Paths: []string{}}
			for _, path := range w.Paths {
				b.Paths = append(b.Paths, c.show(path))
			}
			d.Tasks[i].WaitsFor = append(d.Tasks[i].WaitsFor, b)
		}
	}
	takes, known := p.durations(c.Usual)
	stages, longest := p.chains(takes)
	r := p.rehearse(max(c.Jobs, 1), takes)
	for _, i := range r.order {
		for len(d.Stages) < stages[i] {
			d.Stages = append(d.Stages, nil)
		}
		d.Tasks[i].Stage = stages[i]
		d.Stages[stages[i]-1] = append(d.Stages[stages[i]-1], p.id(i))
	}
	d.Summary = Summary{
		Tasks: n, Stages: len(d.Stages), Jobs: max(c.Jobs, 1), Peak: r.peak, Known: known,
		LongestChain: p.ids(longest), Order: p.ids(r.order),
	}
	if known > 0 {
		seconds := r.end.Seconds()
		d.Summary.Seconds = &seconds
	}
	return d
}

// firstPhase returns the tasks that those of the second phase wait for, 100 at most.
func (p *Plan) firstPhase() []Blame {
	var first []Blame
	for i := range p.second {
		if !p.second[i] && len(first) < MaxPaths {
			first = append(first, Blame{ID: p.id(i), Reason: Phase, Paths: []string{}})
		}
	}
	return first
}

// show returns a path as people write it.
func (c Circumstances) show(path string) string {
	if path == c.Root {
		return "."
	}
	return strings.TrimPrefix(path, strings.TrimSuffix(c.Root, "/")+"/")
}

// id returns what the task at index i is called: its id or its number.
func (p *Plan) id(i int) string {
	if p.numeric {
		return cmp.Or(p.tasks[i].ID, "#"+strconv.Itoa(i+1))
	}
	return cmp.Or(p.tasks[i].ID, strconv.Itoa(i+1))
}

func (p *Plan) ids(indexes []int) []string {
	ids := make([]string, len(indexes))
	for k, i := range indexes {
		ids[k] = p.id(i)
	}
	return ids
}

// durations returns how long each task takes, and of how many that is known. The others take the average of those.
// If none is known, each takes a second.
func (p *Plan) durations(usual map[string]time.Duration) (takes []time.Duration, known int) {
	takes = make([]time.Duration, p.Len())
	average, sum := time.Second, time.Duration(0)
	for i, t := range p.tasks {
		if usual[t.Agent] > 0 {
			takes[i] = usual[t.Agent]
			sum += takes[i]
			known++
		}
	}
	if known > 0 {
		average = sum / time.Duration(known)
	}
	for i := range takes {
		takes[i] = cmp.Or(takes[i], average)
	}
	return takes, known
}

// chains returns the stage of each task, and the chain of tasks that takes longest.
func (p *Plan) chains(takes []time.Duration) (stages, longest []int) {
	n := p.Len()
	stages = make([]int, n)
	ends, before := make([]time.Duration, n), make([]int, n)
	last, first := -1, -1 // that end last, of all and of the first phase
	deepest := 0          // stage of the first phase
	for _, i := range p.Order() {
		before[i] = -1
		after := func(on, stage int) {
			stages[i] = max(stages[i], stage)
			if before[i] < 0 || ends[on] > ends[before[i]] {
				before[i] = on
			}
		}
		for _, on := range slices.Concat(p.needs[i], p.conflicts[i]) {
			after(int(on), stages[on])
		}
		second := p.second != nil && p.second[i]
		if second && first >= 0 {
			after(first, deepest)
		}
		stages[i]++
		if ends[i] = takes[i]; before[i] >= 0 {
			ends[i] += ends[before[i]]
		}
		if last < 0 || ends[i] > ends[last] {
			last = i
		}
		if !second {
			deepest, first = max(deepest, stages[i]), last
		}
	}
	for ; last >= 0; last = before[last] {
		longest = append(longest, last)
	}
	slices.Reverse(longest)
	return stages, longest
}

// rehearsal is how a batch goes if nothing fails.
type rehearsal struct {
	order []int // in which the tasks start
	peak  int
	end   time.Duration
}

// rehearse runs the batch with so many jobs, of which each task takes as long as takes says.
func (p *Plan) rehearse(jobs int, takes []time.Duration) rehearsal {
	var r rehearsal
	var running []int
	ends := make([]time.Duration, p.Len())
	q := p.Queue()
	for q.Left() > 0 {
		for len(running) < jobs {
			i, ok := q.Next()
			if !ok {
				break
			}
			r.order = append(r.order, i)
			ends[i] = r.end + takes[i]
			running = append(running, i)
		}
		r.peak = max(r.peak, len(running))
		r.end = ends[slices.MinFunc(running, func(a, b int) int { return cmp.Compare(ends[a], ends[b]) })]
		running = slices.DeleteFunc(running, func(i int) bool {
			if ends[i] == r.end {
				q.End(i, true)
			}
			return ends[i] == r.end
		})
	}
	return r
}
