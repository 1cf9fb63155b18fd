package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// byUser is the error of a task that a person has cancelled.
const byUser = "Sub-agent cancelled by user."

// stage is a model whose tasks hang, or wait until the test lets them go on. A task with calls makes one
// in each turn, and then says what came back.
type stage struct {
	*endureModel
	release chan struct{} // closed: nobody waits any more
	free    func()        // closes release
}

func newStage(t *testing.T, calls map[string][]api.ToolCall) *stage {
	t.Helper()
	s := &stage{release: make(chan struct{})}
	s.free = sync.OnceFunc(func() { close(s.release) })
	s.endureModel = endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
		switch {
		case strings.HasSuffix(k.text(), "hangs"):
			<-ctx.Done()
		case strings.HasSuffix(k.text(), "waits"):
			select {
			case <-s.release:
			case <-ctx.Done():
			}
		}
		if asked := calls[k.text()]; asked != nil && k.turn() < len(asked) {
			return workAsk(asked[k.turn()])
		} else if asked != nil {
			return endureSay("They said: " + strings.Join(k.results(), " | "))
		}
		return endureEcho(ctx, k)
	})
	return s
}

// parallel is a call that delegates these tasks to readers.
func parallel(texts ...string) []api.ToolCall {
	tasks := []any{}
	for _, text := range texts {
		tasks = append(tasks, map[string]any{"agent": "explorer", "task": text})
	}
	return []api.ToolCall{workCall("run_parallel_tasks", "tasks", tasks)}
}

// frame is a line of the control socket, as docs/control.md has it.
type frame struct {
	V     int    `json:"v"`
	Type  string `json:"type"`
	ID    string `json:"id"`
	Hello struct {
		ExecutionID string `json:"execution_id"`
		PID         int    `json:"pid"`
		Command     string `json:"command"`
	} `json:"hello"`
	Snapshot struct {
		Seq  int64  `json:"seq"`
		Jobs []work `json:"jobs"`
	} `json:"snapshot"`
	Error struct {
		Code    string `json:"code"`
		Problem string `json:"problem"`
	} `json:"error"`
	Event struct {
		Seq         int64  `json:"seq"`
		Type        string `json:"type"`
		ExecutionID string `json:"execution_id"`
		Status      string `json:"status"`
		Tool        string `json:"tool"`
	} `json:"event"`
}

// work is one job in a snapshot.
type work struct {
	ExecutionID string `json:"execution_id"`
	Parent      string `json:"parent_execution_id"`
	BatchID     string `json:"batch_id"`
	Index       int    `json:"index"`
	Agent       string `json:"agent"`
	Depth       int    `json:"depth"`
	Task        string `json:"task"`
	State       string `json:"state"`
	Attempt     int    `json:"attempt"`
}

// face is a client of a control socket.
type face struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
	hello frame
}

// home is QQ_HOME of the world: the last one counts.
func (w *world) home() (home string) {
	for _, v := range w.env {
		if value, ok := strings.CutPrefix(v, "QQ_HOME="); ok {
			home = value
		}
	}
	return home
}

// sockets are the control sockets in QQ_HOME.
func (w *world) sockets() []string {
	found, err := filepath.Glob(filepath.Join(w.home(), "run", "*", "*.sock"))
	require.NoError(w.t, err)
	return found
}

// face connects to the only root of the world, once it can be.
func (w *world) face() *face {
	w.t.Helper()
	f := &face{t: w.t}
	w.until(runTimeout, "a socket is there", func() bool {
		found := w.sockets()
		if len(found) != 1 {
			return false
		}
		dir, err := os.Open(filepath.Dir(found[0])) // the path may be too long for a socket
		require.NoError(w.t, err)
		defer dir.Close()
		f.conn, err = net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(found[0])))
		return err == nil
	})
	w.t.Cleanup(func() { f.conn.Close() })
	require.NoError(w.t, f.conn.SetDeadline(time.Now().Add(runTimeout)))
	f.lines = bufio.NewReader(f.conn)
	f.hello = f.next()
	assert.Equal(w.t, []any{1, "hello"}, []any{f.hello.V, f.hello.Type})
	return f
}

