package app

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/approval"
	"qq/internal/control"
	"qq/internal/sandbox"
	"qq/internal/standin"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// newClaude makes a world with an agent that Claude Code runs, which is [playClaude].
func newClaude(t *testing.T, more ...string) *world {
	t.Helper()
	if !sandbox.Probe().Enforced() {
		t.Skip("this system has no sandbox:", sandbox.Probe())
	}
	w := newWorld(t)
	w.playing("claude", more...)
	return w
}

// playing adds an agent that Claude Code runs.
func (w *world) playing(name string, more ...string) {
	w.t.Helper()
	self, err := os.Executable()
	require.NoError(w.t, err)
	bin := w.t.TempDir()
	require.NoError(w.t, os.Symlink(self, filepath.Join(bin, "claude")))
	w.agent(name, "description: Claude Code\nruns: claude\n"+strings.Join(more, "\n"))
	w.set("PATH="+bin+":"+os.Getenv("PATH"), "WORLD="+w.dir)
}

// agent writes a definition of the user's.
func (w *world) agent(name, front string) {
	w.t.Helper()
	dir := filepath.Join(w.home, "config", "qq", "agents")
	require.NoError(w.t, os.MkdirAll(dir, 0o700))
	text := "---\nname: " + name + "\n" + strings.TrimSpace(front) + "\n---\nYou are careful.\n"
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, name+".md"), []byte(text), 0o600))
}

// TestLies: whatever a program says or does, a success is one, a run ends by its clock, and no process is left. Each
// lie is told to the root's own agent and to a child.
func TestLies(t *testing.T) {
	const done = "It is done."
	for _, c := range []struct {
		play    string
		status  task.Status
		output  string
		says    string // in the error
		warning string
	}{
		{"good", task.Completed, done, "", ""},
		{"never", task.Timeout, "I begin.", "timed out after", ""},
		{"stays", task.Completed, done, "", "did not end after its result"},
		{"failed", task.Failed, "I cannot.", "API Error: 529", ""},
		{"subtype", task.Failed, "", "claude: it broke", ""},
		{"turns", task.TurnLimit, "", "error_max_turns", ""},
		{"exit1", task.Completed, done, "", "exited with code 1 after its result"},
		{"stdin", task.Completed, done, "", ""},
		{"half", task.NoResult, "Nearly there.", "in the middle of a line", ""},
		{"unended", task.Completed, done, "", ""},
		{"long", task.Completed, done, "", "1 lines that were too long"},
		{"grandchild", task.Completed, done, "", ""},
		{"silent", task.NoResult, "", "ended without a result (exit code 0)", ""},
		{"empty", task.Empty, "", "empty answer", ""},
		{"noise", task.Completed, "It is \x1b[2Jdone.", "", ""},
	} {
		t.Run(c.play, func(t *testing.T) {
			t.Parallel()
			for _, as := range []string{"root", "child"} {
				w := newClaude(t)
				w.file("x.txt", "x\n")
				limit := "60"
				if c.play == "never" {
					limit = "3"
				}
				args := []string{"-a", "claude", "--approve", "auto", "--timeout", limit, "--retries", "0", "--json"}
				text := "please play " + c.play + " now"
				begun := time.Now()
				var r task.Result
				if as == "root" {
					p := w.start(append(args, "-m", text)...)
					r = p.end().document(t)
					used := p.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
					assert.Less(t, used, memory()+200, "megabytes")
				} else {
					e := w.start(append([]string{"batch"}, append(args, "-m", text+" {}", ":::", "a")...)...).end()
					r = e.documents(t)[0]
				}
				want := c.status
				if want == task.NoResult && as == "child" {
					want = task.UnknownOutcome // it may have changed files
				}
				assert.Equal(t, want, r.Status, "%s: %+v", as, r)
				assert.Equal(t, c.status == task.Completed, r.Success)
				assert.Equal(t, c.output, r.Output, as)
				assert.Contains(t, r.Err(), c.says, as)
				assert.Contains(t, strings.Join(r.Warnings, "\n"), c.warning, as)
				assert.Less(t, time.Since(begun), 30*time.Second, "no hang")
			}
		})
	}
}

