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
	"qq/pkg/supervisor/access"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/plan/reference"
	"qq/pkg/task"
)

// Rules are what flags and settings say about the plan of a batch.
type Rules struct {
	Mode   access.Mode // which tasks are held apart
	Phases bool
}

// survey is what is known of the tasks of a batch when all have been looked at.
type survey struct {
	tasks   int
	targets bool // a task says what it touches
	order   bool // a task says what it needs, or how urgent it is
	writers int
}

// see takes t into account. writes says that it can change something.
func (s *survey) see(t task.Task, writes bool) {
	s.tasks++
	s.targets = s.targets || len(t.Targets) > 0
	s.order = s.order || len(t.Needs) > 0 || t.Priority != 0
	if writes {
		s.writers++
	}
}

// plans reports whether the batch is planned.
func (r Rules) plans(s survey) bool {
	return r.Phases || r.Mode == access.Strict || s.order || s.targets && r.Mode != access.Off
}

// apart reports whether tasks of the batch that may touch the same paths are held apart.
func (r Rules) apart(s survey) bool {
	return r.Mode == access.Strict || s.targets && r.Mode != access.Off
}

// unplanned says that tasks that can write run at once, though nobody knows what they touch. It returns "" if there are
// no two of them, and if the person has chosen that.
func (r Rules) unplanned(s survey) string {
	if r.Mode == access.Off || r.apart(s) || s.writers < 2 {
		return ""
	}
	return fmt.Sprintf("writers run unplanned: %d of %d tasks can change files, and none has targets "+
		"(--plan strict runs writers one at a time)", s.writers, s.tasks)
}

// plan plans the tasks of a batch. The error says what is wrong with their needs, their ids, or what they name of other
// tasks.
func (r Rules) plan(tasks iter.Seq2[task.Task, error], s survey, of Runner) (*plan.Plan, error) {
	var all []plan.Task
	uses := map[int][]reference.Reference{}
	for t, err := range tasks {
		if err != nil {
			return nil, err
		}
		if found := reference.Find(t.Text); len(found) > 0 {
			uses[len(all)] = found
		}
		all = append(all, of.Planned(t))
	}
	p, err := plan.New(all, plan.Options{Phases: r.Phases, Together: !r.apart(s)})
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