// next is the next frame.
func (f *face) next() (got frame) {
	f.t.Helper()
	line, err := f.lines.ReadBytes('\n')
	require.NoError(f.t, err)
	require.NoError(f.t, json.Unmarshal(line, &got), "%s", line)
	return got
}

// ask sends a request and returns the reply.
func (f *face) ask(request string) frame {
	f.t.Helper()
	_, err := io.WriteString(f.conn, request+"\n")
	require.NoError(f.t, err)
	return f.next()
}

// jobs are those at work, by their task.
func (f *face) jobs() map[string]work {
	f.t.Helper()
	got := f.ask(`{"v":1,"type":"snapshot","id":"s"}`)
	require.Equal(f.t, []string{"snapshot", "s"}, []string{got.Type, got.ID})
	all := map[string]work{}
	for _, j := range got.Snapshot.Jobs {
		all[j.Task] = j
	}
	return all
}

// await waits until the task is in that state, and returns its job.
func (f *face) await(text, state string) (found work) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		found = f.jobs()[text]
		return found.State == state
	}, runTimeout, pollEvery, "%s is %s", text, state)
	return found
}

// awaitTasks waits until the model was asked each of these.
func (s *stage) await(w *world, texts ...string) {
	w.t.Helper()
	w.until(runTimeout, strings.Join(texts, ", "), func() bool {
		asked := s.tasks()
		return !slices.ContainsFunc(texts, func(text string) bool { return !slices.Contains(asked, text) })
	})
}

// ends are the tasks in the ledger, with how each ended.
func (w *world) ends(id string) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, r := range w.runs("tree", id) {
		all[r.Task] = strings.TrimSpace(r.Status + " " + r.Error)
	}
	return all
}

// TestCancelChild: one of three children of a running agent ends, by its short id. The others go on,
// and the agent is told.
func TestCancelChild(t *testing.T) {
	s := newStage(t, map[string][]api.ToolCall{"Lead": parallel("One waits", "Two hangs", "Three waits")})
	w := newWorld(t, s.addr, played)
	q := w.start("", "--json", "Lead")
	s.await(w, "One waits", "Two hangs", "Three waits")
	f := w.face()
	assert.Equal(t, []any{q.cmd.Process.Pid, "run"}, []any{f.hello.Hello.PID, f.hello.Hello.Command})
	jobs := f.jobs()
	require.Len(t, jobs, 4)
	lead := jobs["Lead"]
	assert.Equal(t, work{ExecutionID: f.hello.Hello.ExecutionID, Agent: "default", Task: "Lead", State: "waiting",
		Attempt: 1}, lead)
	two := jobs["Two hangs"]
	assert.Equal(t, work{ExecutionID: two.ExecutionID, Parent: lead.ExecutionID, Index: 1, Agent: "explorer", Depth: 1,
		Task: "Two hangs", State: "running", Attempt: 1}, two)

	id := endureShort(two.ExecutionID)
	c := w.qq("runs", "cancel", id)
	assert.Equal(t, 0, c.code)
	assert.Equal(t, "told explorer "+id+" to end, and all that it started: Two hangs\n", c.stdout)
	require.Eventually(t, func() bool { return len(f.jobs()) == 3 }, runTimeout, pollEvery)
	w.qq("runs", "cancel", two.ExecutionID).refused("it does not run any more")
	s.free()
	e := q.wait()
	r := endureParse(t, e.stdout)
	assert.Equal(t, 0, e.code)
	assert.Equal(t, "completed", r.Status)
	for _, part := range []string{"Answer to One waits", byUser, "Answer to Three waits"} {
		assert.Contains(t, *r.Output, part)
	}
	assert.Equal(t, map[string]string{"Lead": "completed", "One waits": "completed", "Three waits": "completed",
		"Two hangs": "cancelled " + byUser}, w.ends(r.ExecutionID))
	assert.Empty(t, w.sockets())
}

