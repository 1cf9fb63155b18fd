package childproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/proc"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// The test binary plays the children: a process with control pipes does what
// its agent is called.
func TestMain(m *testing.M) {
	if os.Getenv(ControlVar) != "" {
		os.Exit(play(os.Args[2]))
	}
	if dir := os.Getenv("CHILDPROC_TEST_ROOT"); dir != "" {
		playRoot(dir)
	}
	if os.Getenv(orphanVar) != "" {
		os.Exit(playOrphan())
	}
	code := m.Run()
	if code == 0 && os.Getenv("CHILDPROC_TEST_ALL") == "" && !isFiltered() {
		for name := range roles {
			if _, used := played.Load(name); !used {
				fmt.Println("no test plays the role", name)
				code = 1
			}
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// isFiltered reports whether only some of the tests were asked for.
func isFiltered() bool {
	for _, a := range os.Args[1:] {
		if strings.HasPrefix(a, "-test.run") ||
			strings.HasPrefix(a, "-test.fuzz") || strings.HasPrefix(a, "-test.list") ||
			strings.HasPrefix(a, "-test.bench") ||
			strings.HasPrefix(a, "-test.short") {
			return true
		}
	}
	return false
}

var played sync.Map

// role plays one child. It gets an open connection and the task.
type role func(c *Conn, text string) int

var roles = map[string]role{
	"echo": func(c *Conn, text string) int { return answer(c, "got: "+text) },
	"silent": func(*Conn, string) int {
		return 0
	},
	"no-result": func(_ *Conn, text string) int {
		fmt.Print("half an ans")
		return 0
	},
	"empty": func(c *Conn, _ string) int { return answer(c, "") },
	"damaged": func(c *Conn, _ string) int {
		fmt.Print("short")
		c.Finish(Result{Status: task.Completed, Bytes: 100})
		return 0
	},
	"boastful": func(c *Conn, _ string) int {
		c.Finish(Result{Status: task.Completed, Fallback: 1 << 40})
		return 0
	},
	"modest": func(c *Conn, _ string) int {
		c.Finish(Result{Status: task.Completed, Fallback: -1})
		return 0
	},
	"exit-3": func(c *Conn, _ string) int {
		answer(c, "all is well")
		return 3
	},
	"loud": func(*Conn, string) int {
		fmt.Fprintln(os.Stderr, "first line\nthe disk is on fire")
		return 7
	},
	"long-frame": func(c *Conn, _ string) int {
		c.up.Write([]byte(strings.Repeat("x", MaxUp+8192)))
		return forever()
	},
	"broken-frame": func(c *Conn, _ string) int {
		fmt.Fprintln(c.up, `{"type":"result"`)
		return forever()
	},
	"hollow-frame": func(c *Conn, _ string) int {
		fmt.Fprintln(c.up, `{"type":"result"}`)
		return forever()
	},
	"running-result": func(c *Conn, _ string) int {
		fmt.Fprintln(c.up, `{"type":"result","result":{"status":"running"}}`)
		return forever()
	},
	"newer": func(c *Conn, _ string) int {
		fmt.Fprintln(c.up, `{"type":"telepathy","telepathy":{"x":1}}`)
		fmt.Fprintln(c.up, `{"type":"event","event":{"type":"tool_start","tool":"read_file","colour":"blue",`+
			`"agent":"liar","depth":7},"more":[]}`)
		fmt.Fprintln(c.up, `{"type":"event","event":{"type":"sub_agent_complete"}}`)
		return answer(c, "fine")
	},
	"torn-frame": func(c *Conn, _ string) int {
		fmt.Fprint(c.up, `{"type":"result","result":{"status":"comp`)
		return 0
	},
	"deaf": func(c *Conn, _ string) int {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Print("so far")
		c.Emit(event.Event{Type: event.Token})
		return forever()
	},
	"stuffed": func(c *Conn, _ string) int {
		c.send(Frame{Type: TypeAsk, Ask: &Ask{ID: 1, Delegate: []task.Task{{Text: "x"}}}})
		<-time.After(time.Hour)
		return 1
	},
	"polite": func(c *Conn, _ string) int {
		ctx, cancel := context.WithCancelCause(context.Background())
		go lateListen(c, cancel)
		<-ctx.Done()
		fmt.Print("so far")
		c.Finish(Result{Status: task.Cancelled, Error: context.Cause(ctx).Error(), Bytes: 6,
			Usage: task.Usage{InputTokens: 3, OutputTokens: 4}})
		return 130
	},
	"big": func(c *Conn, text string) int {
		n, _ := strconv.ParseInt(text, 10, 64)
		line := []byte(strings.Repeat("ä", 511) + "\n\n")
		for left := n; left > 0; left -= int64(len(line)) {
			os.Stdout.Write(line[:min(left, int64(len(line)))])
		}
		c.Finish(Result{Status: task.Completed, Bytes: n})
		return 0
	},
	"bytes": func(c *Conn, _ string) int {
		out := "a\x00b\xff\xfec"
		fmt.Print(out)
		c.Finish(Result{Status: task.Completed, Bytes: int64(len(out))})
		return 0
	},
	"lead": func(c *Conn, text string) int {
		ctx, cancel := context.WithCancelCause(context.Background())
		go lateListen(c, cancel)
		var tasks []task.Task
		for line := range strings.Lines(text) {
			tasks = append(tasks, task.Task{Text: strings.TrimSpace(line), Agent: "echo"})
		}
		var b strings.Builder
		for _, r := range c.Delegate(ctx, tasks) {
			fmt.Fprintf(&b, "%d %s %s\n", r.Index, r.Status, r.Output)
		}
		return answer(c, b.String())
	},
	// Says what it is told to say, and succeeds unless it ends by that.
	"parrot": func(c *Conn, text string) int {
		io.WriteString(c.up, text)
		return answer(c, "ok")
	},
	// Says what it is told to say, and nothing of its own.
	"mimic": func(c *Conn, text string) int {
		io.WriteString(c.up, text)
		fmt.Print("ok")
		return 0
	},
	// Sends as many requests to a model as it is told to.
	"caller": func(c *Conn, text string) int {
		go lateListen(c, func(error) {})
		n, _ := strconv.Atoi(text)
		var b strings.Builder
		for range n {
			p, err := c.Enter(context.Background(), "m", false)
			if e, ok := errors.AsType[*llm.Error](err); ok {
				fmt.Fprintf(&b, "%s: %s: %v\n", e.Kind, e.Problem, err)
				continue
			} else if err != nil {
				fmt.Fprintln(&b, err)
				continue
			}
			p.Leave(llm.Report{Kind: llm.Busy, RetryAfter: 3 * time.Second, Usage: task.Usage{OutputTokens: 7},
				Timing: llm.Timing{Served: time.Minute}})
			b.WriteString("in\n")
		}
		return answer(c, b.String())
	},
	// Makes so many requests and dies, or says that it used less.
	"spender": func(c *Conn, how string) int {
		go lateListen(c, func(error) {})
		for range 2 {
			p, err := c.Enter(context.Background(), "m", false)
			if err != nil {
				return 1
			}
			p.Leave(llm.Report{Kind: llm.BrokenStream,
				Usage: task.Usage{InputTokens: 5, OutputTokens: 7, CachedTokens: 4, Cost: 9, PricedTokens: 12}})
		}
		if how == "dies" {
			return 1
		}
		return answer(c, "ok")
	},
	// Says what the server allows, before and after its request.
	"allowed": func(c *Conn, _ string) int {
		go lateListen(c, func(error) {})
		p, err := c.Enter(context.Background(), "m", false)
		if err != nil {
			return 1
		}
		a := llm.Allowance{Requests: llm.Meter{Limit: 2, Left: 1, Reset: time.Second}}
		p.Allowed(a)
		p.Leave(llm.Report{Kind: llm.Quota, RetryAfter: 2 * time.Hour})
		p.Allowed(a)
		return answer(c, "ok")
	},
	// Sends a request that is never answered.
	"holder": func(c *Conn, _ string) int {
		go lateListen(c, func(error) {})
		if _, err := c.Enter(context.Background(), "m", false); err != nil {
			return 1
		}
		c.Emit(event.Event{Type: event.Token})
		return forever()
	},
	// Comes again when it is refused.
	"returner": func(c *Conn, _ string) int {
		go lateListen(c, func(error) {})
		_, err := c.Enter(context.Background(), "m", false)
		refused, ok := errors.AsType[*llm.Error](err)
		if !ok {
			return 1
		}
		p, err := c.Enter(context.Background(), "m", true)
		if err != nil {
			return 1
		}
		p.Leave(llm.Report{})
		return answer(c, fmt.Sprintf("in, %v later", refused.RetryAfter))
	},
	// Has others do something before its first request.
	"waiter": func(c *Conn, what string) int {
		go lateListen(c, func(error) {})
		ctx, work := context.Background(), task.Task{Text: "x", Agent: "echo"}
		switch what {
		case "delegate":
			c.Delegate(ctx, []task.Task{work})
		case "spawn":
			c.Spawn(ctx, work)
		case "wait":
			c.Wait(ctx, nil, 0)
		case "approve":
			c.Approve(ctx, tool.Intent{Tool: "t"})
		case "children":
			c.Children(ctx)
		}
		p, err := c.Enter(ctx, "m", false)
		if err != nil {
			return 1
		}
		p.Leave(llm.Report{})
		return answer(c, "done")
	},
	// When it is cancelled it sends a last request, changes a file and hands back.
	"last-turn": func(c *Conn, _ string) int {
		ctx, cancel := context.WithCancelCause(context.Background())
		go lateListen(c, cancel)
		c.Emit(event.Event{Type: event.Token})
		<-ctx.Done()
		p, err := c.Enter(context.Background(), "m", false)
		if err != nil {
			return 1
		}
		p.Leave(llm.Report{})
		c.Changed([]string{"notes.md"})
		var order *Cancelled
		errors.As(context.Cause(ctx), &order)
		n, _ := fmt.Printf("%v to say it", order.Grace)
		c.Finish(Result{Status: task.Failed, Error: order.Error(), Bytes: int64(n), Usage: task.Usage{InputTokens: 3},
			Repeats: 2})
		return 1
	},
	"litter": func(c *Conn, _ string) int {
		// A daemon that keeps the output and the group behind.
		cmd := exec.Command("sleep", "1000")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return 1
		}
		return answer(c, "done")
	},
}

// listenLater holds what Handshake returned, for the roles that listen.
var listenLater func(context.CancelCauseFunc)

func lateListen(_ *Conn, cancel context.CancelCauseFunc) { listenLater(cancel) }

func answer(c *Conn, text string) int {
	fmt.Print(text)
	if err := c.Finish(Result{Status: task.Completed, Bytes: int64(len(text)),
		Usage: task.Usage{InputTokens: 1, OutputTokens: 2}}); err != nil {
		return 1
	}
	return 0
}

func play(name string) int {
	c, err := Connect(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	switch name {
	case "mute":
		return 0
	case "hasty":
		c.Finish(Result{Status: task.Completed})
		return 0
	case "foreign":
		c.send(Frame{Type: TypeHello, Hello: &Hello{Protocol: 99, Version: "9.9"}})
		return forever()
	}
	_, listen, err := c.Handshake("test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	listenLater = listen
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 2
	}
	return roles[name](c, string(text))
}

// launcher returns a Launcher of children that the test binary plays.
func launcher(t *testing.T, change func(*testConfig)) *testLauncher {
	t.Helper()
	dir := t.TempDir()
	cfg := &testConfig{dir: dir, Config: Config{
		Host: proc.NewHost(), Path: "/proc/self/exe", Version: "test",
		Env: os.Environ(), Keep: filepath.Join(dir, "kept"),
		MaxOutput: 100, Grace: 200 * time.Millisecond,
	}}
	cfg.Program = cfg
	if change != nil {
		change(cfg)
	}
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(dir, "*.*"))
		assert.NoError(t, err)
		assert.Empty(t, left, "files are left in the folder of running children")
	})
	l := &testLauncher{NewLauncher(cfg.Config), cfg}
	t.Cleanup(l.Close)
	return l
}

