// Package planned makes the plan of a batch from its tasks, and shows it.
//
// A batch is planned if one of its tasks says what it touches or needs, or if a flag asks for it. Its
// tasks are read whole before the first one starts. Of any other batch all tasks may run at once.
package planned

import (
	"fmt"
	"iter"
	"slices"

	"qq/pkg/spelling"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/plan/reference"
	"qq/pkg/task"
)

// Modes of --plan.
const (
	Auto   = "auto"   // tasks of a person are held apart if one of them says what it touches
	Strict = "strict" // they always are: a task that writes, and does not say what, runs alone
	Off    = "off"    // they never are: only needs and priorities count
)

// Outliner says what a plan has to know of a task.
type Outliner interface {
	// Outline returns what t can do, and its targets as real paths.
	Outline(t task.Task) plan.Task
}

// Rules are what flags and settings say about the plan of a batch.
type Rules struct {
	Mode   string // see [Auto]
	Phases bool
}

// Survey is what is known of the tasks of a batch when all have been looked at.
type Survey struct {
	tasks   int
	targets bool // a task says what it touches
	order   bool // a task says what it needs, or how urgent it is
	writers int
}

// See takes t into account. writes says that it can change something.
func (s *Survey) See(t task.Task, writes bool) {
	s.tasks++
	s.targets = s.targets || len(t.Targets) > 0
	s.order = s.order || len(t.Needs) > 0 || t.Priority != 0
	if writes {
		s.writers++
	}
}

// Plans reports whether the batch is planned.
func (r Rules) Plans(s Survey) bool {
	return r.Phases || r.Mode == Strict || s.order || s.targets && r.Mode != Off
}

// Apart reports whether tasks of the batch that may touch the same paths are held apart.
func (r Rules) Apart(s Survey) bool { return r.Mode == Strict || s.targets && r.Mode != Off }

// Unplanned says that tasks that can write run at once, though nobody knows what they touch. It returns "" if there are
// no two of them, and if the person has chosen that.
func (r Rules) Unplanned(s Survey) string {
	if r.Mode == Off || r.Apart(s) || s.writers < 2 {
		return ""
	}
	return fmt.Sprintf("writers run unplanned: %d of %d tasks can change files, and none has targets "+
		"(--plan strict runs writers one at a time)", s.writers, s.tasks)
}

// New plans the tasks of a batch. The error says what is wrong with their needs, their ids, or what they name of other
// tasks.
func (r Rules) New(tasks iter.Seq2[task.Task, error], s Survey, of Outliner) (*plan.Plan, error) {
	var all []plan.Task
	uses := map[int][]reference.Reference{}
	for t, err := range tasks {
		if err != nil {
			return nil, err
		}
		if found := reference.Find(t.Text); len(found) > 0 {
			uses[len(all)] = found
		}
		all = append(all, of.Outline(t))
	}
	p, err := plan.New(all, plan.Options{Phases: r.Phases, Together: !r.Apart(s)})
	if err != nil {
		return nil, err
	}
	return p, check(all, uses)
}

// check returns an error if a task names the result of one that it does not need. uses are the references of tasks, by
// their index. In a task that needs nothing, a name that no task has is no reference.
func check(tasks []plan.Task, uses map[int][]reference.Reference) error {
	if len(uses) == 0 {
		return nil
	}
	var ids []string
	for _, t := range tasks {
		if t.ID != "" {
			ids = append(ids, t.ID)
		}
	}
	for i, t := range tasks {
		for _, use := range uses[i] {
			known := slices.Contains(ids, use.ID)
			if slices.Contains(t.Needs, use.ID) || !known && len(t.Needs) == 0 {
				continue
			}
			hint := fmt.Sprintf("add %q to its needs", use.ID)
			if !known {
				hint = spelling.DidYouMean(spelling.Nearest(use.ID, t.Needs)) + "it needs: " + list(t.Needs, 10)
			}
			return task.Hinted(hint, "task %d uses the result of %q, which is not in its needs", i+1,
				task.Shorten(use.ID, 40))
		}
	}
	return nil
}