// TestCancelGrandchild: a child of a child ends with all processes that its commands have started.
func TestCancelGrandchild(t *testing.T) {
	sleeper := newWorkSleeper(t)
	command := fmt.Sprintf("setsid %[1]s 1000 & (%[1]s 1000 &) ; %[1]s 1000", sleeper.path)
	s := newStage(t, map[string][]api.ToolCall{
		"Lead leads": {workCall("delegate_task", "agent", "middle", "task", "Middle leads")},
		"Middle leads": {workCall("delegate_task", "agent", "hand", "task", "Hand leads"),
			workCall("delegate_task", "agent", "hand", "task", "Another")},
		"Hand leads": {workCall("run_pty_cmd", "command", command)},
	})
	w := newWorld(t, s.addr, played, "QQ_APPROVE=auto")
	w.file(".qq/agents/middle.md", "---\nname: middle\ndescription: leads\ntools: [delegate_task]\n---\nYou lead.\n")
	w.file(".qq/agents/hand.md", "---\nname: hand\ndescription: works\ntools: [run_pty_cmd]\n---\nYou work.\n")
	q := w.start("", "--json", "Lead leads")
	sleeper.awaitRunning(3)
	f := w.face()
	hand := f.jobs()["Hand leads"]
	assert.Equal(t, []any{2, f.jobs()["Middle leads"].ExecutionID}, []any{hand.Depth, hand.Parent})
	require.Equal(t, 0, w.qq("runs", "cancel", hand.ExecutionID).code)
	s.await(w, "Another")
	sleeper.assertGone() // before its parent goes on
	e := q.wait()
	r := endureParse(t, e.stdout)
	assert.Equal(t, 0, e.code)
	assert.Contains(t, *r.Output, byUser)
	assert.Contains(t, *r.Output, "Answer to Another")
	assert.Equal(t, map[string]string{"Lead leads": "completed", "Middle leads": "completed",
		"Hand leads": "cancelled " + byUser, "Another": "completed"}, w.ends(r.ExecutionID))
}

// TestCancelMiddle: a child that has delegated ends with its own child and all processes of the commands of that one.
// Its sibling goes on, and so does the root.
func TestCancelMiddle(t *testing.T) {
	sleeper := newWorkSleeper(t)
	command := fmt.Sprintf("setsid %[1]s 1000 & (%[1]s 1000 &) ; %[1]s 1000", sleeper.path)
	task := func(agent, text string) map[string]any { return map[string]any{"agent": agent, "task": text} }
	s := newStage(t, map[string][]api.ToolCall{
		"Lead leads": {workCall("run_parallel_tasks", "tasks",
			[]any{task("middle", "Middle leads"), task("explorer", "Sibling waits")})},
		"Middle leads": {workCall("delegate_task", "agent", "hand", "task", "Hand leads")},
		"Hand leads":   {workCall("run_pty_cmd", "command", command)},
	})
	w := newWorld(t, s.addr, played, "QQ_APPROVE=auto", "QQ_PLAN=off") // a writer beside a reader
	w.file(".qq/agents/middle.md", "---\nname: middle\ndescription: leads\ntools: [delegate_task]\n---\nYou lead.\n")
	w.file(".qq/agents/hand.md", "---\nname: hand\ndescription: works\ntools: [run_pty_cmd]\n---\nYou work.\n")
	q := w.start("", "--json", "Lead leads")
	sleeper.awaitRunning(3)
	s.await(w, "Sibling waits")
	f := w.face()
	jobs := f.jobs()
	require.Len(t, jobs, 4)
	middle := jobs["Middle leads"].ExecutionID
	assert.Equal(t, []any{2, middle}, []any{jobs["Hand leads"].Depth, jobs["Hand leads"].Parent})
	require.Equal(t, 0, w.qq("runs", "cancel", endureShort(middle)).code)
	require.Eventually(t, func() bool { return len(f.jobs()) == 2 }, runTimeout, pollEvery)
	sleeper.assertGone()
	assert.Equal(t, "running", f.jobs()["Sibling waits"].State)
	s.free()
	e := q.wait()
	r := endureParse(t, e.stdout)
	assert.Equal(t, 0, e.code)
	assert.Contains(t, *r.Output, byUser)
	assert.Contains(t, *r.Output, "Answer to Sibling waits")
	ends := w.ends(r.ExecutionID)
	assert.Regexp(t, "^cancelled ", ends["Hand leads"])
	delete(ends, "Hand leads")
	assert.Equal(t, map[string]string{"Lead leads": "completed", "Middle leads": "cancelled " + byUser,
		"Sibling waits": "completed"}, ends)
}

