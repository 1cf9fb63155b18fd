package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/approval"
	"qq/internal/control"
	"qq/internal/standin"
	"qq/pkg/event"
)

// noting is a task of a child that notes its name in the file log.
func noting(name string) map[string]any {
	return map[string]any{"agent": "executor", "task": called("run_pty_cmd",
		map[string]any{"command": "echo " + name + " >> log"})}
}

// face connects to the only run.
func (w *world) face() *control.Client {
	w.t.Helper()
	var c *control.Client
	require.Eventually(w.t, func() bool {
		for _, s := range control.Look(w.home + "/qq") {
			if s.Err == nil {
				c, _ = control.Dial(s.Path)
			}
		}
		return c != nil
	}, 30*time.Second, 10*time.Millisecond)
	w.t.Cleanup(c.Close)
	return c
}

// open waits for so many open questions.
func (w *world) open(c *control.Client, n int) (all []control.Question) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		s, err := c.Snapshot()
		require.NoError(w.t, err)
		all = s.Questions
		return len(all) == n
	}, 30*time.Second, 10*time.Millisecond)
	return all
}

// TestQuestionsInReverse: three children ask at once. A person at the terminal, and a face on the socket, answer in
// reverse order; each sees what the other one did.
func TestQuestionsInReverse(t *testing.T) {
	w, _ := newServedWorld(t, obedient)
	w.set("TERM=xterm")
	tasks := []any{noting("a"), noting("b"), noting("c")}
	s := w.onTerminalOf(120, w.command("-a", "default", called("run_parallel_tasks", map[string]any{"tasks": tasks})))
	s.until("3 questions wait for an answer:")
	c := w.face()
	_, err := c.Subscribe(control.Subscribe{Answers: true})
	require.NoError(t, err)
	asked := w.open(w.face(), 3)
	name := func(i int) string { return strings.TrimPrefix(asked[i].Intent.Command, "echo ")[:1] }
	for i, q := range asked {
		assert.Regexp(t, fmt.Sprintf(`[› ] %d executor [0-9a-f]{8} asks: run_pty_cmd "run: echo %s >> log"`, i+1, name(i)),
			s.shown())
		assert.Equal(t, []string{"default", "executor"}, q.Chain)
	}

	time.Sleep(3 * time.Second / 2) // keys count now
	s.press("3")
	s.until("› 3 executor")
	s.press("y\r")
	s.until(`echo ` + name(2) + ` >> log" → once`)
	require.Eventually(t, func() bool { return w.content("log") == name(2)+"\n" }, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, c.Answer(asked[1].QuestionID, approval.Once))
	s.until(`echo ` + name(1) + ` >> log" → once, from qq serve or another face`)
	err = c.Answer(asked[1].QuestionID, approval.No)
	assert.ErrorContains(t, err, "was already answered elsewhere: once")
	err = c.Answer(asked[2].QuestionID, approval.No)
	assert.ErrorContains(t, err, "was already answered at the terminal of its run: once")
	require.Eventually(t, func() bool { return w.content("log") == name(2)+"\n"+name(1)+"\n" }, 30*time.Second,
		5*time.Millisecond)
	s.until("[n]o: ")
	require.NoError(t, c.Answer(asked[0].QuestionID, approval.No))
	s.until(` >> log → no, from qq serve or another face)`)
	e := s.wait()
	assert.Zero(t, e.code, e.out)
	assert.Equal(t, name(2)+"\n"+name(1)+"\n", w.content("log"))

	by := map[string]string{}
	for {
		e, err := c.Next()
		if err != nil {
			break
		}
		if e.Type == event.ValidationResolved {
			by[e.QuestionID] = e.Decision + " " + e.AnsweredBy
		}
	}
	assert.Equal(t, map[string]string{asked[0].QuestionID: "no socket", asked[1].QuestionID: "once socket",
		asked[2].QuestionID: "once terminal"}, by)
}

// TestQuestionAtOnce: a question that comes before the socket is open waits for a face that has announced itself.
func TestQuestionAtOnce(t *testing.T) {
	w, _ := newServedWorld(t, obedient)
	require.NoError(t, os.MkdirAll(w.home+"/qq", 0o700))
	over, err := control.Announce(w.home + "/qq")
	require.NoError(t, err)
	defer over()
	cmd := w.command("-a", "executor", called("run_pty_cmd", map[string]any{"command": "echo one >> log"}))
	var errors strings.Builder
	cmd.Stderr = &errors
	require.NoError(t, cmd.Start())
	c := w.face()
	_, err = c.Subscribe(control.Subscribe{Answers: true})
	require.NoError(t, err)
	require.NoError(t, c.Answer(w.open(w.face(), 1)[0].QuestionID, approval.Once))
	_ = cmd.Wait() // how it ended is in ProcessState
	assert.Zero(t, cmd.ProcessState.ExitCode(), errors.String())
	assert.Equal(t, "one\n", w.content("log"))
}

// TestQuestionsWithoutTerminal: without a terminal, questions wait for a face that can answer, and for none that only
// looks. When it goes, what is open is refused.
func TestQuestionsWithoutTerminal(t *testing.T) {
	run := func(line string) string { return called("run_pty_cmd", map[string]any{"command": line}) }
	w, _ := newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
		calls := []string{run("sh wait.sh"), run("echo one >> log"), run("echo two >> log"), "The end."}
		for _, m := range p.Messages {
			if m.Role == "tool" {
				calls = calls[1:]
			}
		}
		return calls[0]
	}))
	w.file("wait.sh", "while [ ! -e go ]; do sleep 0.01; done\n")
	for _, answers := range []bool{true, false} {
		w.file("log", "")
		require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "go")))
		cmd := w.command("-a", "executor", "--allow", "run_pty_cmd(sh wait.sh)", "Begin.")
		var errors strings.Builder
		cmd.Stderr = &errors
		require.NoError(t, cmd.Start())
		c := w.face()
		_, err := c.Subscribe(control.Subscribe{Answers: answers})
		require.NoError(t, err)
		w.file("go", "")
		if answers {
			require.NoError(t, c.Answer(w.open(w.face(), 1)[0].QuestionID, approval.Once))
			once := func() bool { return w.content("log") == "one\n" }
			require.Eventually(t, once, 30*time.Second, 5*time.Millisecond)
			w.open(w.face(), 1)
			c.Close()
		}
		_ = cmd.Wait() // how it ended is in ProcessState
		assert.Equal(t, 1, cmd.ProcessState.ExitCode(), errors.String())
		assert.Contains(t, errors.String(),
			"run_pty_cmd was refused: it needs an approval and nobody can be asked here")
		assert.Equal(t, map[bool]string{true: "one\n"}[answers], w.content("log"))
	}
}
