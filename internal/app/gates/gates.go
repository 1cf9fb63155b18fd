// Package gates has the gates of all model servers that a run uses, and finds the one of a request.
//
// A server gets a gate when the model of a task of the run is found there. A child may name any model in its requests:
// one at another server enters the strict gate, which lets one request pass at a time.
//
// While one server cannot be used, tasks of others do not wait for it: Ready tells the supervisor which tasks not to
// start, and [Gates.Lookup] does not wait for a server that is away. With a single server there is nothing to choose,
// and Ready lets each task start.
package gates

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"qq/internal/models"
	"qq/internal/models/gate"
	"qq/internal/models/servers"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Models knows the models of tasks.
type Models interface {
	// Named returns the whole name of the model of t, see [models.Resolver.Whole], and the model itself if it has been
	// found before.
	Named(t task.Task) (name string, m models.Model, found bool)
	// Others returns the whole names of the models that are asked instead of that of t if it cannot be had.
	Others(t task.Task) []string
	// Find finds the model of t. patient says that it is to try again after a failure that may be temporary.
	Find(ctx context.Context, t task.Task, patient bool) error
}

// Gates are the gates of a run. Several goroutines may use it.
type Gates struct {
	cfg    gate.Config // of each gate
	models Models
	ctx    context.Context // of look-ups that go on
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	byServer map[string]*gate.Gate
	strict   *gate.Gate
	several  bool            // the run uses more than one server
	sought   map[string]bool // whole names of models that are being looked for
	asked    time.Time       // when Ready last held back a task
	ready    time.Time       // when such a task may start
}

var _ supervisor.Gate = (*Gates)(nil)

// New returns the gates of a run, each made from c.
func New(c gate.Config, m Models) *Gates {
	if c.Budget == nil {
		c.Budget = gate.NewBudget(0, 0)
	}
	g := &Gates{cfg: c, models: m, byServer: map[string]*gate.Gate{}, sought: map[string]bool{}}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Close ends the look-ups that go on.
func (g *Gates) Close() {
	g.cancel()
	g.wg.Wait()
}

// serverOf returns the name of the server of the model of that whole name; "" for a model without a server.
func serverOf(model string) string {
	server, _, ok := strings.Cut(model, ":")
	switch {
	case ok:
		return server
	case model == models.Auto:
		return servers.Ollama
	}
	return ""
}

// of returns the gate of the server, and makes it if there is none yet. The caller holds g.mu.
func (g *Gates) of(server string, kind string) *gate.Gate {
	one := g.byServer[server]
	if one == nil {
		c := g.cfg
		// An Ollama server says nothing about further requests.
		c.Server, c.Probe = server, kind != servers.Ollama
		if server == servers.Ollama {
			c.Server = "Ollama"
		}
		one = gate.NewGate(c)
		g.byServer[server] = one
		g.several = g.several || len(g.byServer) > 1
	}
	return one
}

// Use makes a gate for the server of m, which is the model of a task of this run.
func (g *Gates) Use(m models.Model) {
	if name, ok := m.Served(); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.of(serverOf(name), m.Kind)
	}
}

// Resize changes how many requests may be under way at once at each server.
func (g *Gates) Resize(n int) {
	g.mu.Lock()
	g.cfg.MaxInFlight = n
	all := slices.Collect(maps.Values(g.byServer))
	g.mu.Unlock()
	for _, one := range all {
		one.Resize(n)
	}
}

// entered returns the gate for a request to the model of that name, which may come from a child.
func (g *Gates) entered(model string) *gate.Gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one := g.byServer[serverOf(model)]; one != nil {
		return one
	}
	if g.strict == nil {
		c := g.cfg
		c.Server, c.MaxInFlight, c.OnQuota = "a server that no task uses", 1, gate.QuotaStop
		g.strict = gate.NewGate(c)
	}
	return g.strict
}

