package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/approval"
	"qq/internal/control/board"
	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

func TestMain(m *testing.M) {
	if play() { // a process of its own
		return
	}
	goleak.VerifyTestMain(m)
}

const soon = 10 * time.Second // when what is waited for should long have been there

// forest is a Tree that a test grows.
type forest struct {
	dir    string
	stream event.Stream

	live      jobs.Table
	slots     *limits.Slots
	questions *approval.Queue

	mu        sync.Mutex
	jobs      []jobs.Job
	cancelled []string
	warnings  []string
}

func (f *forest) Live() *jobs.Table    { return &f.live }
func (f *forest) Slots() *limits.Slots { return f.slots }
func (f *forest) Resize(int)           {}
func (f *forest) Used() task.Usage     { return task.Usage{InputTokens: 7} }
func (f *forest) Log(id string) string { return filepath.Join(f.dir, id+".jsonl") }

func (f *forest) Path() (string, error) { return f.dir, nil }

func (f *forest) Jobs() []jobs.Job {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]jobs.Job{}, f.jobs...)
}

func (f *forest) Cancel(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelled = append(f.cancelled, id)
	return id != "unknown"
}

func (f *forest) End() { f.Cancel("all") }

func (f *forest) Warn(warning string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.warnings = append(f.warnings, warning)
}

// own is the root of each forest.
var own = Root{ExecutionID: "root", PID: os.Getpid(), Command: "run"}

func newForest(dir string) *forest {
	f := &forest{dir: dir, slots: limits.NewSlots(2)}
	f.questions = approval.NewQueue(approval.QueueConfig{Events: &f.stream})
	return f
}

func (f *forest) config() Config {
	return Config{Root: own, Tree: f, Host: f, Events: &f.stream, Folder: f, Approvals: f.questions, Servers: f}
}

func (f *forest) path() string { return filepath.Join(f.dir, "root"+suffix) }

// grow adds a job and tells it, in this order.
func (f *forest) grow(id string) {
	f.mu.Lock()
	f.jobs = append(f.jobs, jobs.Job{ExecutionID: id, State: task.Running})
	f.mu.Unlock()
	f.stream.Emit(event.Event{Type: event.SubAgentStart, ExecutionID: id})
}

// seen is a snapshot of a forest with one job.
func (f *forest) seen() Snapshot {
	return Snapshot{Seq: 1, Root: own, Jobs: []board.Job{{Job: f.Jobs()[0]}}, Max: 2, Used: f.Used()}
}

// serve opens the socket of a forest.
func serve(t *testing.T, dir string, set ...func(*Server)) (*forest, *Server) {
	t.Helper()
	f := newForest(dir)
	s := newServer(f.config())
	for _, do := range set {
		do(s)
	}
	s.start()
	t.Cleanup(s.Close)
	s.opening.Wait()
	require.Empty(t, f.warnings)
	return f, s
}

func dial(t *testing.T, f *forest) *Client {
	t.Helper()
	c, err := Dial(f.path())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestConversation(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	info, err := os.Stat(f.path())
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	f.grow("a")
	c := dial(t, f)
	assert.Equal(t, own, c.Root())
	s, err := c.Snapshot()
	require.NoError(t, err)
	assert.Equal(t, f.seen(), s)

	require.NoError(t, c.Cancel("a"))
	require.NoError(t, c.Cancel("root"))
	f.stream.Emit(event.Event{Type: event.BatchStart, BatchID: "batch"})
	require.NoError(t, c.Cancel("batch"))
	err = c.Cancel("unknown")
	var fault *Fault
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, CodeUnknownJob, fault.Code)
	assert.Equal(t, []string{"a", "all", "all", "unknown"}, f.cancelled)

	s, err = c.Subscribe(Subscribe{})
	require.NoError(t, err)
	assert.Len(t, s.Jobs, 1)
	assert.Equal(t, "batch", s.Root.BatchID)
	f.grow("b")
	require.NoError(t, c.Cancel("b"), "while events come")
	_, err = c.Subscribe(Subscribe{})
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, CodeSubscribed, fault.Code)
	e, err := c.Next()
	require.NoError(t, err)
	assert.Equal(t, []any{int64(3), "b"}, []any{e.Seq, e.ExecutionID})
}