// memory is how much of it this process has used at most, in megabytes: the kernel counts that for what it starts, too.
func memory() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Maxrss >> 10
}

// TestProgramWorks: what the program did is in the result, and stays in the sandbox.
func TestProgramWorks(t *testing.T) {
	w := newClaude(t, "max_turns: 7", "model: opus")
	w.file("x.txt", "x\n")
	r := w.start("-a", "claude", "--approve", "auto", "--json", "-m", "do it").end().document(t)
	require.True(t, r.Success, r.Err())
	assert.Equal(t, []string{"hello.txt"}, r.ChangedFiles)
	assert.Equal(t, "claude:opus", r.Model)
	assert.Equal(t, task.Usage{InputTokens: 210, OutputTokens: 20, CachedTokens: 10, Cost: 250_000_000,
		PricedTokens: 230}, r.Usage)
	assert.Equal(t, map[string]int{"Write": 1}, r.Did.Calls)
	show := w.run("sessions", "show", w.sessionOf(t))
	assert.Contains(t, show.out, "file_path: hello.txt")
	assert.Equal(t, 1, strings.Count(show.out, "│ It is done."), show.out)

	r = w.start("-a", "claude", "--approve", "auto", "--json", "-m", "play outside").end().document(t)
	assert.Equal(t, "home: true, own: true, inside: true", r.Output)
	r = w.start("-a", "claude", "--approve", "auto", "--json", "--read-only", "-m", "play outside").end().document(t)
	assert.Equal(t, "home: true, own: true, inside: false", r.Output)
	assert.Empty(t, r.ChangedFiles)
}

// sessionOf returns the id of the newest session.
func (w *world) sessionOf(t *testing.T) string {
	t.Helper()
	lines := strings.Split(w.run("sessions", "list").out, "\n")
	require.Greater(t, len(lines), 1)
	id, _, _ := strings.Cut(lines[1], " ")
	return id
}

// TestProgramEnvironment: the program gets its own login and none of qq's secrets, and does not take itself for nested.
func TestProgramEnvironment(t *testing.T) {
	w := newClaude(t, "max_turns: 7", "model: opus")
	require.NoError(t, os.MkdirAll(filepath.Join(w.home, ".claude"), 0o700))
	login := filepath.Join(w.home, ".claude", ".credentials.json")
	require.NoError(t, os.WriteFile(login, []byte(`{"a":1}`), 0o600))
	w.set("CLAUDECODE=1", "CLAUDE_CODE_ENTRYPOINT=cli", "CLAUDE_CODE_OAUTH_TOKEN=own", "ANTHROPIC_API_KEY=theirs",
		"OPENAI_API_KEY=secret1", "MY_TOKEN=secret2", "QQ_SERVER_lab=openai http://127.0.0.1:1/v1 key=LAB_KEY",
		"LAB_KEY=secret3secret3")
	const text = "play env of the program"
	for _, args := range [][]string{
		{"-a", "claude", "--approve", "auto", "-m", text},
		{"batch", "-a", "claude", "--approve", "auto", "-m", text + " {}", ":::", "a"},
	} {
		e := w.start(args...).end()
		require.NotContains(t, e.out, "secret", e.errors)
		assert.NotContains(t, e.out, "CLAUDECODE=")
		assert.NotContains(t, e.out, "CLAUDE_CODE_ENTRYPOINT")
		assert.NotContains(t, e.out, "QQ_SERVER")
		assert.NotContains(t, e.out, text, "the task is not in the arguments")
		assert.Contains(t, e.out, `CLAUDE_CODE_OAUTH_TOKEN=own`)
		assert.Contains(t, e.out, `ANTHROPIC_API_KEY=theirs`)
		assert.Contains(t, e.out, "--max-turns\n7")
		assert.Contains(t, e.out, "--model\nopus")
	}
}

