package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// trustSlow is how long the model is silent before it answers "Slow": longer than a limit of 1 s.
const trustSlow = 1400 * time.Millisecond

// trustPlaces are the ways in which an agent can be started, each with the arguments of qq.
var trustPlaces = map[string][]string{
	"prompt": {"Slow"}, "child": {"Lead"}, "background": {"Behind"}, "batch": {"batch", "--no-bar"},
}

// trustModel plays an agent that is asked "Slow", and leads that have another agent do it.
func trustModel(t *testing.T, agent string) *endureModel {
	return endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
		switch first := k.turn() == 0; {
		case k.text() == "Slow":
			select {
			case <-time.After(trustSlow):
			case <-ctx.Done():
			}
			return endureSay("Slow is done.")
		case k.text() == "Lead" && first:
			return workAsk(workCall("delegate_task", "agent", agent, "task", "Slow"))
		case k.text() == "Behind" && first:
			return workAsk(workCall("spawn_agent", "agent", agent, "instructions", "Slow", "background", true))
		case k.text() == "Behind" && k.turn() == 1:
			return workAsk(workCall("wait_children"))
		}
		return endureSay("Told: " + k.last().Content)
	})
}

// trustLimited runs "Slow" in that place, by an agent with these limits in its definition, and returns what
// is said of it: the answer of the prompt or of the lead, or the output and the error of the task.
func (w *world) trustLimited(place, definition string, args ...string) string {
	w.t.Helper()
	w.file(".qq/agents/hasty.md", "---\nname: hasty\ndescription: is slow\ntools: []\n"+definition+"---\nYou answer.\n")
	w.file(".qq/agents/lead.md", "---\nname: lead\ndescription: leads\n"+
		"tools: [delegate_task, spawn_agent, wait_children]\n---\nYou lead.\n")
	args = append(append([]string{}, trustPlaces[place]...), args...)
	switch place {
	case "batch":
		args = append(args, w.file("tasks.jsonl", `{"task": "Slow", "agent": "hasty"}`))
	case "prompt":
		args = append(args, "-a", "hasty")
	default:
		args = append(args, "-a", "lead", "--allow", "delegate_task,spawn_agent")
	}
	e := w.qq(args...)
	return e.stdout + e.stderr
}

// TestLimitsOfAPerson: what a person sets replaces what the definition of an agent says, upward, for
// every agent of a run; 0 is none.
func TestLimitsOfAPerson(t *testing.T) {
	const second = "timeout: 1\nidle_timeout: 1\n"
	both := "QQ_CHILD_TIMEOUT=20\nQQ_IDLE_TIMEOUT=20\n"
	for place := range trustPlaces {
		for name, c := range map[string]struct {
			args, env []string
			file      string
		}{
			"flags":       {args: []string{"--timeout", "20", "--idle-timeout", "20"}},
			"flags, 0":    {args: []string{"--timeout", "0", "--idle-timeout", "0"}},
			"environment": {env: strings.Fields(both)},
			"own .env":    {file: both},
		} {
			t.Run(place+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, trustModel(t, "hasty").addr, played, c.env...)
				own := filepath.Join(w.dir, "config", "qq")
				require.NoError(t, os.MkdirAll(own, 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(own, ".env"), []byte(c.file), 0o600))
				said := w.trustLimited(place, second, c.args...)
				assert.Contains(t, said, "Slow is done.")
				assert.NotContains(t, said, "hint")
			})
		}
	}
}

