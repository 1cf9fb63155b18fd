package app

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/sandbox"
	"qq/pkg/task"
)

// newACP makes a world with an agent that [playACP] runs.
func newACP(t *testing.T, more ...string) *world {
	t.Helper()
	if !sandbox.Probe().Enforced() {
		t.Skip("this system has no sandbox:", sandbox.Probe())
	}
	w := newWorld(t)
	self, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "acp-agent")))
	w.agent("other", "description: x\nruns: acp acp-agent --stdio\n"+strings.Join(more, "\n"))
	w.set("PATH="+bin+":"+os.Getenv("PATH"), "WORLD="+w.dir)
	return w
}

// TestLiesOfACP: what is told over the Agent Client Protocol is no more believed than the stream of Claude Code.
func TestLiesOfACP(t *testing.T) {
	const done = "It is done."
	for _, c := range []struct {
		play    string
		status  task.Status
		output  string
		says    string // in the error
		warning string
	}{
		{"never", task.Timeout, "I begin.", "timed out after", ""},
		{"stays", task.Completed, done, "", "did not end after its result"},
		{"failed", task.Failed, "", "API Error: 529", ""},
		{"exit1", task.Completed, done, "", "exited with code 1 after its result"},
		{"stdin", task.Completed, done, "", ""},
		{"half", task.NoResult, "Nearly there.", "in the middle of a line", ""},
		{"long", task.Completed, done, "", "1 lines that were too long"},
		{"grandchild", task.Completed, done, "", ""},
		{"silent", task.NoResult, "I begin.", "ended without a result (exit code 0)", ""},
		{"other", task.NoResult, "I begin.", "ended without a result", ""},
		{"empty", task.Empty, "", "empty answer", ""},
		{"turns", task.TurnLimit, "I begin.", "used up its turns", ""},
		{"cut", task.Failed, "I begin.", "limit of tokens", ""},
		{"noreason", task.Failed, "", "ended without a reason", ""},
	} {
		t.Run(c.play, func(t *testing.T) {
			t.Parallel()
			for _, as := range []string{"root", "child"} {
				w := newACP(t)
				w.file("x.txt", "x\n")
				limit := "60"
				if c.play == "never" {
					limit = "3"
				}
				args := []string{"-a", "other", "--approve", "auto", "--timeout", limit, "--retries", "0", "--json"}
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

// TestACPWorks: a call is asked about, what was written is in the result, and the model is that of the definition.
func TestACPWorks(t *testing.T) {
	w := newACP(t, "model: large")
	r := w.start("-a", "other", "--json", "-m", "do it").end().document(t) // nobody can be asked
	assert.Equal(t, task.Refused, r.Status)
	assert.NoFileExists(t, filepath.Join(w.dir, "hello.txt"))

	e := w.start("-a", "other", "--json", "--allow", "edit_file(*.txt)", "-m", "do it").end()
	r = e.document(t)
	require.True(t, r.Success, r.Err())
	assert.Equal(t, "It is done by large.", r.Output)
	assert.Equal(t, []string{"hello.txt"}, r.ChangedFiles)
	assert.Equal(t, task.Usage{InputTokens: 200, OutputTokens: 20}, r.Usage)
	assert.Equal(t, map[string]int{"edit": 1}, r.Did.Calls)
	assert.Contains(t, w.run("sessions", "show", w.sessionOf(t)).out, "+hello")
	require.NoError(t, os.Remove(filepath.Join(w.dir, "hello.txt")))

	r = w.start("batch", "-a", "other", "--approve", "auto", "--isolate", "auto", "--json", "-m", "do {}", ":::", "a").
		end().documents(t)[0]
	require.True(t, r.Success, r.Err())
	assert.FileExists(t, filepath.Join(w.dir, "hello.txt"))

	w.agent("other", "description: x\nruns: acp acp-agent --stdio\nmodel: unknown")
	r = w.start("-a", "other", "--json", "--approve", "auto", "-m", "do it").end().document(t)
	assert.Equal(t, "It is done by small.", r.Output)
	assert.Contains(t, strings.Join(r.Warnings, "\n"), "offers no model unknown")
}

// TestACPDiesWithRoot: when the root is killed, nothing of the program is left.
func TestACPDiesWithRoot(t *testing.T) {
	w := newACP(t)
	p := w.start("batch", "-a", "other", "--approve", "auto", "-m", "play never {}", ":::", "a", "b", "c")
	w.until(func() bool { return w.sleeping() == 3 })
	p.signal(syscall.SIGKILL)
	p.end()
	w.until(func() bool { return w.sleeping() == 0 })
	assert.True(t, w.start("-a", "other", "--approve", "auto", "--json", "-m", "do it").end().document(t).Success)
}

// TestOpenCodeLodges: opencode gets copies of its settings and its login, and can write to none of the person's.
func TestOpenCodeLodges(t *testing.T) {
	w := newACP(t)
	self, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "opencode")))
	w.agent("oc", "description: x\nruns: opencode")
	login := filepath.Join(w.home, ".local", "share", "opencode", "auth.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(login), 0o700))
	require.NoError(t, os.WriteFile(login, []byte(`{"its":"login"}`), 0o600))
	w.set("PATH="+bin+":"+os.Getenv("PATH"), "OPENCODE=1", "OPENAI_API_KEY=own", "MY_TOKEN=secret2")
	r := w.start("-a", "oc", "--json", "--approve", "auto", "-m", "play lodging").end().document(t)
	require.True(t, r.Success, r.Err())
	assert.Contains(t, r.Output, `login: {"its":"login"}, written: true, theirs: false`)
	assert.Contains(t, r.Output, "OPENAI_API_KEY=own")
	assert.NotContains(t, r.Output, "OPENCODE=1")
	assert.NotContains(t, r.Output, "secret2")
	assert.Contains(t, r.Output, "arguments: opencode acp")
}