func job(agent, text string) testJob {
	played.Store(agent, true)
	return testJob{Job: task.Job{Task: task.Task{Text: text, Agent: agent}, ExecutionID: "id-" + agent, Depth: 1}}
}

func TestStatus(t *testing.T) {
	for name, want := range map[string]struct {
		status task.Status
		exit   int
		output string
		err    string
	}{
		"echo":       {task.Completed, 0, "got: hello", ""},
		"silent":     {task.NoResult, 1, "", "child exited without a result"},
		"mute":       {task.NoResult, 1, "", "child exited without a result"},
		"no-result":  {task.NoResult, 1, "half an ans", "child exited without a result"},
		"torn-frame": {task.NoResult, 1, "", "child exited without a result"},
		"empty":      {task.Empty, 1, "", "the agent gave an empty answer"},
		"damaged":    {task.Failed, 1, "short", "the answer is damaged: 5 of 100 bytes are there"},
		"exit-3":     {task.Failed, 3, "all is well", "child said completed and ended with code 3, signal 0"},
		"loud": {task.NoResult, 7, "", "child exited with code 7 without a result: " +
			"first line | the disk is on fire"},
		"long-frame":     {task.Failed, -1, "", "child broke the protocol: frame too long: over 4194304 bytes"},
		"broken-frame":   {task.Failed, -1, "", "child broke the protocol: broken frame: unexpected end of JSON input"},
		"hollow-frame":   {task.Failed, -1, "", `child broke the protocol: broken frame: "result" without its content`},
		"running-result": {task.Failed, -1, "", `child broke the protocol: broken frame: "result" without its content`},
		"hasty":          {task.Failed, -1, "", `child broke the protocol: broken frame: "result" before hello`},
		"foreign": {task.Failed, -1, "", "child broke the protocol: broken frame: " +
			"it speaks version 99 of the protocol (qq 9.9), this is 2 (qq test)"},
		"newer":  {task.Completed, 0, "fine", ""},
		"bytes":  {task.Completed, 0, "a\x00b\uFFFDc", ""},
		"litter": {task.Completed, 0, "done", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r := launcher(t, nil).Launch(ctx, job(name, "hello"))
			assert.Equal(t, want.err, r.Err())
			assert.Equal(t, want.status, r.Status)
			assert.Equal(t, want.output, r.Output)
			assert.Equal(t, want.status == task.Completed, r.Success)
			if want.exit >= 0 {
				assert.Equal(t, want.exit, r.ExitCode)
			}
			if want.status == task.Completed && name == "echo" {
				assert.Equal(t, task.Usage{InputTokens: 1, OutputTokens: 2}, r.Usage)
			}
			if name == "bytes" {
				assert.Contains(t, r.Warnings, "the output was not valid UTF-8 and was repaired")
			}
		})
	}
}