// TestCommandThatPrints: a command that prints is at work, one that is silent is idle.
func TestCommandThatPrints(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		code    int
	}{
		"prints":    {"for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.4; done", 0},
		"is silent": {"sleep 20", 124},
	} {
		for place, args := range map[string][]string{"prompt": {"-m", "Run it."}, "batch": {"batch", "--json"}} {
			t.Run(place+", "+name, func(t *testing.T) {
				t.Parallel()
				m := endurePlay(t, func(_ context.Context, k endureTalk) api.Message {
					if k.turn() == 0 {
						return workAsk(workCall("run_pty_cmd", "command", c.command))
					}
					return endureSay("It has run.")
				})
				w := newWorld(t, m.addr, played)
				args := append(args, "-a", "executor", "--auto-approve", "--idle-timeout", "2")
				stdin := ""
				if place == "batch" {
					stdin = "Run it.\n"
				}
				e := w.start(stdin, args...).wait()
				if c.code == 0 {
					assert.Equal(t, 0, e.code, e.stderr)
					return
				}
				assert.NotEqual(t, 0, e.code)
				assert.Contains(t, e.stdout+e.stderr, "inactive for 2 seconds")
			})
		}
	}
}

// TestWhoseLimit: an agent that is ended by a clock says whose limit it was, how to raise it, and in its
// first line what it always said. What a person sets counts downward too.
func TestWhoseLimit(t *testing.T) {
	const (
		idle, run  = "Sub-agent inactive for 1 seconds", "timed out after 1s"
		setIdle    = "set another with --idle-timeout or QQ_IDLE_TIMEOUT, 0 means none"
		setTimeout = "set another with --timeout or QQ_CHILD_TIMEOUT, 0 means none"
		minute     = "timeout: 60\nidle_timeout: 60\n"
	)
	for name, c := range map[string]struct {
		definition, env, file  string
		args                   []string
		problem, whose, raised string
	}{
		"idle, flag": {definition: minute, args: []string{"--idle-timeout", "1"},
			problem: idle, whose: "--idle-timeout", raised: setIdle},
		"idle, environment": {definition: minute, env: "QQ_IDLE_TIMEOUT=1",
			problem: idle, whose: "QQ_IDLE_TIMEOUT (environment)", raised: setIdle},
		"idle, definition": {definition: "idle_timeout: 1\n",
			problem: idle, whose: "that of agent hasty (", raised: setIdle},
		"flag": {definition: minute, args: []string{"--timeout", "1"},
			problem: run, whose: "--timeout", raised: setTimeout},
		"environment": {definition: minute, env: "QQ_CHILD_TIMEOUT=1",
			problem: run, whose: "QQ_CHILD_TIMEOUT (environment)", raised: setTimeout},
		".env": {definition: minute, file: "QQ_CHILD_TIMEOUT=1\n",
			problem: run, whose: "QQ_CHILD_TIMEOUT (.env)", raised: setTimeout},
		"definition": {definition: "timeout: 1\n",
			problem: run, whose: "that of agent hasty (", raised: setTimeout},
	} {
		for place := range trustPlaces {
			if place != "child" && place != "prompt" && !strings.HasSuffix(name, "definition") {
				continue // the rule is the same: TestLimitsOfAPerson
			}
			t.Run(place+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, trustModel(t, "hasty").addr, played)
				if c.env != "" {
					w.env = append(w.env, c.env)
				}
				w.file(".env", c.file)
				said := strings.ReplaceAll(w.trustLimited(place, c.definition, c.args...), `\n`, "\n") // also in JSON
				assert.NotContains(t, said, "Slow is done.")
				if place == "child" && name == "flag" { // the child ends a little before the prompt
					assert.Regexp(t, `Child process timed out after 0\.\d+s\nhint: its parent had no more time left; `+
						"the limit of the parent is --timeout: "+c.raised, said)
					return
				}
				problem := c.problem
				if place != "prompt" && problem == run {
					problem = "Child process " + run
				}
				assert.Regexp(t, problem+"\n *hint: the limit is "+regexp.QuoteMeta(c.whose)+".*: "+c.raised, said)
			})
		}
	}
}

