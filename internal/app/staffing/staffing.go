// Package staffing finds the agent and the models of a task, and says who may choose which.
//
// The model of a task is that of the task itself, of its agent, or of the run. Behind it stand the models that are
// asked instead if it cannot be had. Only a person can choose a model on another machine: no agent, nor what a checkout
// says without trust.
package staffing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"qq/internal/app/command"
	"qq/internal/config"
	"qq/internal/models"
	"qq/pkg/agents"
	"qq/pkg/task"
)

// Desk staffs the tasks of a run. Set its exported fields before the first use; then several goroutines may use it.
type Desk struct {
	Settings config.Config
	Models   *models.Resolver
	Registry *agents.Registry
	Agents   Agents
	Gates    Gates
	Person   Person
	Programs Programs

	said        sync.Map // notes that were printed, see once
	substitutes sync.Map // models that are asked instead of others, see instead
	glance      []agents.Agent
	glanced     sync.Once
}

// Agents finds an agent by its name, also one that was made for one task.
type Agents interface {
	Agent(name string) (agents.Agent, error)
}

// Gates are told which servers the run uses.
type Gates interface{ Use(m models.Model) }

// Person is told what becomes of models.
type Person interface {
	Note(format string, args ...any)
}

// Glance returns the agents that there are, see [agents.Registry.Glance].
func (d *Desk) Glance() []agents.Agent {
	d.glanced.Do(func() { d.glance = d.Registry.Glance() })
	return d.glance
}

// ModelName returns the name of the model for t: that of the task, else that of the agent
// unless the flag --model is given. "" means the model of the run.
func (d *Desk) ModelName(t task.Task) string {
	agent, err := d.Agents.Agent(t.Agent)
	if err != nil || t.Model != "" {
		return t.Model
	}
	if strings.HasPrefix(d.Settings.Source("QQ_MODEL"), "flag ") {
		return "" // the flag applies to every agent
	}
	return agent.Model
}

// Staff finds the agent for a task and resolves the model that it uses.
func (d *Desk) Staff(ctx context.Context, t task.Task) (agents.Agent, models.Model, error) {
	agent, err := d.Agents.Agent(t.Agent)
	if err != nil {
		return agents.Agent{}, models.Model{}, err
	}
	m, err := d.Resolve(ctx, t)
	return agent, m, err
}

// Resolve finds the model for t, or the one that is asked instead if that cannot be had now. Only a person can choose
// one on another machine: no agent, nor what a checkout says without trust. If the name tells, no server is asked, and
// no key is looked for.
func (d *Desk) Resolve(ctx context.Context, t task.Task) (models.Model, error) {
	if m, ok, err := d.program(t); ok {
		return m, err
	}
	if m, ok := d.Substituted(t); ok {
		return m, nil
	}
	m, err := d.allowed(ctx, t, d.Models.Resolve)
	if err == nil {
		return m, nil
	}
	if other, ok := d.instead(ctx, t, err); ok {
		return other, nil
	}
	return models.Model{}, err
}

// allowed finds the model for t with find, and returns it if t may use it.
func (d *Desk) allowed(
	ctx context.Context, t task.Task, find func(context.Context, string) (models.Model, error),
) (models.Model, error) {
	cloud := t.ModelBy != "" && agents.Remote(t.Model)
	if t.ModelBy != "" && !cloud && d.Registry.Models.Remote(t.Model) && !d.named(t.Model) {
		return models.Model{}, unnamed(t, d.Models.Whole(t.Model)+", a model of another server")
	}
	if err := d.priced(append(d.Others(t), d.Models.Whole(d.ModelName(t)))...); err != nil {
		return models.Model{}, err
	}
	m, err := find(ctx, d.ModelName(t))
	if err == nil {
		err = d.priced(m.String())
	}
	if err == nil && (cloud || !m.Home()) {
		err = d.bars(t, m)
	}
	if err != nil {
		return models.Model{}, err
	}
	d.Gates.Use(m)
	return m, nil
}