// TestCancelBackground: a child in the background ends, and its agent goes on with the other one.
func TestCancelBackground(t *testing.T) {
	s := newStage(t, map[string][]api.ToolCall{"Lead": {
		workSpawn("One hangs"), workSpawn("Two waits"), workCall("wait_children"),
	}})
	w := newWorld(t, s.addr, played, "QQ_AGENT=lead", "QQ_APPROVE=auto", "QQ_PLAN=off") // two writers
	w.file(".qq/agents/lead.md", workLead)
	w.file(".qq/agents/helper.md", workHelper)
	q := w.start("", "--json", "Lead")
	s.await(w, "One hangs", "Two waits")
	f := w.face()
	require.Equal(t, 0, w.qq("runs", "cancel", f.await("One hangs", "running").ExecutionID).code)
	require.Eventually(t, func() bool { return f.jobs()["One hangs"].State == "" }, runTimeout, pollEvery)
	s.free()
	r := endureParse(t, q.wait().stdout)
	assert.Equal(t, "completed", r.Status)
	assert.Contains(t, *r.Output, byUser)
	assert.Contains(t, *r.Output, "Answer to Two waits")
	assert.Equal(t, map[string]string{"Lead": "completed", "One hangs": "cancelled " + byUser,
		"Two waits": "completed"}, w.ends(r.ExecutionID))
}

// TestCancelTask: tasks of a batch end while they run, while they queue and between two attempts. The
// batch goes on, even if it is to halt at the first failure.
func TestCancelTask(t *testing.T) {
	s := newStage(t, nil)
	w := newWorld(t, s.addr, played)
	q := w.start("One hangs\nTwo waits\nThree\nFour\nFive waits\nSix\n",
		"batch", "-j2", "--no-bar", "--halt", "now,fail=1", "--output-format", "jsonl")
	s.await(w, "One hangs", "Two waits")
	f := w.face()
	three := f.await("Three", "queued")
	assert.Equal(t, []any{2, 0}, []any{three.Index, three.Attempt})
	assert.NotEmpty(t, three.BatchID)
	require.Equal(t, 0, w.qq("runs", "cancel", endureShort(three.ExecutionID)).code, "it is not in the ledger")
	one := f.jobs()["One hangs"]
	require.Equal(t, 0, w.qq("runs", "cancel", one.ExecutionID).code)
	s.await(w, "Four", "Five waits")
	five := f.await("Five waits", "running")
	for _, pid := range workOf(t, five.ExecutionID) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	f.await("Five waits", "waiting") // it pauses before its second attempt
	cancel := fmt.Sprintf(`{"v":1,"type":"cancel","id":"c","cancel":{"execution_id":%q}}`, five.ExecutionID)
	assert.Equal(t, "done", f.ask(cancel).Type)
	s.await(w, "Six")
	s.free()
	e := q.wait()
	assert.Equal(t, 4, e.code, "not all have an answer")
	var got []string
	for _, r := range endureLines(t, e) {
		line := fmt.Sprintf("%s %d", r.Status, r.Attempts)
		if r.Error != nil {
			line += " " + *r.Error
		}
		got = append(got, line)
	}
	assert.Equal(t, []string{"cancelled 1 " + byUser, "completed 1", "cancelled 0 " + byUser, "completed 1",
		"cancelled 1 " + byUser, "completed 1"}, got)
	assert.NotContains(t, s.tasks(), "Three")
}

