package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/command"
	"qq/internal/standin"
	"qq/pkg/task"
)

const (
	soon  = 30 * time.Second     // when what is waited for should long have been there
	often = 5 * time.Millisecond // to look for it
)

// started is a qq that runs as a process of its own.
type started struct {
	*exec.Cmd
	w           *world
	out, errors string // files
}

// start starts qq with an environment by which its processes are found.
func (w *world) start(args ...string) *started {
	w.t.Helper()
	w.set("WORLD=" + w.dir)
	dir := w.t.TempDir()
	p := &started{Cmd: w.command(args...), w: w, out: filepath.Join(dir, "out"), errors: filepath.Join(dir, "err")}
	out, err := os.Create(p.out)
	require.NoError(w.t, err)
	defer out.Close()
	problems, err := os.Create(p.errors)
	require.NoError(w.t, err)
	defer problems.Close()
	p.Stdout, p.Stderr = out, problems
	require.NoError(w.t, p.Start())
	return p
}

func (p *started) signal(signals ...syscall.Signal) {
	p.w.t.Helper()
	for _, s := range signals {
		require.NoError(p.w.t, p.Process.Signal(s))
	}
}

// end waits for the end of p, and sees that no process of it is left.
func (p *started) end() ended {
	p.w.t.Helper()
	_ = p.Wait() // how it ended is in ProcessState
	p.w.assertNoProcess()
	out, err := os.ReadFile(p.out)
	require.NoError(p.w.t, err)
	problems, err := os.ReadFile(p.errors)
	require.NoError(p.w.t, err)
	return ended{p.ProcessState.ExitCode(), string(out), string(problems)}
}

// processes are those of w that live, without zombies.
func (w *world) processes() []int {
	w.t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(w.t, err)
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // empty for a zombie
		if bytes.Contains(environ, []byte("\x00WORLD="+w.dir+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (w *world) assertNoProcess() {
	w.t.Helper()
	assert.Eventually(w.t, func() bool { return len(w.processes()) == 0 }, time.Second, often, "no process is left")
}

// until waits for a condition.
func (w *world) until(condition func() bool) {
	w.t.Helper()
	require.Eventually(w.t, condition, soon, often)
}

// asked waits until the server was asked n questions.
func (w *world) asked(s *standin.Server, n int) {
	w.t.Helper()
	w.until(func() bool { return s.Count("/api/chat") >= n })
}

func (w *world) scratchFolders() []string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(command.Environment(w.env).Get("QQ_HOME"), "run", "*"))
	require.NoError(w.t, err)
	return found
}

// stopping are the signals that end a run. A SIGHUP that is ignored where the tests start, by nohup
// for example, is not among them: qq ignores it too.
func stopping() []syscall.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}
	}
	return []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
}

// TestSignal: after a signal a batch prints the results that it has, completes its
// document, and exits with the code of the signal.
func TestSignal(t *testing.T) {
	for _, s := range stopping() {
		t.Run(s.String(), func(t *testing.T) {
			w, server := newServedWorld(t, batchScripts())
			w.file("tasks.txt", "one\n[[never]]\n[[never]]\nfour\n")
			p := w.start("batch", "-j2", "-q", "--json", "tasks.txt")
			w.asked(server, 3)
			p.signal(s)
			e := p.end()
			assert.Equal(t, 128+int(s), e.code)
			status, why := task.Interrupted, "stopped by a signal"
			if s == syscall.SIGTERM {
				status, why = task.Terminated, "terminated"
			}
			var got []task.Status
			for _, r := range e.documents(t) {
				if got = append(got, r.Status); r.Status == status {
					assert.Equal(t, why, r.Err(), "the status says the rest")
				}
			}
			assert.Equal(t, []task.Status{task.Completed, status, status, task.Cancelled}, got)
			last := e.documents(t)[3]
			assert.Equal(t, status.ExitCode(), last.ExitCode, "it was not started for the same reason")
			assert.Contains(t, w.run("runs").out, " "+string(status)+" ")
			assert.Empty(t, w.scratchFolders())
		})
	}
}

// TestSignalRun: an interrupted run keeps the text that the model had written.
func TestSignalRun(t *testing.T) {
	w, server := newServedWorld(t, standin.Scripts(
		standin.Script{
			Start: "[[stall]]",
			Text:  "one two three",
			Fault: &standin.Fault{Break: standin.Stall, After: 2},
		},
	))
	p := w.start("--output-format", "stream-json", "[[stall]]")
	w.asked(server, 1)
	w.until(func() bool { text, _ := os.ReadFile(p.out); return bytes.Contains(text, []byte(`"token"`)) })
	p.signal(syscall.SIGINT)
	e := p.end()
	assert.Equal(t, 130, e.code)
	assert.Equal(t, "qq: interrupted\n", e.errors)
	lines := jsonLines(t, e.out)
	last := lines[len(lines)-1]
	assert.Equal(t, "one two", last["output"])
	assert.EqualValues(t, 130, last["exit_code"])
}