// TestLimitOfATask: the timeout that a person writes into a batch counts, and the error says so.
func TestLimitOfATask(t *testing.T) {
	w := newWorld(t, trustModel(t, "hasty").addr, played, "QQ_CHILD_TIMEOUT=1")
	e := w.qq("batch", "--no-bar", "--timeout", "20", w.file("tasks.jsonl", `{"task": "Slow", "timeout": 1}`))
	assert.Equal(t, "qq: task 1 (timeout): Child process timed out after 1s\n"+
		"  hint: the limit is the timeout of the task: set another in the task\n",
		regexp.MustCompile(`(?m)^qq: (to continue|1 timeout).*\n`).ReplaceAllString(e.stderr, ""))
	e = w.qq("batch", "--no-bar", "--timeout", "1", w.file("tasks.jsonl", `{"task": "Slow", "timeout": 20}`))
	assert.Equal(t, "Slow is done.\n", e.stdout)
}

// TestRootHasTheTimeOfItsAgent: the agent of a prompt has the run time that its definition says. It does
// not pass while its child works, and at its end the agent says what it has.
func TestRootHasTheTimeOfItsAgent(t *testing.T) {
	m := endurePlay(t, func(_ context.Context, k endureTalk) api.Message {
		switch {
		case k.text() == "Slow":
			<-time.After(trustSlow)
			return endureSay("Slow is done.")
		case k.turn() == 0:
			return workAsk(workCall("delegate_task", "agent", "summarizer", "task", "Slow"))
		case k.turn() == 1:
			return workAsk(workCall("run_pty_cmd", "command", "sleep 60"))
		}
		assert.Contains(t, k.last().Content, "Your time is up")
		return endureSay("I found half of it.")
	})
	for _, c := range []struct {
		definition, whose string
		args              []string
	}{
		{"timeout: 1\n", "the limit is that of agent brief (", nil},
		{"", "the limit is --timeout: set another with ", []string{"--timeout", "3"}},
		{"idle_timeout: 1\n", "the limit is that of agent brief (", nil},
	} {
		w := newWorld(t, m.addr, played, "QQ_APPROVE=auto")
		w.file(".qq/agents/brief.md", "---\nname: brief\ndescription: has little time\n"+
			"tools: [run_pty_cmd, delegate_task]\n"+c.definition+"---\nYou work.\n")
		began := time.Now()
		e := w.qq(append([]string{"-a", "brief", "Work"}, c.args...)...)
		assert.Less(t, time.Since(began), 20*time.Second)
		assert.Equal(t, 124, e.code, "exit code")
		assert.Equal(t, "I found half of it.\n", e.stdout)
		assert.Contains(t, e.stderr, c.whose)
		results := w.toolResults()
		require.Len(t, results, 2)
		assert.True(t, strings.HasPrefix(results[0], "Slow is done.\n["), "the child had its time")
	}
}

// TestDefaultsAreDocumented: README.md, .env.example, qq config and qq --help say the same about each
// setting, README.md has the limits of the built-in agents, and a slow model can live with them.
func TestDefaultsAreDocumented(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		return string(text)
	}
	readme, example := read("README.md"), read(".env.example")
	w := newWorld(t, "127.0.0.1:1", played)
	help := w.qq("--help").stdout
	var settings []struct{ Name, Default, Meaning string }
	endureDecode(t, w.qq("config", "--json").stdout, &settings)
	for _, s := range settings {
		row := regexp.MustCompile("(?m)^\\| `" + s.Name + "` \\|.*\\| `" + regexp.QuoteMeta(s.Default) + "` \\| " +
			regexp.QuoteMeta(s.Meaning))
		assert.Regexp(t, row, readme)
		assert.Contains(t, example, "# "+s.Meaning+"\n")
		assert.Regexp(t, "(?m)^(# )?(Default: .*\n)?"+s.Name+"=", example)
		assert.Regexp(t, `(?m)^  `+s.Name+` +`+regexp.QuoteMeta(strings.ReplaceAll(s.Meaning, "`", ""))+
			` \(default `+regexp.QuoteMeta(s.Default)+`\)$`, help)
	}
	var agents []struct{ Name string }
	endureDecode(t, w.qq("agents", "--json").stdout, &agents)
	require.Len(t, agents, 11)
	for _, a := range agents {
		var shown struct {
			Turns   int           `json:"max_turns"`
			Timeout time.Duration `json:"timeout_ns"`
			Idle    time.Duration `json:"idle_timeout_ns"` // 0 is that of the run: 300 s
		}
		require.NoError(t, json.Unmarshal([]byte(w.qq("agents", "show", a.Name, "--json").stdout), &shown))
		assert.Regexp(t, fmt.Sprintf("(?m)^\\| `%s` \\| [^|]+ \\| %d \\| %g s \\| ", a.Name, shown.Turns,
			shown.Timeout.Seconds()), readme)
		assert.GreaterOrEqual(t, shown.Timeout, 600*time.Second, a.Name)
		assert.True(t, shown.Idle == 0 || shown.Idle >= 300*time.Second, a.Name)
	}
}

