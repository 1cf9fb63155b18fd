package staffing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"qq/internal/agent"
	"qq/internal/models"
	"qq/internal/models/dialect"
	"qq/internal/models/gate"
	"qq/internal/models/tokens"
	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/money"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Seat is a model with the key of its server.
type Seat struct {
	Model models.Model `json:"model"`
	Key   string       `json:"key,omitempty"`
	Price *money.Price `json:"price,omitempty"` // nil means that the user has set none
}

// Seats returns the model m for the agent def, and the models that are asked instead if it cannot be had. Of
// these, one that cannot be had now is left out.
func (d *Desk) Seats(ctx context.Context, def agents.Agent, m models.Model, t task.Task) ([]Seat, error) {
	key, err := d.Models.KeyOf(ctx, m)
	if err != nil || m.Kind == models.Program {
		return []Seat{d.seat(m, "")}, err
	}
	all, known := []Seat{d.seat(m, key)}, map[string]bool{m.String(): true}
	for _, name := range d.fallbacks(def) {
		other, err := d.Models.Resolve(ctx, name)
		if err == nil {
			key, err = d.Models.KeyOf(ctx, other)
		}
		switch {
		case err != nil:
			d.once("fallback %s is left out: %s", name, task.Line(err.Error()))
		case len(t.Images) > 0 && other.Blind():
			d.once("fallback %s is left out: it sees no images", name)
		case !known[other.String()]:
			known[other.String()] = true
			d.Gates.Use(other)
			all = append(all, d.seat(other, key))
		}
	}
	return all, nil
}

func (d *Desk) seat(m models.Model, key string) Seat {
	s := Seat{Model: m, Key: key}
	if p, ok := d.Settings.Price(m.String()); ok {
		s.Price = &p
	}
	return s
}

// fallbacks returns the names of the models that an agent asks if its own cannot be had. As with the model, the flag
// counts more than the definition, and that more than a setting. All of them are names that a person chose.
func (d *Desk) fallbacks(def agents.Agent) []string {
	set := d.Settings
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
func (d *Desk) instead(ctx context.Context, t task.Task, err error) (m models.Model, ok bool) {
	e, is := errors.AsType[*llm.Error](err)
	def, agentErr := d.Agents.Agent(t.Agent)
	if !is || !e.Elsewhere() || agentErr != nil {
		return m, false
	}
	for _, name := range d.fallbacks(def) {
		if m, err = d.Models.Resolve(ctx, name); err != nil || len(t.Images) > 0 && m.Blind() {
			continue
		}
		d.once("%s: going on with %s", e.Problem, m)
		d.substitutes.Store(d.choice(t), substitute{m, time.Now()})
		d.Gates.Use(m)
		return m, true
	}
	return m, false
}

// choice returns what chooses the model of t and those instead of it.
func (d *Desk) choice(t task.Task) string {
	return fmt.Sprint(t.Agent, "\x00", d.ModelName(t), "\x00", len(t.Images) > 0)
}

// Substituted returns the model that is asked instead of that for t, if there is one since less than a minute.
func (d *Desk) Substituted(t task.Task) (models.Model, bool) {
	s, ok := d.substitutes.Load(d.choice(t))
	if !ok || time.Since(s.(substitute).since) > insteadFor {
		return models.Model{}, false
	}
	return s.(substitute).Model, true
}

// once prints a note that has not been printed yet.
func (d *Desk) once(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if _, said := d.said.LoadOrStore(note, true); !said {
		d.Person.Note("%s", note)
	}
}

// Telling is a launcher that tells a person, once, that another model answers.
type Telling struct {
	supervisor.Stager
	Desk *Desk
}

// Launch implements supervisor.Launcher.
func (l Telling) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	res := l.Stager.Launch(ctx, job, p)
	if res.Fallback > 0 {
		wanted := cmp.Or(l.Desk.ModelName(job.Task), l.Desk.Settings.Model)
		l.Desk.once("%s answers instead of %s, which cannot be had", res.Model, wanted)
	}
	return res
}

// Names returns the names of the models of seats.
func Names(seats []Seat) (all []string) {
	for _, s := range seats {
		all = append(all, s.Model.String())
	}
	return all
}

// take gives a the models of seats. end closes their connections.
func take(a *agent.Agent, seats []Seat) (end func(), err error) {
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
		if s.Price != nil {
			backend = priced{backend, *s.Price}
		}
		if m := (Connected{s.Model, backend}); i == 0 {
			a.Model = m
		} else {
			a.Fallback = append(a.Fallback, m)
		}
	}
	return end, nil
}

// Connected is a resolved model with the backend that sends requests to it.
type Connected struct {
	models.Model
	llm.Backend
}

// priced is a backend that knows what its answers cost. What came before a failure is paid too. Where the server did
// not count the tokens of an answer, or not yet when it broke off, they are estimated: else no limit could hold.
type priced struct {
	llm.Backend
	price money.Price
}

// Chat implements [llm.Backend].
func (p priced) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	resp, err := p.Backend.Chat(ctx, r, yield)
	text := resp.Message.Content + resp.Message.Thinking
	switch {
	case resp.Usage.Tokens() == 0 && (err == nil || text != ""):
		resp.Usage.InputTokens, resp.Usage.OutputTokens = dialect.PromptTokens(r), tokens.Estimate(text)
	case err != nil: // Anthropic counts the prompt at the beginning, and the answer at its end
		resp.Usage.OutputTokens = max(resp.Usage.OutputTokens, tokens.Estimate(text))
	}
	resp.Usage = resp.Usage.At(p.price, resp.Written)
	return resp, err
}

// Run runs the agent a with the models of seats on job.
func Run(ctx context.Context, seats []Seat, a agent.Agent, p supervisor.Parent, job task.Job) task.Result {
	end, err := take(&a, seats)
	if err != nil {
		return job.Fail(err)
	}
	defer end()
	res := a.Run(ctx, p, job)
	res.Model = seats[res.Fallback].Model.String()
	return res
}

// Offer returns what the agent a begins a run of job with, and the connection to the model of its seat. It runs
// nothing. See [agent.Agent.Offer] for generated. The caller calls end.
func Offer(s Seat, a agent.Agent, job task.Job, generated string, through llm.Admission) (
	o agent.Offered, model llm.Backend, end func(), err error,
) {
	if end, err = take(&a, []Seat{s}); err != nil {
		return o, nil, nil, err
	}
	if o, err = a.Offer(job, generated); err != nil {
		end()
		return o, nil, nil, err
	}
	model = a.Model
	if name, served := a.Model.Served(); served {
		model = gate.Retrying(a.Model, name, through, gate.Policy{Retries: a.Setup.Retries})
	}
	return o, model, end, nil
}

// Tokens implements agent.Model.
func (Connected) Tokens(text string) int { return tokens.Estimate(text) }