// priced returns an error if the run has a limit of cost, and one of the models of these whole names has no price. The
// model that [models.Auto] means is not known yet.
func (d *Desk) priced(names ...string) error {
	if d.Settings.MaxCost == 0 {
		return nil
	}
	for _, name := range names {
		if _, ok := d.Settings.Price(name); !ok && name != models.Extract && name != models.Auto {
			return command.Usagef("add "+name+"=IN/OUT to QQ_PRICES, for a million tokens, or set no limit",
				"%s has no price, so the limit of cost (%s) cannot hold", name, d.Settings.Source("QQ_MAX_COST"))
		}
	}
	return nil
}

// Bars implements ceiling.Models. A model that is not found is no reason: when the task starts, it may be there.
func (d *Desk) Bars(ctx context.Context, t task.Task) string {
	_, err := d.Resolve(ctx, t)
	if _, barred := errors.AsType[*command.ExitError](err); barred {
		return err.Error()
	}
	return ""
}

// bars returns why t may not use m, a model on another machine, or nil.
func (d *Desk) bars(t task.Task, m models.Model) error {
	name := d.ModelName(t)
	switch agent, _ := d.Agents.Agent(t.Agent); {
	case name == "" && d.Settings.Foreign("QQ_MODEL"):
		return command.Usagef(mayGo, untrusted, "QQ_MODEL in .env", m.Whither())
	case t.Model == "" && name != "" && agent.Untrusted:
		return command.Usagef(mayGo, untrusted, agent.Source, m.Whither())
	case t.ModelBy != "" && !d.named(m.String()):
		return unnamed(t, m.Whither())
	}
	return nil
}

const (
	untrusted = "%s chooses %s, and is not trusted"
	mayGo     = "if your text may go there, name the model with --model"
)

// unnamed returns the error for a task whose model an agent chose.
func unnamed(t task.Task, model string) error {
	return command.Usagef(mayGo+", or in the definition of an agent of your own",
		"the agent %s chooses %s, and no person named it", t.ModelBy, model)
}

// named reports whether a person named that model: for the run, by an alias, or in the definition of an agent.
func (d *Desk) named(model string) bool {
	if d.Models.Same("", model) && !d.Settings.Foreign("QQ_MODEL") {
		return true
	}
	for alias := range d.Settings.Aliases {
		if d.Models.Same(alias, model) {
			return true
		}
	}
	return slices.ContainsFunc(d.Glance(), func(a agents.Agent) bool {
		return !a.Untrusted && a.Model != "" && d.Models.Same(a.Model, model)
	})
}

// Named implements gates.Models.
func (d *Desk) Named(t task.Task) (name string, m models.Model, found bool) {
	if m, ok, err := d.program(t); ok {
		return m.String(), m, err == nil
	}
	if m, ok := d.Substituted(t); ok {
		return m.String(), m, true
	}
	name = d.ModelName(t)
	m, found = d.Models.Known(name)
	return d.Models.Whole(name), m, found
}

// Others implements gates.Models.
func (d *Desk) Others(t task.Task) (names []string) {
	def, err := d.Agents.Agent(t.Agent)
	if err != nil || !def.Runs.IsZero() {
		return nil
	}
	for _, name := range d.fallbacks(def) {
		names = append(names, d.Models.Whole(name))
	}
	return names
}

// Find implements gates.Models.
func (d *Desk) Find(ctx context.Context, t task.Task, patient bool) error {
	if _, ok, err := d.program(t); ok {
		return err
	}
	find := d.Models.Try
	if patient {
		find = d.Models.Resolve
	}
	if _, ok := d.Substituted(t); ok {
		return nil
	}
	_, err := d.allowed(ctx, t, find)
	if _, ok := d.instead(ctx, t, err); ok {
		return nil
	}
	return err
}