// TestCancelRoot: the id of a prompt, of a batch and of the root end the run as SIGTERM does, at its
// socket, and by the signal if it does not answer there.
func TestCancelRoot(t *testing.T) {
	for _, how := range []string{"by its socket", "by a signal"} {
		for _, args := range [][]string{{"One hangs"}, {"batch", "--no-bar"}} {
			t.Run(how+" "+args[0], func(t *testing.T) {
				s := newStage(t, nil)
				w := newWorld(t, s.addr, played)
				input := ""
				if args[0] == "batch" {
					input = "One hangs\nTwo hangs\n"
				}
				q := w.start(input, args...)
				s.await(w, "One hangs")
				f := w.face()
				id := f.hello.Hello.ExecutionID
				if batch := f.jobs()["One hangs"].BatchID; batch != "" {
					id = batch
				}
				if how == "by a signal" {
					require.NoError(t, q.cmd.Process.Signal(syscall.SIGSTOP))
				}
				c := w.qq("runs", "cancel", endureShort(id))
				assert.Equal(t, 0, c.code)
				assert.Contains(t, c.stdout, fmt.Sprintf("process %d", q.cmd.Process.Pid))
				assert.Equal(t, 143, q.wait().code)
				w.qq("runs", "cancel", id).refused("it does not run any more")
			})
		}
	}
}

// TestCancelWhat: what can be wrong with what is to be cancelled, and how the error says so.
func TestCancelWhat(t *testing.T) {
	s := newStage(t, map[string][]api.ToolCall{"Lead": parallel("One hangs")})
	w := newWorld(t, s.addr, played)
	w.qq("runs", "cancel", "01234567").refused("cancel 01234567: no run at work has this id")
	w.qq("runs", "cancel").refused("takes one id")
	q := w.start("", "Lead")
	s.await(w, "One hangs")
	f := w.face()
	one := f.jobs()["One hangs"].ExecutionID
	w.qq("runs", "cancel", one[:4]).refused("several ids begin or end so")
	for _, short := range []string{"", one[:2]} {
		w.qq("runs", "cancel", short).refused("an id has at least 4 characters")
	}
	require.NoError(t, os.Remove(w.sockets()[0])) // as that of an older qq, or of one that could make none
	c := w.qq("runs", "cancel", endureShort(one))
	assert.Equal(t, 1, c.code)
	assert.Contains(t, c.stderr, fmt.Sprintf("its root, process %d, has no control socket", q.cmd.Process.Pid))
	root := f.hello.Hello.ExecutionID
	assert.Contains(t, c.stderr, "\n  hint: qq runs cancel "+endureShort(root)+" ends the whole run\n")
	require.Equal(t, 0, w.qq("runs", "cancel", root).code)
	assert.Equal(t, 143, q.wait().code)
}

// TestCancelWithoutLedger: a run that nothing is recorded of can be reached all the same.
func TestCancelWithoutLedger(t *testing.T) {
	s := newStage(t, map[string][]api.ToolCall{"Lead": parallel("One hangs")})
	w := newWorld(t, s.addr, played)
	q := w.start("", "--no-ledger", "Lead")
	s.await(w, "One hangs")
	one := w.face().await("One hangs", "running")
	require.Equal(t, 0, w.qq("runs", "cancel", endureShort(one.ExecutionID)).code)
	e := q.wait()
	assert.Equal(t, 0, e.code)
	assert.Contains(t, e.stdout, byUser)
}

// TestSubscribe: a client that comes late sees who is at work, then each event once and in order, tool
// calls of children among them, and the end.
func TestSubscribe(t *testing.T) {
	s := newStage(t, map[string][]api.ToolCall{
		"Lead": parallel("One waits"), "One waits": {workCall("list_files", "path", ".")},
	})
	w := newWorld(t, s.addr, played)
	q := w.start("", "Lead")
	s.await(w, "One waits")
	time.Sleep(time.Second) // a child is silent at first
	f := w.face()
	snapshot := f.ask(`{"v":1,"type":"subscribe","id":"7"}`)
	require.Equal(t, []string{"snapshot", "7"}, []string{snapshot.Type, snapshot.ID})
	require.Len(t, snapshot.Snapshot.Jobs, 2)
	s.free()
	var told []string
	for seq := snapshot.Snapshot.Seq; ; {
		got := f.next()
		if got.Type == "end" {
			break
		}
		require.Equal(t, "event", got.Type)
		seq++
		assert.Equal(t, seq, got.Event.Seq)
		told = append(told, strings.TrimSpace(got.Event.Type+" "+got.Event.Tool))
	}
	assert.Subset(t, told, []string{"sub_agent_complete", "tool_start list_files", "tool_end list_files", "token"})
	assert.Equal(t, 0, q.wait().code)
}