// trustTries plays an agent that makes each call, then answers; its helpers answer at once.
func trustTries(t *testing.T, calls ...api.ToolCall) *endureModel {
	return endurePlay(t, func(_ context.Context, k endureTalk) api.Message {
		switch {
		case k.text() != "Try":
			return endureSay("Help with " + k.text() + ".")
		case k.turn() < len(calls):
			return workAsk(calls[k.turn()])
		}
		return endureSay("The whole answer.")
	})
}

// TestOwnKind: an agent may ask one of its own kind, and "default" written out is what a task without an
// agent asks for. Only agents: can leave it out, and that makes no whole answer a failure.
func TestOwnKind(t *testing.T) {
	for name, c := range map[string]struct {
		agent string // that runs
		asks  []any
		lists string // its agents
		want  string
	}{
		"default":  {"default", []any{"agent", "default"}, "", "Help with it."},
		"nobody":   {"default", nil, "", "Help with it."},
		"own name": {"kin", []any{"agent", "Kin"}, "", "Help with it."},
		"listed":   {"kin", []any{"agent", "kin"}, "agents: [explorer, kin]\n", "Help with it."},
		"left out": {"kin", []any{"agent", "kin"}, "agents: [explorer]\n",
			"Child agent error: Cannot delegate to self"},
		"left out, built-in": {"researcher", []any{"agent", "researcher"}, "",
			"Child agent error: Cannot delegate to self"},
	} {
		t.Run(name, func(t *testing.T) {
			m := trustTries(t, workCall("delegate_task", append([]any{"task", "it"}, c.asks...)...))
			w := newWorld(t, m.addr, played)
			w.file(".qq/agents/kin.md", "---\nname: kin\ndescription: asks its kind\n"+
				"tools: [read_file, delegate_task]\n"+c.lists+"---\nYou ask.\n")
			w.qq("-a", c.agent, "Try").answered("The whole answer.")
			results := w.toolResults()
			require.Len(t, results, 1)
			answer, took, _ := strings.Cut(results[0], "\n")
			assert.Equal(t, c.want, answer)
			assert.Equal(t, strings.HasPrefix(answer, "Help"), strings.Contains(took, ": completed in "), took)
		})
	}
}

// TestOwnKindIsBounded: an agent that asks its own kind without end is stopped by the depth, and one that
// asks for many by the number.
func TestOwnKindIsBounded(t *testing.T) {
	m := endurePlay(t, func(_ context.Context, k endureTalk) api.Message {
		if k.turn() == 0 {
			return workAsk(workCall("delegate_task", "agent", "default", "task", "Again"))
		}
		return endureSay(k.last().Content)
	})
	w := newWorld(t, m.addr, played, "QQ_MAX_DEPTH=4")
	e := w.qq("Again")
	assert.Equal(t, 0, e.code, "exit code")
	assert.True(t, strings.HasPrefix(e.stdout, "Error: agents at this depth cannot hand on work\n[default "), e.stdout)
	assert.Equal(t, []string{"default depth=1", "default depth=2", "default depth=3"}, w.spawned())

	w = newWorld(t, m.addr, played, "QQ_MAX_DEPTH=100", "QQ_MAX_CHILDREN=5")
	e = w.qq("Again")
	assert.Equal(t, 5, e.code, "exit code")
	assert.Contains(t, e.stderr, "Maximum 5 sub-agents exceeded")
	assert.Len(t, w.spawned(), 5)
}