// TestProgramIsAsked: calls of a program are asked about, and what is refused is no success.
func TestProgramIsAsked(t *testing.T) {
	w := newClaude(t)
	r := w.start("-a", "claude", "--json", "-m", "do it").end().document(t) // nobody can be asked
	assert.Equal(t, task.Refused, r.Status)
	assert.Contains(t, r.Err(), "Write was refused")
	assert.NoFileExists(t, filepath.Join(w.dir, "hello.txt"))

	r = w.start("-a", "claude", "--json", "--allow", "edit_file(*.txt)", "-m", "do it").end().document(t)
	assert.Equal(t, task.Completed, r.Status, r.Err())
	assert.FileExists(t, filepath.Join(w.dir, "hello.txt"))

	r = w.start("-a", "claude", "--json", "--approve", "auto", "--deny", "write_file", "-m", "do it").end().document(t)
	assert.Equal(t, task.Refused, r.Status, "a rule about any tool that writes counts")
}

// TestProgramAsksFace: the question of a program in a child comes up with the chain of agents.
func TestProgramAsksFace(t *testing.T) {
	w, _ := newServedWorld(t, standin.Scripts(
		standin.Script{Start: "[[lead]]", Text: delegate("strong", "play asks [[done]]")},
		standin.Script{Start: "[[done]]", Text: "the strong one did it"},
	))
	w.playing("strong")
	p := w.start("--json", "-m", "[[lead]]")
	c := w.face()
	_, err := c.Subscribe(control.Subscribe{Answers: true})
	require.NoError(t, err)
	w.file("play-go", "")
	q := w.open(w.face(), 1)[0]
	assert.Equal(t, []string{"default", "strong"}, q.Chain)
	assert.Equal(t, "run_pty_cmd", q.Intent.Tool)
	assert.Equal(t, tool.High, q.Intent.Risk)
	assert.Contains(t, q.Intent.Summary, "claude: Bash touch ")
	assert.NotContains(t, q.Intent.Summary+q.Intent.Preview, "\x1b")
	require.NoError(t, c.Answer(q.QuestionID, approval.Once))
	r := p.end().document(t)
	require.True(t, r.Success, r.Err())
	assert.FileExists(t, filepath.Join(w.dir, "made"))
}

// TestProgramIsChecked: the check of the work is that of every agent, and what it finds goes back to the program in the
// same conversation.
func TestProgramIsChecked(t *testing.T) {
	w := newClaude(t)
	w.agent("claude", "description: x\nruns: claude")
	r := w.start("-a", "claude", "--json", "--approve", "auto", "--check", "test -f repaired", "--repair", "2",
		"-m", "play first").end().document(t)
	require.Equal(t, task.Completed, r.Status, r.Err())
	assert.True(t, strings.HasPrefix(r.Output, "second: Your work was checked"), r.Output)

	r = w.start("-a", "claude", "--json", "--approve", "auto", "--check", "false", "-m", "do it").end().document(t)
	assert.Equal(t, task.CheckFailed, r.Status)
}

// TestProgramSpends: the budget of the tree ends a program while it runs.
func TestProgramSpends(t *testing.T) {
	for _, args := range [][]string{
		{"-a", "claude", "--approve", "auto", "--json", "--max-tokens", "500", "-m", "play spends"},
		{"batch", "-a", "claude", "--approve", "auto", "--json", "--max-tokens", "500", "-m", "play spends {}",
			":::", "a"},
	} {
		w := newClaude(t)
		begun := time.Now()
		e := w.start(args...).end()
		assert.Contains(t, e.out, "Token budget exhausted", e.errors)
		assert.Contains(t, e.out, `"status":"limit"`)
		assert.Less(t, time.Since(begun), 10*time.Second)
	}
}

// TestProgramDiesWithRoot: when the root is killed, nothing of the program is left.
func TestProgramDiesWithRoot(t *testing.T) {
	for n, args := range [][]string{1: {"-a", "claude", "--approve", "auto", "-m", "play never"},
		3: {"batch", "-a", "claude", "--approve", "auto", "-m", "play never {}", ":::", "a", "b", "c"}} {
		if args == nil {
			continue
		}
		w := newClaude(t)
		p := w.start(args...)
		w.until(func() bool { return w.sleeping() == n })
		p.signal(syscall.SIGKILL)
		p.end()
		assert.True(t, w.start("-a", "claude", "--approve", "auto", "--json", "-m", "do it").end().document(t).Success)
	}
}