// A path that is too long for a socket is none for qq, at both ends.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	f := newForest(dir)
	s := Start(f.config())
	defer s.Close()
	s.opening.Wait()
	require.Greater(t, len(f.path()), maxName)
	if len(f.warnings) > 0 {
		assert.Contains(t, f.warnings[0], "at most") // another system than Linux
		return
	}
	_, err := dial(t, f).Snapshot()
	require.NoError(t, err)
}

// Whoever subscribes sees each job: in the snapshot, or in an event after it, and each later event once.
func TestNothingIsMissed(t *testing.T) {
	f, s := serve(t, t.TempDir())
	const all, clients = 400, 6
	var growing, watching, subscribed sync.WaitGroup
	subscribed.Add(clients)
	growing.Go(func() {
		for n := range all {
			f.grow(fmt.Sprint(n))
		}
	})
	for range clients {
		c := dial(t, f)
		watching.Go(func() {
			snapshot, err := c.Subscribe(Subscribe{})
			subscribed.Done()
			if !assert.NoError(t, err) {
				return
			}
			seen := map[string]bool{}
			for _, j := range snapshot.Jobs {
				seen[j.ExecutionID] = true
			}
			for seq := snapshot.Seq; ; {
				e, err := c.Next()
				if err != nil {
					assert.Equal(t, io.EOF, err)
					break
				}
				seq++
				assert.Equal(t, seq, e.Seq)
				seen[e.ExecutionID] = true
			}
			assert.Len(t, seen, all)
		})
	}
	growing.Wait()
	subscribed.Wait()
	s.Close()
	watching.Wait()
}

// A client that does not read is dropped. It delays nobody, and costs bounded memory.
func TestClientThatDoesNotRead(t *testing.T) {
	f, s := serve(t, t.TempDir())
	reads := dial(t, f)
	_, err := reads.Subscribe(Subscribe{})
	require.NoError(t, err)
	got := make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			if _, err := reads.Next(); err != nil {
				break
			}
		}
		got <- n
	}()
	const all = maxEvents + 3000
	text := strings.Repeat("x", 1000)
	tell := func() (took, longest time.Duration) { // of what the tree waits for
		for n := range all {
			start := time.Now()
			f.stream.Emit(event.Event{Type: event.Token, Text: text})
			longest = max(longest, time.Since(start))
			took += time.Since(start)
			for n%100 == 0 && waiting(s) > 1000 { // the reader is not to be dropped
				time.Sleep(time.Millisecond)
			}
		}
		return took, longest
	}
	free, _ := tell()
	stuck := dial(t, f)
	_, err = stuck.Subscribe(Subscribe{})
	require.NoError(t, err)
	slowed, longest := tell()
	assert.Less(t, longest, time.Second, "an event waits for no client")
	assert.Less(t, slowed, 5*free+time.Second, "nor do all of them, a little each")
	for {
		_, err := stuck.Next()
		if err != nil {
			assert.ErrorIs(t, err, ErrDropped)
			break
		}
	}
	require.Eventually(t, func() bool { return waiting(s) == 0 }, time.Minute, time.Millisecond)
	s.Close()
	assert.Equal(t, 2*all, <-got)
}