// TestSlipIsNoRefusal: what an agent asked for by mistake and worked around does not make its whole answer
// a failure. What a person or a policy denied does.
func TestSlipIsNoRefusal(t *testing.T) {
	write := workCall("write_file", "path", "a.txt", "content", "x")
	run := workCall("run_pty_cmd", "command", "true")
	coder := workCall("delegate_task", "agent", "coder", "task", "it")
	for name, c := range map[string]struct {
		agent  string
		call   api.ToolCall
		args   []string
		answer string
		denied bool
	}{
		"unknown agent": {"default", workCall("delegate_task", "agent", "codr", "task", "it"), nil,
			"Child agent error: Agent not found in registry: codr (known: analyzer, coder, database, default, executor, " +
				"explorer, planner, reader, researcher, security, summarizer, worker)\nhint: did you mean coder?", false},
		"forbidden agent": {"researcher", coder, nil,
			"Child agent error: researcher may not delegate to coder", false},
		"writer of a reader": {"reader", coder, nil,
			"Child agent error: reader may only read and may not delegate", false},
		"unknown tool": {"default", workCall("write_fil", "path", "a"), nil, `Error: no tool "write_fil"`, false},
		"tool that writes": {"explorer", write, nil,
			"Error: the definition of explorer does not give it this tool", false},
		"tool that runs": {"default", run, nil,
			"Error: the definition of default does not give it this tool", false},
		"tool of the family": {"explorer", workCall("list_children"), nil, "Error: the definition of explorer", false},
		"path outside": {"coder", workCall("write_file", "path", "../a.txt", "content", "x"),
			[]string{"--auto-approve"},
			"Error: ../a.txt is outside the working directory", false},
		"folder outside": {"default", workCall("delegate_task", "task", "it", "working_dir", "link"), nil,
			`Child agent error: working_dir "link" is no folder inside of the working directory: name one that exists`,
			false},
		"bad argument": {"default", workCall("delegate_task", "task", "it", "timeout", "soon"), nil,
			`Error: "timeout" must be a number`, false},
		"tool for a temporary agent": {"worker",
			workCall("spawn_agent", "instructions", "it", "tools", []string{"fly"}), nil,
			`Child agent error: tool "fly" is none that you have`, false},

		"--deny": {"coder", write, []string{"--deny", "write_file"}, "write_file was refused: it is denied", true},
		"--deny, reads": {"coder", workCall("read_file", "path", "a.txt"), []string{"--deny", "read_file"},
			"read_file was refused: it is denied in this run", true},
		"--read-only": {"coder", write, []string{"--read-only"},
			"write_file was refused: this agent may only read", true},
		"--read-only, below": {"default", coder, []string{"--read-only"},
			"default may only read and may not delegate to coder", true},
		"--approve deny": {"coder", write, []string{"--approve", "deny"},
			"write_file was refused: it needs an approval", true},
		"nobody to ask":        {"coder", write, nil, "write_file was refused: it needs an approval", true},
		"nobody to ask, below": {"default", coder, nil, "it needs an approval and nobody can be asked here", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, trustTries(t, c.call).addr, played)
			require.NoError(t, os.Symlink("/", filepath.Join(w.work, "link")))
			w.file(".qq/agents/reader.md", "---\nname: reader\ndescription: reads\nrole: information-gathering\n"+
				"tools: [read_file, delegate_task]\n---\nYou read.\n")
			e := w.qq(append([]string{"-a", c.agent, "Try", "--json"}, c.args...)...)
			r := e.json()
			assert.Equal(t, "The whole answer.", *r.Output)
			results := w.toolResults()
			require.Len(t, results, 1)
			assert.Contains(t, results[0], c.answer)
			if c.denied {
				e.failed(1, "refused")
				return
			}
			assert.Equal(t, "completed", r.Status)
			assert.Equal(t, 0, e.code, "exit code")
		})
	}
}