// TestClientThatDoesNotRead: a client that stops reading while the run has more to tell than can be
// kept loses its connection, and the run takes no longer.
func TestClientThatDoesNotRead(t *testing.T) {
	const tasks, chunks, size = 12, 3, 1 << 20
	long := strings.Repeat("word ", size/5)
	s := &stage{release: make(chan struct{})}
	s.free = sync.OnceFunc(func() { close(s.release) })
	s.endureModel = endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
		if strings.HasSuffix(k.text(), "waits") {
			select {
			case <-s.release:
			case <-ctx.Done():
			}
			return endureEcho(ctx, k)
		}
		for range chunks {
			k.stream(long)
		}
		return endureSay("end")
	})
	var took []time.Duration
	for _, watched := range []bool{false, true} {
		w := newWorld(t, s.addr, played)
		s.forget()
		q := w.start("One waits\n"+strings.Repeat("Say much\n", tasks), "batch", "-j1", "--no-bar", "-o", "out")
		s.await(w, "One waits")
		f := w.face()
		if watched {
			require.Equal(t, "snapshot", f.ask(`{"v":1,"type":"subscribe"}`).Type)
		}
		start := time.Now()
		s.free()
		assert.Equal(t, 0, q.wait().code)
		took = append(took, time.Since(start))
		if watched {
			rest, err := io.ReadAll(f.lines)
			assert.True(t, err == nil || strings.Contains(err.Error(), "reset"), "%v", err)
			assert.NotContains(t, string(rest), `"type":"end"`, "it was dropped before the end")
			assert.Less(t, len(rest), tasks*chunks*size)
		}
	}
	assert.Less(t, took[1], 2*took[0]+2*time.Second)
}

// TestSocketPlace: the socket is in a folder that only the user can enter, also where the path is too
// long for a socket, and is gone with its root, at the latest when the next root needs a folder.
func TestSocketPlace(t *testing.T) {
	for name, deep := range map[string]string{"short": "home", "long": strings.Repeat("a-long-name/", 12)} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, map[string][]api.ToolCall{"Lead": parallel("One hangs")})
			w := newWorld(t, s.addr, played)
			home := filepath.Join(w.dir, deep)
			require.NoError(t, os.MkdirAll(home, 0o700))
			w.env = append(w.env, "QQ_HOME="+home)
			q := w.start("", "Lead")
			s.await(w, "One hangs")
			f := w.face()
			socket := w.sockets()[0]
			if name == "long" {
				assert.Greater(t, len(socket), 107)
			}
			for path, want := range map[string]os.FileMode{
				socket: os.ModeSocket | 0o600, filepath.Dir(socket): os.ModeDir | 0o700,
				filepath.Join(home, "run"): os.ModeDir | 0o700,
			} {
				info, err := os.Stat(path)
				require.NoError(t, err)
				assert.Equal(t, want, info.Mode(), path)
			}
			require.Equal(t, 0, w.qq("runs", "cancel", f.jobs()["One hangs"].ExecutionID).code)
			assert.Equal(t, 0, q.wait().code)
			assert.Empty(t, w.sockets())

			killed := w.start("", "Killed hangs")
			s.await(w, "Killed hangs")
			old := w.face().hello.Hello.ExecutionID
			require.NoError(t, killed.cmd.Process.Kill())
			killed.wait()
			assert.Len(t, w.sockets(), 1, "it could not remove its own")
			w.qq("runs", "cancel", old).refused("it does not run any more")
			next := w.start("", "Next hangs")
			s.await(w, "Next hangs")
			assert.NotEqual(t, old, w.face().hello.Hello.ExecutionID, "the only one")
			third := w.start("", "Third hangs")
			w.until(runTimeout, "both have a socket", func() bool { return len(w.sockets()) == 2 })
			for _, r := range []*running{next, third} {
				require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
				r.wait()
			}
			assert.Empty(t, w.sockets())
		})
	}
}