// waiting is how many events wait for the subscriber that reads best.
func waiting(s *Server) (least int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		if n := len(p.events); p.subscribed && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// A client with too many bytes in its queue is dropped before it has too many events.
func TestQueueIsBoundedInBytes(t *testing.T) {
	f, s := serve(t, t.TempDir())
	c := dial(t, f)
	_, err := c.Subscribe(Subscribe{})
	require.NoError(t, err)
	for range 20 {
		f.stream.Emit(event.Event{Type: event.Token, Text: strings.Repeat("x", 1<<20)})
	}
	s.mu.Lock()
	for p := range s.peers {
		assert.False(t, p.subscribed)
	}
	s.mu.Unlock()
}

// An event that is longer than a line may be keeps its place, without its texts.
func TestLongEvent(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	c := dial(t, f)
	_, err := c.Subscribe(Subscribe{})
	require.NoError(t, err)
	f.stream.Emit(event.Event{Type: event.Token, Text: strings.Repeat("x", MaxReply), Agent: "coder"})
	e, err := c.Next()
	require.NoError(t, err)
	assert.Equal(t, []any{"", "coder", "(left out: too long)", int64(1)}, []any{e.Text, e.Agent, e.Error, e.Seq})
	line := Frame{Type: TypeSnapshot, ID: "7", Snapshot: &Snapshot{
		Root: Root{Dir: strings.Repeat("x", MaxReply)},
	}}.line()
	assert.Contains(t, string(line), `"type":"error","id":"7","error":{"code":"too_long"`)
}

// raw is a connection without a Client.
type raw struct {
	*net.UnixConn
	r *bufio.Reader
}

func connect(t *testing.T, f *forest) raw {
	t.Helper()
	var conn *net.UnixConn
	require.NoError(t, withName(f.path(), func(name string) (err error) {
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
	return raw{conn, bufio.NewReader(conn)}
}

// say sends text and returns the reply.
func (c raw) say(t *testing.T, text string) Frame {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
	return c.hear(t)
}

func (c raw) hear(t *testing.T) Frame {
	t.Helper()
	f, err := receive(c.r)
	require.NoError(t, err)
	return f
}

// ended reports whether the connection has ended.
func (c raw) ended() bool {
	_, err := receive(c.r)
	return errors.Is(broken(err), ErrNoRoot)
}

func TestProtocol(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	for _, c := range []struct {
		line   string
		id     string
		want   Type
		code   Code
		closes bool
	}{
		{`{"v":1,"type":"snapshot","id":"x","unknown":[1,{}]}`, "x", TypeSnapshot, "", false},
		{`{"v":1,"type":"snapshot"}`, "", TypeSnapshot, "", false},
		{`{"v":1,"type":"cancel","id":"x","cancel":{"execution_id":"a","unknown":1}}`, "x", TypeDone, "", false},
		{`{"v":1,"type":"pause","id":"x"}`, "x", TypeDone, "", false},
		{`{"v":1,"type":"resume","id":"x"}`, "x", TypeDone, "", false},
		{`{"v":1,"type":"jobs","id":"x","jobs":{"max":3}}`, "x", TypeDone, "", false},
		{`{"v":1,"type":"jobs","id":"x","jobs":{"max":0}}`, "x", TypeError, CodeBadRequest, true},
		{`{"v":1,"type":"message","id":"x","message":{"execution_id":"a","text":" "}}`, "x", TypeError, CodeBadRequest, true},
		{`{"v":1,"type":"message","id":"x","message":{"execution_id":"a","text":"b"}}`, "x", TypeError, CodeUnknownJob, false},
		{`{"v":1,"type":"answer","id":"x","answer":{"question_id":"a"}}`, "x", TypeError, CodeBadRequest, true},
		{`{"v":1,"type":"answer","id":"x","answer":{"question_id":"a","answer":"yes"}}`, "x", TypeError, CodeBadRequest, true},
		{`{"v":1,"type":"answer","id":"x","answer":{"question_id":"a","answer":"once"}}`, "x", TypeError, CodeAnswered, false},
		{`{"v":1,"type":"log","id":"x","log":{"execution_id":"a","from":-1}}`, "x", TypeError, CodeBadRequest, true},
		{`{"v":1,"type":"log","id":"x","log":{"execution_id":"a"}}`, "x", TypeError, CodeUnknownJob, false},
		{`{"v":1,"type":"jobs","id":"x","jobs":{"max":10001}}`, "x", TypeError, CodeBadRequest, true},
		{`{"v":1,"type":"subscribe","id":"x","subscribe":{"from":99}}`, "x", TypeError, CodeGone, false},
		{`{"v":1,"type":"dance","id":"x"}`, "x", TypeError, CodeUnknownType, false},
		{`{"v":1,"type":"hello","id":"x"}`, "x", TypeError, CodeUnknownType, false},
		{`{"v":1,"id":"x"}`, "x", TypeError, CodeUnknownType, false},
		{`{"v":2,"type":"snapshot","id":"x"}`, "x", TypeError, CodeVersion, false},
		{`{"type":"snapshot","id":"x"}`, "x", TypeError, CodeVersion, false},
		{`{"v":1,"type":"cancel","id":"x"}`, "x", TypeError, CodeBadRequest, true},
		{`{"v":1,"type":"cancel","id":"x","cancel":{}}`, "x", TypeError, CodeBadRequest, true},
		{`{"v":1,"type":"snapshot","id":"` + strings.Repeat("x", MaxID+1) + `"}`, "", TypeError, CodeBadRequest, true},
		{`{"v":1,"type":"snapshot","id":7}`, "", TypeError, CodeBadRequest, true},
		{``, "", TypeError, CodeBadRequest, true},
		{`[]`, "", TypeError, CodeBadRequest, true},
		{"GET / HTTP/1.1\r", "", TypeError, CodeBadRequest, true},
		{strings.Repeat("x", MaxRequest), "", TypeError, CodeTooLong, true},
	} {
		name := c.line[:min(len(c.line), 60)]
		conn := connect(t, f)
		assert.Equal(t, TypeHello, conn.hear(t).Type)
		got := conn.say(t, c.line+"\n")
		assert.Equal(t, []any{c.want, c.id}, []any{got.Type, got.ID}, name)
		if got.Error != nil {
			assert.Equal(t, c.code, got.Error.Code, name)
			assert.NotContains(t, got.Error.Error()+"\n", "\n\n", name)
		}
		if c.closes {
			assert.True(t, conn.ended(), name)
		} else {
			assert.Equal(t, TypeSnapshot, conn.say(t, `{"v":1,"type":"snapshot"}`+"\n").Type, name)
		}
	}
}

// What a client has asked before it ended its side is answered; a half line is no request.
func TestHalfClose(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	c := connect(t, f)
	_, err := io.WriteString(c, `{"v":1,"type":"snapshot","id":"1"}`+"\n"+
		`{"v":1,"type":"cancel","id":"2","cancel":{"execution_id":"a"}}`+"\n"+`{"v":1,"type":"snapshot","id":"3"}`)
	require.NoError(t, err)
	require.NoError(t, c.CloseWrite())
	assert.Equal(t, TypeHello, c.hear(t).Type)
	assert.Equal(t, "1", c.hear(t).ID)
	assert.Equal(t, TypeDone, c.hear(t).Type)
	assert.True(t, c.ended())
}

// The number of clients is bounded, and who says nothing makes room.
func TestManyClients(t *testing.T) {
	f, _ := serve(t, t.TempDir(), func(s *Server) { s.quiet = 2 * time.Second })
	watcher := connect(t, f)
	watcher.hear(t)
	assert.Equal(t, TypeSnapshot, watcher.say(t, `{"v":1,"type":"subscribe"}`+"\n").Type)
	var silent []raw
	for range MaxClients - 1 {
		silent = append(silent, connect(t, f))
		silent[len(silent)-1].hear(t)
	}
	late := connect(t, f)
	assert.Equal(t, CodeBusy, late.hear(t).Error.Code)
	assert.True(t, late.ended())
	for _, c := range silent {
		assert.Equal(t, "no request came for 2s", c.hear(t).Error.Problem)
		assert.True(t, c.ended())
	}
	require.Eventually(t, func() bool {
		_, err := Dial(f.path())
		return err == nil
	}, soon, 5*time.Millisecond)
	f.grow("a")
	assert.Equal(t, TypeEvent, watcher.hear(t).Type, "a subscriber may be silent")
}

// Clients that ask again and again make room for one that cancels: the one that has waited longest loses its
// connection, and is told.
func TestManyPolls(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	var polls []raw
	for range MaxClients {
		c := connect(t, f)
		c.hear(t)
		polls = append(polls, c)
	}
	for _, c := range append(polls[1:], polls[0]) {
		assert.Equal(t, TypeSnapshot, c.say(t, `{"v":1,"type":"snapshot"}`+"\n").Type)
	}
	require.NoError(t, dial(t, f).Cancel("a"))
	fault := polls[1].hear(t).Error
	assert.Equal(t, &Fault{CodeBusy, "this root has 32 clients already", "subscribe, or connect again"}, fault)
	assert.True(t, polls[1].ended())
	assert.Equal(t, TypeSnapshot, polls[0].say(t, `{"v":1,"type":"snapshot"}`+"\n").Type)
}

// Subscribers, who may be silent for ever, leave room for a client that cancels.
func TestManySubscribers(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	var watchers []raw
	for range MaxClients - 1 { // fewer than all, so that the last one is told
		c := connect(t, f)
		c.hear(t)
		watchers = append(watchers, c)
		got := c.say(t, `{"v":1,"type":"subscribe"}`+"\n")
		if len(watchers) <= MaxSubscribers {
			assert.Equal(t, TypeSnapshot, got.Type)
			continue
		}
		require.Equal(t, TypeError, got.Type)
		assert.Equal(t, &Fault{CodeBusy, "this root has 24 subscriptions already", "end one of them"}, got.Error)
		assert.True(t, c.ended())
	}
	require.NoError(t, dial(t, f).Cancel("a"))
	f.grow("a")
	assert.Equal(t, TypeEvent, watchers[0].hear(t).Type)
	watchers[0].Close()
	require.Eventually(t, func() bool {
		_, err := dial(t, f).Subscribe(Subscribe{})
		return err == nil
	}, soon, 5*time.Millisecond, "one ended, so there is room")
}

// A client that has ended its side while the server is being closed gets the end, once.
func TestEndAfterHalfClose(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	var ends [2]*net.UnixConn
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(f.dir, "other"), Net: "unix"})
	require.NoError(t, err)
	defer l.Close()
	ends[0], err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	require.NoError(t, err)
	defer ends[0].Close()
	ends[1], err = l.AcceptUnix()
	require.NoError(t, err)
	p := &peer{conn: ends[1], replies: make(chan reply, 1)}
	p.replies <- reply{line: Frame{Type: TypeDone}.line()}
	close(p.replies)
	time.AfterFunc(soon, func() { ends[1].Close() }) // a loop without end has one
	start := time.Now()
	p.sendRest(nil)
	assert.Less(t, time.Since(start), soon)
	ends[1].Close()
	said, err := io.ReadAll(ends[0])
	require.NoError(t, err)
	assert.Equal(t, "{\"v\":1,\"type\":\"done\"}\n{\"v\":1,\"type\":\"end\"}\n", string(said))
}

// A root that has ended, and one that cannot open its socket.
func TestNoRoot(t *testing.T) {
	f, s := serve(t, t.TempDir())
	c := dial(t, f)
	s.Close()
	s.Close()
	_, err := c.Snapshot()
	require.ErrorIs(t, err, ErrNoRoot)
	_, err = Dial(f.path())
	require.ErrorIs(t, err, ErrNoRoot, "it left its socket")
	_, err = Dial(f.path() + "x")
	require.ErrorIs(t, err, ErrNoRoot)

	again := newForest(f.dir) // the name is taken
	s = Start(again.config())
	s.opening.Wait()
	s.Close()
	require.Len(t, again.warnings, 1)
	assert.Contains(t, again.warnings[0], "tasks: open the control socket "+f.path()+": ")
	assert.Contains(t, again.warnings[0], " (hint: QQ_HOME names")
	missing := newForest(filepath.Join(f.dir, "missing"))
	s = Start(missing.config())
	s.opening.Wait()
	s.Close()
	require.Len(t, missing.warnings, 1)
}

// A run that ends before the socket is due opens none.
func TestShortRun(t *testing.T) {
	f := newForest(t.TempDir())
	cfg := f.config()
	cfg.After = time.Hour
	Start(cfg).Close()
	_, err := os.Stat(f.path())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A root that does not answer is said to be silent, and the others are found.
func TestLook(t *testing.T) {
	home := t.TempDir()
	assert.Empty(t, Look(home))
	dir := func(name string) string {
		path := filepath.Join(home, "run", name)
		require.NoError(t, os.MkdirAll(path, 0o700))
		return path
	}
	f, _ := serve(t, dir("1-a"))
	f.grow("job")
	stopped, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir("2-b"), "stopped.sock"), Net: "unix"})
	require.NoError(t, err)
	defer stopped.Close()
	gone, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir("3-c"), "gone.sock"), Net: "unix"})
	require.NoError(t, err)
	gone.SetUnlinkOnClose(false)
	gone.Close()
	dir("4-d/agent.tmp/x.sock")
	found := Look(home)
	require.Len(t, found, 3)
	assert.Equal(t, Standing{ID: "root", Path: f.path(), Snapshot: f.seen()}, found[0])
	assert.Equal(t, []any{"stopped", ErrSilent}, []any{found[1].ID, found[1].Err})
	assert.Equal(t, []any{"gone", ErrNoRoot}, []any{found[2].ID, found[2].Err})
}