// TestModelOfResult: a child says which of its models answered, and can name no other.
func TestModelOfResult(t *testing.T) {
	for name, want := range map[string]string{"echo": "first", "modest": "first", "boastful": "second"} {
		r := launcher(t, nil).Launch(t.Context(), job(name, "hello"))
		assert.Equal(t, want, r.Model, name)
	}
}

// A child that hears nothing is ended by the ladder; what it wrote is kept.
func TestCancelDeaf(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	l, working := awake(t, func(*testConfig) {})
	go func() {
		<-working
		cancel(errors.New("enough"))
	}()
	r := l.Launch(ctx, job("deaf", ""))
	assert.Equal(t, task.Killed, r.Status)
	assert.Equal(t, "so far", r.Output)
}

// A child that heeds the cancel frame hands back what it has.
func TestCancelPolite(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough")) // before the child has started: the frame is not lost
	r := launcher(t, func(c *testConfig) { c.Grace = time.Minute }).Launch(ctx, job("polite", ""))
	assert.Equal(t, task.Cancelled, r.Status)
	assert.Equal(t, "cancelled: enough", r.Err())
	assert.Equal(t, "so far", r.Output)
	assert.Equal(t, task.Usage{InputTokens: 3, OutputTokens: 4}, r.Usage)
}

