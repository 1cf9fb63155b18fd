package agent

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"qq/internal/models"
	"qq/internal/models/servers"
	"qq/internal/models/tokens"
	"qq/internal/sandbox"
	"qq/internal/standin"
	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

func TestMain(m *testing.M) {
	sandbox.Exec(os.Environ()) // returns unless this process is to become a confined command
	os.Exit(m.Run())
}

// served is a model of a server.
type served struct {
	models.Model
	llm.Backend
}

func (served) Tokens(text string) int { return tokens.Estimate(text) }

// modelOf is the model of the stand-in server.
func modelOf(t *testing.T, server *standin.Server) Model {
	t.Helper()
	ollama := []servers.Server{{Name: servers.Ollama, Kind: servers.Ollama, URL: server.URL}}
	m, err := (&models.Resolver{Servers: ollama, Run: standin.DefaultModel, Notes: silence{}}).Resolve(t.Context(), "")
	require.NoError(t, err)
	backend, end, err := m.Connect("")
	require.NoError(t, err)
	t.Cleanup(end)
	return served{m, backend}
}

// silence takes notes, and says nothing.
type silence struct{}

func (silence) Note(string, ...any) {}

// team is the agents that are built in, and one more.
type team struct {
	*agents.Registry
	one agents.Agent
}

func (r team) Lookup(name string) (agents.Agent, error) {
	if name == r.one.Name {
		return r.one, nil
	}
	return r.Registry.Lookup(name)
}

// agentOf is an agent in a new folder, which becomes the working directory of this
// process.
func agentOf(t *testing.T, m Model, definition agents.Agent) Agent {
	t.Helper()
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	require.NoError(t, err)
	return Agent{
		Definition: definition, Model: m, Registry: team{agents.Load(nil), definition},
		Setup:      Setup{ReadOnly: true, CanDelegate: true, KeepReads: true},
		Transcript: Nobody{}, Screen: Nobody{}, Process: Process{Dir: dir},
	}
}

// launch is a [supervisor.Launcher] that is a function.
type launch func(ctx context.Context, job task.Job, p supervisor.Parent) task.Result

func (l launch) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	return l(ctx, job, p)
}

// zeroOf runs a as job zero of a supervisor. Tasks that it delegates run in this process
// too, with the same model.
func zeroOf(ctx context.Context, t *testing.T, a Agent, tk task.Task, change func(*supervisor.Config)) task.Result {
	t.Helper()
	tk.Agent = a.Definition.Name
	do := launch(func(ctx context.Context, job task.Job, p supervisor.Parent) task.Result { return a.Run(ctx, p, job) })
	r, err := supervisorOf(a, change).Run(ctx, tk, "", do)
	require.NoError(t, err)
	return r
}

func supervisorOf(a Agent, change func(*supervisor.Config)) *supervisor.Supervisor {
	cfg := supervisor.Config{
		ID: "zero", Agents: a.Registry, NewID: func() string { return "child" },
		Limits: supervisor.Limits{Limits: task.Limits{MaxParallel: 1, MaxDepth: 3, MaxChildren: 10}},
		Launcher: launch(func(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
			child := a
			var err error
			if child.Definition, err = a.Registry.Lookup(job.Agent); err != nil {
				return job.Fail(err)
			}
			child.System, child.History, child.Setup.CanDelegate = "", nil, false
			return child.Run(ctx, p, job)
		}),
	}
	if change != nil {
		change(&cfg)
	}
	return supervisor.New(cfg)
}

// TestFailsOnOneLine: a warning about a child that failed has the hint behind the problem.
func TestFailsOnOneLine(t *testing.T) {
	h := &helpers{}
	r := task.Task{Agent: "slow"}.Ended(task.Timeout, "Child process timed out after 1s\nhint: raise the limit")
	h.note([]task.Result{r})
	want := []string{"sub-agent slow: timeout: Child process timed out after 1s; raise the limit"}
	require.Equal(t, want, h.warnings())
}

// TestNewestNamed: commands may read the newest files of children, and not more than can be mounted.
func TestNewestNamed(t *testing.T) {
	h := &helpers{}
	for i := range maxNamed + 3 {
		h.note([]task.Result{{Success: true, OutputFile: strconv.Itoa(i)}})
	}
	named := h.named()
	require.Len(t, named, maxNamed)
	require.Equal(t, []string{"3", "202"}, []string{named[0], named[maxNamed-1]})
}