// TestProgramIsKilled: a program that somebody kills has no result.
func TestProgramIsKilled(t *testing.T) {
	w := newClaude(t)
	p := w.start("-a", "claude", "--approve", "auto", "--json", "-m", "play never")
	w.until(func() bool { return w.sleeping() == 1 })
	for _, pid := range w.processes() {
		if line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")); err == nil &&
			strings.HasPrefix(string(line), "claude\x00") {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	r := p.end().document(t)
	assert.Equal(t, task.NoResult, r.Status)
	assert.Contains(t, r.Err(), "ended without a result (killed")
	assert.Equal(t, "I begin.", r.Output)
}

// sleeping counts the processes of w that are those of [away].
func (w *world) sleeping() (n int) {
	for _, pid := range w.processes() {
		if line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")); err == nil &&
			strings.HasPrefix(string(line), "/bin/sleep") {
			n++
		}
	}
	return n
}

// TestProgramIsLed: a planner on a small model hands a task to a program.
func TestProgramIsLed(t *testing.T) {
	w, _ := newServedWorld(t, standin.Scripts(
		standin.Script{Start: "[[lead]]", Text: delegate("strong", "do it [[done]]")},
		standin.Script{Start: "[[done]]", Text: "the strong one did it"},
	))
	w.playing("strong")
	r := w.start("--approve", "auto", "--json", "-m", "[[lead]]").end().document(t)
	require.True(t, r.Success, r.Err())
	assert.FileExists(t, filepath.Join(w.dir, "hello.txt"))
	assert.Equal(t, []string{"hello.txt"}, r.ChangedFiles)
}

// TestProgramIsApart: tasks of programs work in copies of the folder.
func TestProgramIsApart(t *testing.T) {
	w := newClaude(t)
	w.file("x.txt", "x\n")
	e := w.start("batch", "-a", "claude", "--approve", "auto", "--isolate", "auto", "--json", "-m", "do {}",
		":::", "a").end()
	r := e.documents(t)[0]
	require.True(t, r.Success, r.Err())
	assert.Equal(t, []string{"hello.txt"}, r.ChangedFiles)
	assert.FileExists(t, filepath.Join(w.dir, "hello.txt"))
}

// TestProgramIsMissing: a program that is not there is an error with a hint, before anything starts.
func TestProgramIsMissing(t *testing.T) {
	w := newWorld(t)
	w.agent("other", "description: x\nruns: claude")
	w.set("PATH=/nonexistent:.")
	w.file("claude", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "claude"), 0o700))
	for _, args := range [][]string{{"-a", "other", "-m", "x"}, {"batch", "-a", "other", "-m", "x {}", ":::", "a"}} {
		e := w.run(args...)
		assert.Equal(t, 2, e.code)
		assert.Contains(t, e.errors, "the program claude is not found")
		assert.Contains(t, e.errors, "npm install -g @anthropic-ai/claude-code")
	}
}

// TestCheckoutNamesProgram: what a checkout names to run counts after trust only.
func TestCheckoutNamesProgram(t *testing.T) {
	w := newClaude(t)
	w.file(".qq/agents/other.md", "---\nname: other\ndescription: x\nruns: claude\n---\nx\n")
	e := w.start("-a", "other", "--approve", "auto", "-m", "do it").end()
	assert.NotZero(t, e.code)
	assert.Contains(t, e.errors, "is not trusted")
	assert.NoFileExists(t, filepath.Join(w.dir, "hello.txt"))
	e = w.run("trust", "--yes")
	assert.Contains(t, e.out+e.errors, "those of the program that it runs, claude")
	e = w.start("-a", "other", "--approve", "auto", "-m", "do it").end()
	assert.Zero(t, e.code, e.errors)
	assert.FileExists(t, filepath.Join(w.dir, "hello.txt"))
}