// TestNoSocket: a root that cannot make its socket says so, once, and works on.
func TestNoSocket(t *testing.T) {
	for _, args := range [][]string{{"One waits"}, {"--json", "One waits"}, {"-q", "One waits"}} {
		s := newStage(t, nil)
		w := newWorld(t, s.addr, played)
		require.NoError(t, os.WriteFile(filepath.Join(w.home(), "run"), nil, 0o600)) // where the folder should be
		q := w.start("", args...)
		s.await(w, "One waits")
		time.Sleep(500 * time.Millisecond) // the socket is due
		s.free()
		e := q.wait()
		assert.Equal(t, 0, e.code)
		assert.Equal(t, 1, strings.Count(e.stderr, "\n"), e.stderr)
		assert.Contains(t, e.stderr, "qq: warning: this run has no control socket, so no other qq can cancel one ")
		assert.Contains(t, e.stderr, "(hint: QQ_HOME names a folder")
		if args[0] == "--json" {
			r := endureParse(t, e.stdout)
			require.Len(t, r.Warnings, 1)
			assert.Contains(t, r.Warnings[0], "this run has no control socket")
		} else {
			assert.Equal(t, "Answer to One waits\n", e.stdout)
		}
	}
}

// dialled is the argument with which this test binary connects to a socket and prints what it hears.
const dialled = "dial-a-control-socket"

// dialOnly does what the command line says, if it says so.
func dialOnly() bool {
	if len(os.Args) != 3 || os.Args[1] != dialled {
		return false
	}
	conn, err := net.Dial("unix", os.Args[2])
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(runTimeout))
		var line string
		line, err = bufio.NewReader(conn).ReadString('\n')
		fmt.Println("heard", line)
	}
	fmt.Println("error", err)
	return true
}

// TestAgentsCannotCancel: no command of an agent can use the socket of its own root or of another one,
// neither of a child nor of the root's own agent.
func TestAgentsCannotCancel(t *testing.T) {
	s := newStage(t, nil)
	w := newWorld(t, s.addr, played)
	other := w.start("", "Other hangs")
	s.await(w, "Other hangs")
	f := w.face()
	other0 := w.sockets()[0]
	self, err := os.Executable()
	require.NoError(t, err)
	command := fmt.Sprintf("for s in %s/run/*/*.sock %s; do %s %s $s; done; echo all asked", w.home(), other0,
		self, dialled)
	look := workCall("run_pty_cmd", "command", command)
	model := newStage(t, map[string][]api.ToolCall{
		"Lead": {look, workCall("delegate_task", "agent", "hand", "task", "Hand")}, "Hand": {look},
	})
	w.env = append(w.env, "OLLAMA_HOST="+model.addr, "QQ_APPROVE=auto", "QQ_AGENT=lead")
	w.file(".qq/agents/hand.md", "---\nname: hand\ndescription: works\ntools: [run_pty_cmd]\n---\nYou work.\n")
	w.file(".qq/agents/lead.md",
		"---\nname: lead\ndescription: leads\ntools: [run_pty_cmd, delegate_task]\n---\nYou lead.\n")
	e := w.qq("--json", "Lead")
	r := endureParse(t, e.stdout)
	assert.Equal(t, 0, e.code)
	assert.GreaterOrEqual(t, strings.Count(*r.Output, "all asked"), 2)
	assert.NotContains(t, *r.Output, `"hello"`)
	assert.NotContains(t, *r.Output, `\"hello\"`)
	assert.Equal(t, "running", f.jobs()["Other hangs"].State)
	require.NoError(t, other.cmd.Process.Signal(syscall.SIGTERM))
	other.wait()
}