// Output is cut once, on character boundaries, and the whole stays on disk;
// memory does not grow with it.
func TestBigOutput(t *testing.T) {
	const size = 500 << 20
	if testing.Short() {
		t.Skip("writes 500 MB")
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := launcher(t, nil).Launch(t.Context(), job("big", strconv.Itoa(size)))
	runtime.ReadMemStats(&after)
	require.Equal(t, task.Completed, r.Status, r.Err())
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
	assert.True(t, r.Truncated)
	head, rest, ok := strings.Cut(r.Output, "\n[Output truncated at 100 chars]\n[")
	require.True(t, ok, r.Output)
	assert.Equal(t, strings.Repeat("ä", 50), head)
	assert.Contains(t, rest, " characters left out; full output: "+r.OutputFile+"]\n")
	info, err := os.Stat(r.OutputFile)
	require.NoError(t, err)
	assert.EqualValues(t, size, info.Size())
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestDelegate(t *testing.T) {
	l := launcher(t, nil)
	j := job("lead", "one\ntwo\nthree\n")
	j.Delegate = func(ctx context.Context, tasks []task.Task) []task.Result {
		var results []task.Result
		for i, tk := range tasks {
			r := l.Launch(ctx, testJob{Job: task.Job{Task: tk, ExecutionID: fmt.Sprint("sub", i), Depth: 2}})
			r.Index = i
			results = append(results, r)
		}
		return results
	}
	l.cfg.MaxOutput = 1000
	r := l.Launch(t.Context(), j)
	assert.Equal(t, "0 completed got: one\n1 completed got: two\n2 completed got: three\n", r.Output, r.Err())
}

// When a lead is ended, the children that it waits for are ended too.
func TestCancelLead(t *testing.T) {
	l := launcher(t, nil)
	j := job("lead", "one\n")
	var sub task.Result
	started := make(chan struct{})
	j.Delegate = func(ctx context.Context, tasks []task.Task) []task.Result {
		close(started)
		sub = l.Launch(
			ctx,
			testJob{Job: task.Job{Task: task.Task{Text: "x", Agent: "deaf"}, ExecutionID: "sub", Depth: 2}},
		)
		return []task.Result{sub}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	l.Launch(ctx, j)
	assert.Equal(t, task.Killed, sub.Status)
}

// Events carry the ids that the root knows, whatever the child says.
func TestEvents(t *testing.T) {
	var got []event.Event
	l := launcher(t, func(c *testConfig) { c.Event = func(e event.Event) { got = append(got, e) } })
	l.Launch(t.Context(), job("newer", ""))
	require.Len(t, got, 1)
	assert.Equal(t, event.Event{Type: event.ToolStart, Tool: "read_file", ExecutionID: "id-newer", Agent: "newer",
		Depth: 1}, got[0])
}

// The root acts for the call that a child names. What is no id of a call names none.
func TestCallOfAsk(t *testing.T) {
	for id, want := range map[string]tool.Call{
		"call_7": {ID: "call_7", Name: "delegate_task"}, "": {}, "two words": {}, strings.Repeat("x", 129): {},
	} {
		var got tool.Call
		j := job("parrot", fmt.Sprintf(`{"type":"ask","ask":{"id":1,"delegate":[{"task":"x"}],`+
			`"call":{"id":%q,"tool":"delegate_task"}}}`+"\n", id))
		j.Delegate = func(ctx context.Context, tasks []task.Task) []task.Result {
			got = tool.CallOf(ctx)
			return make([]task.Result, len(tasks))
		}
		require.True(t, launcher(t, nil).Launch(t.Context(), j).Success)
		assert.Equal(t, want, got)
	}
}

// An event has no more than its type may have, whatever the child says.
func TestEventsAreBounded(t *testing.T) {
	var got []event.Event
	l := launcher(t, func(c *testConfig) { c.Event = func(e event.Event) { got = append(got, e) } })
	l.Launch(t.Context(), job("parrot", `{"type":"event","event":{"type":"token","text":"`+
		strings.Repeat("x", 1<<20)+`","decision":"once","result":{"output":"x"},"summary":"x"}}`+"\n"))
	require.Len(t, got, 1)
	assert.Equal(t, event.Event{Type: event.Token, Text: strings.Repeat("x", 64<<10), ExecutionID: "id-parrot",
		Agent: "parrot", Depth: 1}, got[0])
}

// A task of any size goes through, also one that nobody reads.
func TestLargeTask(t *testing.T) {
	text := strings.Repeat("wörter ", 1<<20)
	l := launcher(t, func(c *testConfig) { c.MaxOutput = len(text) + 100 })
	r := l.Launch(t.Context(), job("echo", text))
	assert.Equal(t, "got: "+text, r.Output)
	r = l.Launch(t.Context(), job("silent", text))
	assert.Equal(t, task.NoResult, r.Status)
}

func TestNoProgram(t *testing.T) {
	l := launcher(t, func(c *testConfig) { c.Path = "/nonexistent/qq" })
	r := l.Launch(t.Context(), job("echo", "x"))
	assert.Equal(t, task.Failed, r.Status)
	assert.Contains(t, r.Err(), "start child")
}

// playRoot is a root that is killed while its children are at work.
func playRoot(dir string) {
	cfg := &testConfig{dir: dir, Config: Config{
		Host: proc.NewHost(), Path: "/proc/self/exe", Version: "test",
		Env:  append(os.Environ(), "CHILDPROC_TEST_MARK="+dir),
		Keep: dir, MaxOutput: 100, Grace: time.Second,
	}}
	cfg.Program = cfg
	l := &testLauncher{NewLauncher(cfg.Config), cfg}
	for i := range 5 {
		go l.Launch(context.Background(), testJob{Job: task.Job{Task: task.Task{Agent: "deaf"},
			ExecutionID: fmt.Sprint("deaf", i)}})
	}
	forever()
}

// Nothing is alive soon after the root was killed, not even children that hear
// no signal.
func TestRootKilled(t *testing.T) {
	dir := t.TempDir()
	root := exec.Command("/proc/self/exe")
	root.Env = append(os.Environ(), "CHILDPROC_TEST_ROOT="+dir)
	require.NoError(t, root.Start())
	ready := func() bool {
		outputs, _ := filepath.Glob(filepath.Join(dir, "*.out"))
		n := 0
		for _, o := range outputs {
			if b, _ := os.ReadFile(o); string(b) == "so far" {
				n++
			}
		}
		return n == 5
	}
	require.Eventually(t, ready, 10*time.Second, 5*time.Millisecond)
	require.Equal(t, 5, alive(t, "CHILDPROC_TEST_MARK="+dir))
	require.NoError(t, root.Process.Kill())
	_ = root.Wait()
	start := time.Now()
	require.Eventually(
		t,
		func() bool { return alive(t, "CHILDPROC_TEST_MARK="+dir) == 0 },
		time.Second,
		time.Millisecond,
	)
	t.Logf("all gone after %v", time.Since(start))
}

// alive counts the processes, zombies excepted, that have an entry in their
// environment.
func alive(t *testing.T, entry string) (n int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, d := range dirs {
		env, err := os.ReadFile(filepath.Join(d, "environ")) // empty for a zombie
		if err == nil && strings.Contains(string(env), entry+"\x00") {
			n++
		}
	}
	return n
}

// forever blocks. A bare select would be a deadlock to the runtime, which ends
// the process.
func forever() int {
	for {
		time.Sleep(time.Hour)
	}
}
