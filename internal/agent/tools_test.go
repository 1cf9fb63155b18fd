package agent

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/approval"
	"qq/internal/approval/rules"
	"qq/internal/box"
	"qq/internal/sandbox"
	"qq/internal/standin"
	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/proc"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// TestTools: an agent is offered the tools that its definition, its model and its root
// allow, and each other tool has a deny reason.
func TestTools(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	make := func(change func(*run)) toolset {
		r := &run{helpers: &helpers{}, Agent: Agent{
			Definition: agents.Agent{Name: "all"}, Model: bare{}, Setup: Setup{CanDelegate: true},
			Process: Process{Confined: true},
		}}
		r.job.Parent = "parent"
		change(r)
		r.open(root)
		return r.makeTools()
	}
	everything := make(func(*run) {})
	assert.Subset(t, everything.offered.Names(),
		[]string{"read_file", "edit_file", "run_pty_cmd", "web_fetch", "delegate_task", "send_message"})
	assert.Empty(t, everything.withheld)
	assert.NotContains(t, everything.offered.Names(), "ast_grep", "there is no such program")

	const depth = "agents at this depth cannot hand on work"
	for _, c := range []struct {
		change func(*run)
		lost   map[string]string
	}{
		{func(r *run) { r.Setup.ReadOnly = true }, map[string]string{"edit_file": "this agent may only read"}},
		{func(r *run) { r.Setup.ReadOnly, r.Process.Confined = true, false },
			map[string]string{
				"run_pty_cmd": "this agent may only read, and this system cannot keep a command from writing",
			}},
		{func(r *run) { r.job.Denied = []string{"web_fetch"} },
			map[string]string{"web_fetch": "it is denied in this run"}},
		{func(r *run) { r.Setup.Policy.Deny = []rules.Rule{{Tool: "web_fetch"}} },
			map[string]string{"web_fetch": "it is denied in this run"}},
		{func(r *run) { r.Definition.Tools, r.Setup.ReadOnly = []string{"read_file"}, true },
			map[string]string{"edit_file": "the definition of all does not give it this tool"}},
		{func(r *run) { r.Definition.Tools = []string{"read_file"} },
			map[string]string{"run_pty_cmd": "the definition of all does not give it this tool"}},
		{func(r *run) { r.Setup.CanDelegate = false }, map[string]string{
			"delegate_task": depth, "run_parallel_tasks": depth, "spawn_agent": depth, "list_agents": depth,
			"list_children": depth, "wait_children": depth, "terminate_child": depth,
		}},
		{func(r *run) { r.Setup.CanDelegate, r.job.Parent = false, "" },
			map[string]string{"delegate_task": depth, "send_message": depth}},
	} {
		k := make(c.change)
		for name, why := range c.lost {
			assert.NotContains(t, k.offered.Names(), name)
			assert.Equal(t, why, k.withheld[name].Reason, name)
			taken := why != depth && !strings.HasPrefix(why, "the definition") // by a person or a policy
			assert.Equal(t, taken, k.withheld[name].Denied, name)
		}
		assert.Contains(t, k.offered.Names(), "read_file")
	}
	few := func(r *run) { r.Definition.Tools = []string{"read_file", "delegate_task"} }
	assert.NotContains(t, make(few).offered.Names(), "list_agents", "delegate_task names all")
	many := func(r *run) { few(r); r.Setup.Roster.More = 1 }
	assert.Contains(t, make(many).offered.Names(), "list_agents")
	taken := func(r *run) { many(r); r.Definition.DisallowedTools = []string{"list_agents"} }
	assert.NotContains(t, make(taken).offered.Names(), "list_agents")
	alone := func(r *run) { many(r); r.Definition.Tools = []string{"read_file"} }
	assert.NotContains(t, make(alone).offered.Names(), "list_agents")
	k := make(func(r *run) { r.Setup.ReadOnly = true })
	assert.Contains(t, k.offered.Names(), "run_pty_cmd", "the kernel keeps it from writing")
	for _, job := range []task.Job{{Parent: "parent"}, {BatchID: "batch"}} {
		k := make(func(r *run) { r.job, r.Setup.CanDelegate = job, false })
		assert.Contains(t, k.offered.Names(), "send_message", "somebody may read it")
	}
}

// TestRules: an agent that changes nothing, and its commands, may write nowhere.
func TestRules(t *testing.T) {
	a := Agent{
		Definition: agents.Agent{Name: "coder", Tools: []string{"edit_file"}},
		Setup:      Setup{TempDir: "/tmp/x", Writable: []string{"/cache"}},
	}
	assert.Equal(t, []string{"/home", "/tmp/x", "/cache"}, a.Rules("/home").Write)
	a.Setup.ReadOnly = true
	assert.Empty(t, a.Rules("/home").Write)
	a.Setup.ReadOnly, a.Definition.Tools = false, []string{"read_file"}
	assert.Empty(t, a.Rules("/home").Write)
}