// Close does not wait long for a client that does not read.
func TestCloseIsQuick(t *testing.T) {
	f, s := serve(t, t.TempDir())
	c := dial(t, f)
	_, err := c.Subscribe(Subscribe{})
	require.NoError(t, err)
	for range 8 {
		f.stream.Emit(event.Event{Type: event.Token, Text: strings.Repeat("x", 1<<20)})
	}
	start := time.Now()
	s.Close()
	assert.Less(t, time.Since(start), WriteTime)
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`{"v":1,"type":"snapshot","id":"1"}`, `{"v":1,"type":"cancel","cancel":{"execution_id":"a"}}`, `{"v":2}`, `[`, ``,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, fault := parse(line)
		assert.LessOrEqual(t, len(r.ID), MaxID)
		if fault != nil {
			assert.NotEmpty(t, fault.Code)
			assert.NotContains(t, fault.Problem, "\n")
			return
		}
		again, err := encode(r)
		require.NoError(t, err)
		same, fault := parse(again)
		assert.Nil(t, fault)
		assert.Equal(t, r, same)
	})
}

func FuzzReceive(f *testing.F) {
	for _, frame := range []Frame{
		{Type: TypeHello, Hello: &Root{ExecutionID: "a"}}, {Type: TypeEnd}, {Type: TypeEvent, Event: &event.Event{}},
		{Type: TypeSnapshot, Snapshot: &Snapshot{Jobs: []board.Job{{}}}}, {Type: TypeLog, Log: &Entries{}},
		{Type: TypeError, Error: &Fault{Code: CodeBusy}},
	} {
		f.Add(frame.line())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := receive(bufio.NewReader(strings.NewReader(string(text))))
		if err != nil {
			return
		}
		again, err := receive(bufio.NewReader(strings.NewReader(string(got.line()))))
		require.NoError(t, err)
		assert.Equal(t, got.Type, again.Type)
	})
}