// serving returns the gate for the requests of t and the name of its model. It is nil if t uses the built-in model, or
// if nothing is known about the server yet.
func (g *Gates) serving(t task.Task) (one *gate.Gate, model string) {
	model, m, found := g.models.Named(t)
	if found {
		model = m.String()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byServer[serverOf(model)], model
}

// Enter implements supervisor.Gate.
func (g *Gates) Enter(ctx context.Context, model string, again bool, who supervisor.Waiter) (llm.Permit, error) {
	return g.entered(model).Enter(ctx, model, again, who)
}

// First implements supervisor.Gate.
func (g *Gates) First(t task.Task, who supervisor.Waiter) llm.Permit {
	if _, _, found := g.models.Named(t); !found {
		return nil
	}
	if one, model := g.serving(t); one != nil {
		return one.Try(model, who)
	}
	return nil
}

// Refusal implements supervisor.Gate.
func (g *Gates) Refusal(t task.Task) error {
	one, model := g.serving(t)
	if one == nil {
		return nil
	}
	err := one.Refusal(model)
	if err == nil {
		return nil
	}
	if _, ok := g.other(t, func(one *gate.Gate, model string) bool { return one.Refusal(model) == nil }); ok {
		return nil // another model may answer
	}
	return err
}

// other returns the first of the models that are asked instead of that of t whose gate is good. One whose server has no
// gate yet is good too.
func (g *Gates) other(t task.Task, good func(one *gate.Gate, model string) bool) (name string, ok bool) {
	for _, name := range g.models.Others(t) {
		g.mu.Lock()
		one := g.byServer[serverOf(name)]
		g.mu.Unlock()
		if one == nil || good(one, name) {
			return name, true
		}
	}
	return "", false
}

// Ready implements supervisor.Gate.
func (g *Gates) Ready(t task.Task) time.Duration {
	g.mu.Lock()
	several := g.several
	g.mu.Unlock()
	if !several {
		return 0
	}
	one, model := g.serving(t)
	g.mu.Lock()
	sought := g.sought[model]
	g.mu.Unlock()
	wait := time.Duration(0)
	if sought {
		wait = lookAgain
	}
	if one != nil {
		wait = cmp.Or(one.Ready(model), wait)
	}
	if wait == 0 {
		return 0
	}
	if _, ok := g.other(t, func(one *gate.Gate, model string) bool { return one.Ready(model) == 0 }); ok {
		return 0 // another model can answer now
	}
	g.keep(wait)
	return wait
}

// keep notes that a task is held back for so long.
func (g *Gates) keep(wait time.Duration) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := now.Add(wait); now.Sub(g.asked) > stale || !now.Before(g.ready) || at.Before(g.ready) {
		g.ready = at
	}
	g.asked = now
}

// stale is after what time nobody asks any more whether a task may start.
const stale = 2 * time.Second

// lookAgain is when to look again whether a model has been found.
const lookAgain = 200 * time.Millisecond

// Used returns how many tokens all requests to the model servers have used so far, and their cost.
func (g *Gates) Used() task.Usage { return g.cfg.Budget.Used() }

// Spent reports whether the budget is used up.
func (g *Gates) Spent() bool { return g.cfg.Budget.Spent() }

// all returns the gates in the order of the names of their servers.
func (g *Gates) all() (list []*gate.Gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(g.byServer)) {
		list = append(list, g.byServer[name])
	}
	return list
}

// Waits returns how long requests currently have to wait, as far as that is known; 0 means that none waits, or that
// others do not: then the run goes on.
func (g *Gates) Waits() time.Duration {
	all := g.all()
	g.mu.Lock()
	several, least := g.several, time.Duration(0)
	if time.Since(g.asked) <= stale { // tasks are held back
		least = max(time.Until(g.ready), 0)
	}
	g.mu.Unlock()
	for _, one := range all {
		d := one.Waits()
		if !several {
			return d
		}
		if d == 0 && one.InFlight() > 0 {
			return 0
		}
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}

// UsedUp returns the quotas that are used up and whose resets nothing waits for, in words; "" if there are none.
func (g *Gates) UsedUp() string {
	var texts []string
	for _, one := range g.all() {
		if text := one.UsedUp(); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}