// TestSignalIsRecorded: the ledger has the error and the exit code of an interrupted run that its
// process had.
func TestSignalIsRecorded(t *testing.T) {
	for _, s := range stopping() {
		w, server := newServedWorld(t, batchScripts())
		p := w.start("--json", "[[never]]")
		w.asked(server, 1)
		p.signal(s)
		var printed task.Result
		require.NoError(t, json.Unmarshal([]byte(p.end().out), &printed))
		word := "interrupted"
		if s == syscall.SIGTERM {
			word = "terminated"
		}
		assert.Equal(t, []any{128 + int(s), word}, []any{printed.ExitCode, printed.Err()})
		var kept struct{ Result task.Result }
		require.NoError(t, json.Unmarshal([]byte(w.run("runs", "show", "--json", printed.ExecutionID).out), &kept))
		assert.Equal(t, []any{printed.Status, printed.ExitCode, printed.Err()},
			[]any{kept.Result.Status, kept.Result.ExitCode, kept.Result.Err()})
	}
}

// TestSecondSignal: after a second signal qq does not wait for a child that ignores the
// first.
func TestSecondSignal(t *testing.T) {
	w, server := newServedWorld(t, batchScripts())
	w.file("tasks.txt", "[[never]]\n")
	p := w.start("batch", "-q", "tasks.txt")
	w.asked(server, 1)
	for _, pid := range w.processes() {
		if pid != p.Process.Pid {
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		}
	}
	start := time.Now()
	p.signal(syscall.SIGINT, syscall.SIGTERM)
	assert.NotZero(t, p.end().code)
	assert.Less(t, time.Since(start), stopGrace, "without the stop ladder")
}

// TestSignalWhilePlanning: one signal ends a batch that makes a plan of very many globs.
func TestSignalWhilePlanning(t *testing.T) {
	w := newWorld(t)
	var tasks strings.Builder
	for i := range 100 {
		tasks.WriteString(`{"agent":"coder","task":"x","targets":[""`)
		for k := range 900 {
			fmt.Fprintf(&tasks, `,"**/a%d?b/*"`, i*1000+k)
		}
		tasks.WriteString("]}\n")
	}
	w.file("tasks.jsonl", strings.ReplaceAll(tasks.String(), `"",`, ""))
	p := w.start("batch", "--dry-run", "tasks.jsonl")
	time.Sleep(3 * time.Second) // the plan takes much longer
	began := time.Now()
	p.signal(syscall.SIGTERM)
	e := p.end()
	assert.Less(t, time.Since(began), 2*time.Second, "0.5 s, on a machine that is not busy")
	assert.Equal(t, ended{code: 143, errors: "qq: terminated\n"}, e)
}

// TestSignalWhileReading: a signal also ends a batch that waits for its input.
func TestSignalWhileReading(t *testing.T) {
	w := newWorld(t)
	in, tasks, err := os.Pipe()
	require.NoError(t, err)
	defer tasks.Close()
	defer in.Close()
	w.set("WORLD=" + w.dir)
	cmd := w.command("batch", "--json")
	cmd.Stdin = in
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	w.until(func() bool { return len(w.scratchFolders()) > 0 })
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait() // how it ended is in ProcessState
	assert.Equal(t, 130, cmd.ProcessState.ExitCode())
	r := ended{out: out.String()}.document(t)
	assert.Equal(t, task.Interrupted, r.Status)
	assert.Equal(t, 130, r.ExitCode)
}

// TestRootIsKilled: all processes of a killed qq end, and the next qq removes its files.
func TestRootIsKilled(t *testing.T) {
	w, server := newServedWorld(t, delegationScripts(), batchScripts())
	w.file("tasks.txt", strings.Repeat("[[hangs]]\n", 3))
	p := w.start("batch", "-q", "tasks.txt")
	w.asked(server, 4) // three leads, and a child: a server that looks slow gets no more at once
	// Of the children, which write, one after the other runs.
	w.until(func() bool { return len(w.processes()) >= 5 })
	p.signal(syscall.SIGKILL)
	assert.Equal(t, -1, p.end().code)
	assert.Len(t, w.scratchFolders(), 1)
	w.file("more.txt", "one\n")
	assert.Equal(t, ended{out: "one\n"}, w.run("batch", "-q", "more.txt"))
	assert.Empty(t, w.scratchFolders())
}

// TestClosedStdout: when the reader of stdout goes away, the run ends at once and without
// a message.
func TestClosedStdout(t *testing.T) {
	for _, args := range []string{
		"batch -q tasks.txt", "batch -q --json tasks.txt", "batch -q --output-format stream-json endless.txt",
		"--output-format stream-json [[loop]]",
	} {
		t.Run(args, func(t *testing.T) {
			w, _ := newServedWorld(
				t,
				batchScripts(),
				standin.Scripts(standin.Script{Start: "[[loop]]", Text: "la ", Loop: true}),
			)
			w.file("tasks.txt", "one\n[[slow]]\n[[never]]\n")
			w.file("endless.txt", "[[loop]]\n[[never]]\n")
			w.set("WORLD=" + w.dir)
			reader, writer, err := os.Pipe()
			require.NoError(t, err)
			cmd := w.command(strings.Fields(args)...)
			var problems bytes.Buffer
			cmd.Stdout, cmd.Stderr = writer, &problems
			require.NoError(t, cmd.Start())
			require.NoError(t, writer.Close())
			_, err = bufio.NewReaderSize(reader, 16).ReadString('\n')
			require.NoError(t, err)
			require.NoError(t, reader.Close())
			_ = cmd.Wait() // how it ended is in ProcessState
			assert.Equal(t, 141, cmd.ProcessState.ExitCode())
			assert.Empty(t, problems.String())
			w.assertNoProcess()
			assert.Empty(t, w.scratchFolders())
		})
	}
}
