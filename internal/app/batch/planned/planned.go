// Package planned makes the plan of a batch from its tasks, and shows it.
//
// A batch is planned if one of its tasks says what it touches or needs, or if a flag asks for it. Its
// tasks are read whole before the first one starts. Of any other batch all tasks may run at once.
package planned

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"qq/internal/imports"
	"qq/pkg/supervisor/access"
	"qq/pkg/supervisor/needs"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/plan/reference"
	"qq/pkg/task"
)

// Rules are what flags and settings say about the plan of a batch.
type Rules struct {
	Mode    access.Mode // which tasks are held apart
	Phases  bool
	Imports *imports.Graph // of the files of the project; nil means that imports do not count
	Copies  string         // of the folder, in which tasks work that can write; "off" or empty means none
	DryRun  bool
}

// survey is what is known of the tasks of a batch when all have been looked at.
type survey struct {
	tasks   int
	targets bool // a task says what it touches
	order   bool // a task says what it needs, or how urgent it is
	writers int
	unbound int  // those of them that do not say what they touch
	ids     bool // a task has an id
	uses    bool // a text or a context seems to name the result of another task
}

// see takes t into account. writes says that it can change something.
func (s *survey) see(t task.Task, writes bool) {
	s.tasks++
	s.targets = s.targets || len(t.Targets) > 0
	s.order = s.order || len(t.Needs) > 0 || t.Priority != 0
	s.ids = s.ids || t.ID != ""
	s.uses = s.uses || len(reference.Find(t.Text)) > 0 || len(reference.Find(t.Context)) > 0
	if writes {
		s.writers++
	}
	if writes && len(t.Targets) == 0 {
		s.unbound++
	}
}

// plans reports whether the batch is planned.
func (r Rules) plans(s survey) bool {
	return r.Phases || r.Mode == access.Strict || s.order || s.targets && r.Mode != access.Off || s.uses && s.ids
}

// apart reports whether tasks of the batch that may touch the same paths are held apart.
func (r Rules) apart(s survey) bool {
	return r.Mode == access.Strict || s.targets && r.Mode != access.Off
}

// unplanned says that tasks that can write run at once, though nobody knows what they touch. It returns "" if there are
// no two of them, and if the person has chosen that. If each of them has a copy, a dry run says that.
func (r Rules) unplanned(s survey) string {
	if r.Copies != "" && r.Copies != "off" {
		if !r.DryRun || s.writers == 0 {
			return ""
		}
		return fmt.Sprintf("%d of %d tasks work in copies of the folder (--isolate %s)", s.writers, s.tasks, r.Copies)
	}
	if r.Mode == access.Off || r.apart(s) || s.writers < 2 {
		return ""
	}
	return fmt.Sprintf("writers run unplanned: %d of %d tasks can change files, and none has targets "+
		"(--plan strict runs writers one at a time)", s.writers, s.tasks)
}

// made is a plan, and why its tasks touch files that they do not name.
type made struct {
	*plan.Plan
	imports map[int]map[string]string // by task and file
}

// plan plans the tasks of a batch. The error says what is wrong with their needs, their ids, or what they name of other
// tasks.
func (r Rules) plan(ctx context.Context, tasks iter.Seq2[task.Task, error], s survey, of Runner) (m made, err error) {
	var all []plan.Task
	var texts []task.Task // what the tasks name of each other
	for t, err := range tasks {
		if err != nil {
			return m, err
		}
		if ctx.Err() != nil {
			return m, context.Cause(ctx)
		}
		all = append(all, of.Planned(t))
		for _, text := range []*string{&t.Text, &t.Context} {
			if !strings.Contains(*text, "{{") {
				*text = ""
			}
		}
		if a, err := of.Agent(t.Normalized().Agent); err == nil && len(t.Schema) == 0 {
			t.Schema = a.Schema
		}
		texts = append(texts, task.Task{ID: t.ID, Text: t.Text, Context: t.Context, Needs: t.Needs, Schema: t.Schema})
	}
	m.imports = r.addImported(all, of.Root())
	m.Plan, err = plan.New(all, plan.Options{Phases: r.Phases, Together: !r.apart(s), Context: ctx})
	return m, cmp.Or(err, needs.Check(texts...), needs.CheckFields(texts...))
}