// acting is a parent that counts effects.
type acting struct {
	supervisor.Parent
	n int
}

func (a *acting) Effects() error {
	a.n++
	return a.Parent.Effects()
}

// TestRuled: what a command would do is looked up where a rule with a pattern may allow it, and where a person is
// asked.
func TestRuled(t *testing.T) {
	auto := approval.Policy{Mode: approval.Auto}
	allows := func(r rules.Rule) approval.Policy {
		return approval.Policy{Mode: approval.Deny, Allow: []rules.Rule{r}}
	}
	for _, c := range []struct {
		policy approval.Policy
		within []string
		want   bool
	}{
		{approval.Policy{}, nil, true},
		{approval.Policy{Mode: approval.Ask}, nil, true},
		{approval.Policy{Mode: "new"}, nil, true},
		{auto, nil, false},
		{approval.Policy{Mode: approval.Deny}, nil, false},
		{allows(rules.Rule{Tool: "run_pty_cmd"}), nil, false},
		{allows(rules.Rule{Tool: "run_pty_cmd", Pattern: "git log*"}), nil, true},
		{allows(rules.Rule{Tool: "web_fetch", Pattern: "x.org"}), nil, false},
		{auto, []string{"run_pty_cmd"}, false},
		{auto, []string{"run_pty_cmd(git log*)"}, true},
	} {
		r := &run{Agent: Agent{Definition: agents.Agent{Within: c.within}, Setup: Setup{Policy: c.policy}}}
		assert.Equal(t, c.want, r.ruled(), "%+v", c)
	}
}

// TestEffectsOfReading: a command is a side effect even of an agent that may only read,
// because it has the network; a reading tool is none.
func TestEffectsOfReading(t *testing.T) {
	if !sandbox.Probe().Enforced() {
		t.Skip("this system cannot keep a command from writing")
	}
	const command = `<tool_call>{"name":"run_pty_cmd","arguments":{"command":"echo done"}}</tool_call>`
	for call, want := range map[string]int{
		`<tool_call>{"name":"list_directory","arguments":{"path":"."}}</tool_call>`: 0,
		command:           1,
		command + command: 1,
	} {
		server := standin.Start(t, standin.Reply(func(p standin.Prompt) string {
			if got := p.Last("tool"); got != "" {
				return got
			}
			return call
		}))
		a := agentOf(t, modelOf(t, server), agents.Agent{Name: "reader"})
		exe, err := os.Executable()
		require.NoError(t, err)
		a.Setup.Policy = approval.Policy{Mode: approval.Auto}
		a.Process.Host, a.Process.Env, a.Process.Confined = proc.NewHost(), os.Environ(), true
		a.Process.Commands = box.New(box.Config{
			Host: a.Process.Host, Exe: exe, Dir: t.TempDir(), Rules: a.Rules(a.Process.Dir), Confined: true,
		})
		var told *acting
		do := launch(func(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
			told = &acting{Parent: p}
			return a.Run(ctx, told, job)
		})
		r, err := supervisorOf(a, nil).Run(t.Context(), task.Task{Text: "do it", Agent: "reader"}, "", do)
		a.Process.Host.Close()
		require.NoError(t, err)
		assert.Equal(t, task.Completed, r.Status, r.Err())
		assert.NotContains(t, r.Output, "Error")
		assert.Equal(t, want, told.n, "%s: %s", call, r.Output)
	}
}

// TestTokenEvents: pieces of text are joined into fewer events, none is lost, and all are
// sent when the turn ends.
func TestTokenEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		tokens := &TokenEvents{To: told}
		for _, piece := range []string{"a", "b", "c"} {
			tokens.Chunk(llm.Chunk{Text: piece})
		}
		assert.Equal(t, []string{"a"}, told.texts)
		time.Sleep(tokenInterval)
		tokens.Chunk(llm.Chunk{Text: "d"})
		tokens.Chunk(llm.Chunk{Text: "e"})
		tokens.TurnEnd(true)
		tokens.TurnEnd(true)
		assert.Equal(t, []string{"a", "bcd", "e"}, told.texts)
	})
}

// TestUnwatchedTokens: of a turn that nobody is known to read, one event a second is sent, and none of a short one.
func TestUnwatchedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		tokens := &TokenEvents{To: told, Unwatched: true}
		for range 30 {
			tokens.Chunk(llm.Chunk{Text: "a"})
			time.Sleep(100 * time.Millisecond)
		}
		tokens.TurnEnd(false)
		tokens.Chunk(llm.Chunk{Text: "short"})
		tokens.TurnEnd(true)
		assert.Equal(t, []string{strings.Repeat("a", 12), strings.Repeat("a", 11)}, told.texts)
	})
}
