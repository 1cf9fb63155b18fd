package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"qq/internal/agent"
	"qq/internal/models"
	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// seat is a model with the key of its server.
type seat struct {
	Model models.Model `json:"model"`
	Key   string       `json:"key,omitempty"`
}

// seats returns the model m for the agent def, and the models that are asked instead if it cannot be had. Of
// these, one that cannot be had now is left out.
func (w *wiring) seats(ctx context.Context, def agents.Agent, m models.Model, t task.Task) ([]seat, error) {
	key, err := w.models.KeyOf(ctx, m)
	if err != nil {
		return nil, err
	}
	all, known := []seat{{m, key}}, map[string]bool{m.String(): true}
	for _, name := range w.fallbacks(def) {
		other, err := w.models.Resolve(ctx, name)
		if err == nil {
			key, err = w.models.KeyOf(ctx, other)
		}
		switch {
		case err != nil:
			w.once("fallback %s is left out: %s", name, task.Line(err.Error()))
		case len(t.Images) > 0 && other.Blind():
			w.once("fallback %s is left out: it sees no images", name)
		case !known[other.String()]:
			known[other.String()] = true
			w.gates.Use(other)
			all = append(all, seat{other, key})
		}
	}
	return all, nil
}

// fallbacks returns the names of the models that an agent asks if its own cannot be had. As with the model, the flag
// counts more than the definition, and that more than a setting. All of them are names that a person chose.
func (w *wiring) fallbacks(def agents.Agent) []string {
	set := w.cfg.Settings
	if strings.HasPrefix(set.Source("QQ_FALLBACK"), "flag ") || def.Untrusted || def.Fallback == nil {
		return set.Fallback
	}
	return def.Fallback
}

// insteadFor is how long a model that cannot be looked up is not asked about again.
const insteadFor = time.Minute

// substitute is a model that is asked instead of another one.
type substitute struct {
	models.Model
	since time.Time
}

// instead returns the first model that can be had instead of the one for t that cannot be looked up because of err; ok
// is false if there is none.
func (w *wiring) instead(ctx context.Context, t task.Task, err error) (m models.Model, ok bool) {
	e, is := errors.AsType[*llm.Error](err)
	def, agentErr := w.Agent(t.Agent)
	if !is || !e.Elsewhere() || agentErr != nil {
		return m, false
	}
	for _, name := range w.fallbacks(def) {
		if m, err = w.models.Resolve(ctx, name); err != nil {
			continue
		}
		w.once("%s: going on with %s", e.Problem, m)
		w.substitutes.Store(w.choice(t), substitute{m, time.Now()})
		w.gates.Use(m)
		return m, true
	}
	return m, false
}

// choice returns what chooses the model of t and those instead of it.
func (w *wiring) choice(t task.Task) string { return t.Agent + "\x00" + w.modelName(t) }

// substituted returns the model that is asked instead of that for t, if there is one since less than a minute.
func (w *wiring) substituted(t task.Task) (models.Model, bool) {
	s, ok := w.substitutes.Load(w.choice(t))
	if !ok || time.Since(s.(substitute).since) > insteadFor {
		return models.Model{}, false
	}
	return s.(substitute).Model, true
}

// once prints a note that has not been printed yet.
func (w *wiring) once(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if _, said := w.said.LoadOrStore(note, true); !said {
		w.cfg.Person.Note("%s", note)
	}
}

// telling is a launcher that tells a person, once, that another model answers.
type telling struct {
	supervisor.Stager
	w *wiring
}

// Launch implements supervisor.Launcher.
func (l telling) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	res := l.Stager.Launch(ctx, job, p)
	if res.Fallback > 0 {
		l.w.once("%s answers instead of a model that cannot be had", res.Model)
	}
	return res
}

// names returns the names of the models of seats.
func names(seats []seat) (all []string) {
	for _, s := range seats {
		all = append(all, s.Model.String())
	}
	return all
}

// take gives a the models of seats. end closes their connections.
func take(a *agent.Agent, seats []seat) (end func(), err error) {
	var ends []func()
	end = func() {
		for _, e := range ends {
			e()
		}
	}
	for i, s := range seats {
		backend, done, err := s.Model.Connect(s.Key)
		if err != nil {
			end()
			return nil, err
		}
		ends = append(ends, done)
		if m := (connected{s.Model, backend}); i == 0 {
			a.Model = m
		} else {
			a.Fallback = append(a.Fallback, m)
		}
	}
	return end, nil
}
