package dialog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"qq/internal/approval"
	"qq/pkg/task"
	"qq/pkg/tool"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(playEnv); how != "" {
		play(how)
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("qq/internal/terminal.(*stopper).follow"))
}

// terminalScreen is a terminal on which questions are asked, and the person who types.
type terminalScreen struct {
	*Terminal
	t      *testing.T
	keys   *os.File
	screen *os.File
	hangUp func()

	mu     sync.Mutex
	seen   string
	passed int           // of seen, up to where it was expected
	more   chan struct{} // holds one when seen has grown
}

func newScreen(t *testing.T, colour bool, other Screen) *terminalScreen {
	t.Helper()
	master, tty, err := pty.Open()
	require.NoError(t, err)
	keys := unblocked(t, master)
	require.NoError(t, pty.Setsize(tty, &pty.Winsize{Rows: 60, Cols: 80}))
	p, err := openTerminal(tty.Name(), colour, other)
	require.NoError(t, err)
	p.quiet = 20 * time.Millisecond // a test types when it sees the choice
	d := &terminalScreen{Terminal: p, t: t, keys: keys, screen: tty, more: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	wg.Go(d.watchScreen)
	d.hangUp = sync.OnceFunc(func() {
		keys.Close()
		wg.Wait()
	})
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, p.Close(), "closing twice is closing")
		tty.Close()
		d.hangUp()
	})
	return d
}

// unblocked takes over f, so that closing it ends a read that waits.
func unblocked(t *testing.T, f *os.File) *os.File {
	t.Helper()
	defer f.Close()
	fd, err := unix.Dup(int(f.Fd()))
	require.NoError(t, err)
	require.NoError(t, unix.SetNonblock(fd, true))
	return os.NewFile(uintptr(fd), f.Name())
}

// watchScreen reads what the terminal shows until it is closed.
func (d *terminalScreen) watchScreen() {
	buf := make([]byte, 4096)
	for {
		n, err := d.keys.Read(buf)
		if err != nil {
			return
		}
		d.mu.Lock()
		d.seen += string(buf[:n])
		d.mu.Unlock()
		select {
		case d.more <- struct{}{}:
		default:
		}
	}
}

// expect waits until text is on the screen, below what was expected before, and
// returns what stands above it.
func (d *terminalScreen) expect(text string) string {
	d.t.Helper()
	late := time.After(20 * time.Second)
	for {
		d.mu.Lock()
		rest := d.seen[d.passed:]
		before, _, ok := strings.Cut(rest, text)
		if ok {
			d.passed += len(before) + len(text)
		}
		d.mu.Unlock()
		if ok {
			return strings.ReplaceAll(before, "\r\n", "\n")
		}
		select {
		case <-d.more:
		case <-late:
			d.t.Fatalf("%q is not on the screen: %q", text, rest)
		}
	}
}

func (d *terminalScreen) typed(text string) {
	d.t.Helper()
	require.NoError(d.t, d.keys.SetWriteDeadline(time.Now().Add(patience)))
	_, err := d.keys.WriteString(text)
	require.NoError(d.t, err)
}

// reply is what an Ask returned.
type reply struct {
	approval.Answer
	err error
}

// patience is how long a test waits for what must come: a key that did not count ends it with an error, not never.
const patience = time.Minute

func (d *terminalScreen) asks(ctx context.Context, q tool.Question) <-chan reply {
	c := make(chan reply, 1)
	go func() {
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		a, err := ask(ctx, d.Terminal, q)
		c <- reply{a, err}
	}()
	return c
}

const choice = "[o]nce, for this [s]ession (every run_pty_cmd, any command, any agent), [n]o: "

func question() tool.Question {
	return tool.Question{Chain: []string{"default", "coder"}, Intent: tool.Intent{
		Tool: "run_pty_cmd", Effect: tool.Executes, Risk: tool.High, Summary: "run: go test ./...",
		Preview: "go test ./...\n",
	}}
}

func TestAnswers(t *testing.T) {
	for line, want := range map[string]approval.Answer{
		"o": approval.Once, "once": approval.Once, " ONCE ": approval.Once, "s": approval.Session,
		"Session": approval.Session,
		"n":       approval.No, "no": approval.No, "y": approval.Once, "Yes": approval.Once,
	} {
		d := newScreen(t, false, nil)
		c := d.asks(t.Context(), question())
		assert.Equal(t,
			"\ndefault › coder asks: run_pty_cmd (executes, high risk)\n  run: go test ./...\n  │ go test ./...\n",
			d.expect(choice))
		d.typed(line + "\n")
		assert.Equal(t, reply{want, nil}, <-c, line)
	}
}

// Whatever is no answer is asked again; Enter approves nothing.
func TestNoAnswer(t *testing.T) {
	d := newScreen(t, false, nil)
	c := d.asks(t.Context(), question())
	for _, line := range []string{"", "yy", "on", "o n", "\x1b[A", strings.Repeat("o", 3000)} {
		d.expect(choice)
		d.typed(line + "\n")
	}
	d.expect(choice)
	d.typed("?\n")
	assert.Contains(t, d.expect(choice), "  type a letter in brackets, or its word, and Enter; Control-D means no,")
	d.typed("o")
	d.expect("o")
	assert.Empty(t, c, "an answer ends with Enter")
	d.typed("\n")
	assert.Equal(t, reply{approval.Once, nil}, <-c)
}

// What is typed before a question stands there does not answer it, whole lines
// and the beginning of one.
func TestTypedAhead(t *testing.T) {
	d := newScreen(t, false, nil)
	for _, ahead := range []string{"o\n", "s\no\n", "o"} {
		d.typed(ahead)
		d.expect(strings.ReplaceAll(ahead, "\n", "\r\n"))
		c := d.asks(t.Context(), question())
		d.expect(choice)
		d.typed("n\n")
		assert.Equal(t, reply{approval.No, nil}, <-c, "after %q", ahead)
		d.expect("n\r\n")
	}
}

// A question that is withdrawn leaves nobody behind who reads the next answer.
func TestCancel(t *testing.T) {
	d := newScreen(t, false, nil)
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := d.asks(ctx, question())
		d.expect(choice)
		d.typed("o")
		d.expect("o")
		cancel(errors.New("timed out"))
		assert.Equal(t, reply{"", context.Canceled}, <-c)
		d.expect("\r\n(no longer needed)\r\n")
		woken, err := unix.Poll([]unix.PollFd{{Fd: int32(d.wake.Fd()), Events: unix.POLLIN}}, 0)
		require.NoError(t, err)
		assert.Zero(t, woken, "the next question would be woken all the time")

		c = d.asks(t.Context(), question())
		d.expect(choice)
		d.typed("s\n")
		assert.Equal(t, reply{approval.Session, nil}, <-c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	assert.Equal(t, reply{"", context.DeadlineExceeded}, <-d.asks(ctx, question()))
	d.mu.Lock()
	defer d.mu.Unlock()
	assert.NotContains(t, d.seen[d.passed:], "asks", "what nobody waits for is not shown")
}

func TestTimeout(t *testing.T) {
	d := newScreen(t, false, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	c := d.asks(ctx, question())
	d.expect(choice)
	cancel(context.DeadlineExceeded)
	<-c
	d.expect("\r\n(no answer in time)\r\n")
}

// A process that was stopped shows its question again, as much of it as was shown before, and takes nothing that was
// typed meanwhile.
func TestResume(t *testing.T) {
	screen := make(continuing, 1)
	resumes := func() { screen <- unix.SIGCONT }
	d := newScreen(t, false, screen)
	q := question()
	q.Intent.Preview = strings.Repeat("line\n", 300)
	c := d.asks(t.Context(), q)
	const more = "show [a]ll first, [n]o: "
	first := d.expect(more)
	d.typed("n")
	d.expect("n")
	resumes()
	assert.Equal(t, first, d.expect(more))
	d.typed("a\n")
	whole := d.expect(choice)
	assert.Equal(t, 300, strings.Count(whole, "│ line\n"), "the n before it is gone")
	resumes()
	assert.Equal(t, strings.TrimPrefix(whole, "a\n"), d.expect(choice))
	d.typed("o\n")
	assert.Equal(t, reply{approval.Once, nil}, <-c)

	yes := d.confirms(t.Context(), "a line")
	const confirm = "[y]es, [n]o: "
	d.expect(confirm)
	resumes()
	assert.Equal(t, "\nA head:\n  │ a line\nIs it so?\n", d.expect(confirm))
	d.typed("y\n")
	assert.Equal(t, confirmed{true, nil}, <-yes)
}

// Control-D, and a terminal that is closed.
func TestEnd(t *testing.T) {
	d := newScreen(t, false, nil)
	c := d.asks(t.Context(), question())
	d.expect(choice)
	d.typed("o\x04") // hands over what is typed, without Enter
	d.expect("o")
	d.typed("\x04")
	assert.Equal(t, reply{approval.No, nil}, <-c)
	d.expect("\r\n")

	c = d.asks(t.Context(), question())
	d.expect(choice)
	d.hangUp()
	r := <-c
	require.Error(t, r.err, "nobody said no")
	assert.NotEqual(t, approval.Once, r.Answer)
	_, err := ask(t.Context(), d.Terminal, question())
	require.Error(t, err)
}

func TestClosed(t *testing.T) {
	d := newScreen(t, false, nil)
	require.NoError(t, d.Close())
	_, err := ask(t.Context(), d.Terminal, question())
	assert.ErrorIs(t, err, os.ErrClosed)
}

func TestOpen(t *testing.T) {
	p, err := OpenTerminal(false, false, nil)
	assert.Nil(t, p)
	assert.EqualError(t, err, "stderr is not a terminal")
	p, err = openTerminal(t.TempDir()+"/none", false, nil)
	assert.Nil(t, p)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// screenFunc is a Screen.
type screenFunc func() (release func())

func (f screenFunc) Hold(ctx context.Context) (release func(), err error) {
	if release = f(); release == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return release, nil
}

func (f screenFunc) Resumed() <-chan os.Signal { return nil }

// continuing is a Screen that tells of SIGCONT.
type continuing chan os.Signal

func (c continuing) Hold(context.Context) (release func(), err error) { return func() {}, nil }

func (c continuing) Resumed() <-chan os.Signal { return c }

// Other output is held from before the question until after the answer.
func TestHold(t *testing.T) {
	var held, released atomic.Int32
	d := newScreen(t, false, screenFunc(func() func() {
		held.Add(1)
		return func() { released.Add(1) }
	}))
	c := d.asks(t.Context(), question())
	d.expect(choice)
	assert.Equal(t, []int32{1, 0}, []int32{held.Load(), released.Load()})
	d.typed("o\n")
	<-c
	assert.Equal(t, []int32{1, 1}, []int32{held.Load(), released.Load()})
}

// A question that waits for the terminal can be withdrawn.
func TestHoldEnds(t *testing.T) {
	d := newScreen(t, false, screenFunc(func() func() { return nil }))
	ctx, cancel := context.WithCancel(t.Context())
	c := d.asks(ctx, question())
	cancel()
	assert.Equal(t, reply{"", context.Canceled}, <-c)
}

// A text of a model moves nothing on the screen and hides nothing.
func TestEscapes(t *testing.T) {
	d := newScreen(t, false, nil)
	q := question()
	q.Chain = []string{"de\x1b[2Jfault", "co\nder"}
	q.Intent.Tool = "run\x1b]0;title\a"
	q.Intent.Summary = "run:\r\nls \u202egpj"
	q.Intent.Preview = "ls\x1b[2K\r[o]nce \u009b31m\u200b\x7f\xff\n\ufe0f\U000e0041a\u3164\tb\n\n" +
		"[o]nce, for this [s]ession"
	c := d.asks(t.Context(), q)
	assert.Equal(t, strings.Join([]string{
		"", "de␛[2Jfault › co der asks: run␛]0;title␇ (executes, high risk)", "  run: ls <U+202E>gpj",
		"  │ ls␛[2K␍[o]nce <U+009B>31m<U+200B><U+007F><0xFF>", "  │ <U+FE0F><U+E0041>a<U+3164>␉   b", "  │ ",
		"  │ [o]nce, for this [s]ession", "",
	}, "\n"), d.expect("[o]nce, for this [s]ession (every run␛]0;title␇, any command, any agent), [n]o: "))
	d.typed("n\n")
	<-c
}

// What is special is allowed once or not at all.
func TestSpecial(t *testing.T) {
	d := newScreen(t, false, nil)
	q := question()
	q.Intent = tool.Intent{Tool: "edit_file", Effect: tool.Writes, Risk: tool.High, Special: true,
		Summary: "edit .git/config, which belongs to git"}
	c := d.asks(t.Context(), q)
	for _, line := range []string{"s", "session", "a", "o"} {
		shown := d.expect("[n]o: ")
		assert.True(t, strings.HasSuffix(shown, "\n[o]nce, "), shown)
		if line == "s" {
			assert.Equal(t, "\ndefault › coder asks: edit_file (writes, high risk, special: asked each time)\n"+
				"  edit .git/config, which belongs to git\n[o]nce, ", shown)
		}
		assert.Empty(t, c, "%q is no answer", line)
		d.typed(line + "\n")
	}
	assert.Equal(t, reply{approval.Once, nil}, <-c)
}

// Whoever decides has to see everything first, as harmless as the rest.
func TestAll(t *testing.T) {
	d := newScreen(t, false, nil)
	q := question()
	var want strings.Builder
	q.Intent.Preview = ""
	for i := range 300 {
		q.Intent.Preview += fmt.Sprintf("%d \x1b[2K\n", i)
		fmt.Fprintf(&want, "  │ %d ␛[2K\n", i)
	}
	const more = "show [a]ll first, [n]o: "
	c := d.asks(t.Context(), q)
	shown := d.expect(more)
	assert.Contains(t, shown, "\n  │ 19 ␛[2K\n  … 260 rows are left out here …\n  │ 280 ␛[2K\n")
	assert.True(t, strings.HasSuffix(shown, "\n  │ 299 ␛[2K\n"), shown)
	for _, line := range []string{"o", "once", "y", "s", "session"} {
		d.typed(line + "\n")
		assert.Equal(t, line+"\n  a part was not shown: type a first\n", d.expect(more))
	}
	d.typed(" ALL \n")
	whole := d.expect(choice)
	assert.Equal(t,
		" ALL \n\ndefault › coder asks: run_pty_cmd (executes, high risk)\n  run: go test ./...\n"+want.String(),
		whole)
	d.typed("o\n")
	assert.Equal(t, reply{approval.Once, nil}, <-c)

	q.Intent.Preview, q.Intent.Summary = "", strings.Repeat("very ", 100)+"long"
	c = d.asks(t.Context(), q)
	assert.Contains(t, d.expect(more), " long\n", "the end of a summary says what is special")
	d.typed("n\n")
	assert.Equal(t, reply{approval.No, nil}, <-c, "what was not shown can be refused")
}

// A command cannot push its end off the screen, nor can one line of a diff.
func TestWide(t *testing.T) {
	d := newScreen(t, false, nil)
	q := question()
	for _, size := range []uint16{80, 40} {
		require.NoError(t, pty.Setsize(d.screen, &pty.Winsize{Rows: 24, Cols: size}))
		q.Intent.Preview = "ls" + strings.Repeat(" ", 500) + "; rm -rf x\n" +
			"ls" + strings.Repeat("\u2003", 100) + ";rm y"
		c := d.asks(t.Context(), q)
		shown := d.expect("[o]nce")
		assert.Contains(t, shown, "\n  │ ls<500 spaces>; rm -rf x\n")
		assert.Contains(t, strings.ReplaceAll(shown, "\n  ┆ ", ""), ";rm y\n")
		d.expect("[n]o: ")
		d.typed("n\n")
		<-c

		q.Intent.Preview = "echo " + strings.Repeat("x", 5000) + "; rm -rf x"
		c = d.asks(t.Context(), q)
		shown = d.expect("show [a]ll first, [n]o: ")
		assert.Regexp(t, `\n  … \d+ rows are left out here …\n`, shown)
		assert.True(t, strings.HasSuffix(shown, "; rm -rf x\n"))
		d.typed("n\n")
		<-c
	}
}

// Each question says who asks, for what task, and for which task of a batch.
func TestWho(t *testing.T) {
	d := newScreen(t, false, nil)
	q := question()
	q.Depth, q.ExecutionID = 1, "0000aaaa1b2c3d4e"
	q.Task = "Make the\ttests pass\n[o]nce, [n]o: \x1b[2J"
	for _, c := range []struct {
		number int
		input  string
		want   string
	}{
		{0, "", "  task: Make the tests pass [o]nce, [n]o: ␛[2J\n"},
		{17, "docs/a.md", "  task 17 of the batch: docs/a.md\n  task: Make the tests pass [o]nce, [n]o: ␛[2J\n"},
		{3, q.Task, "  task 3 of the batch: Make the tests pass [o]nce, [n]o: ␛[2J\n"},
		{3, strings.Repeat("long ", 100), "  task 3 of the batch: " + strings.Repeat("long ", 11) + "\n" +
			"  ┆ " + strings.Repeat("long ", 14) + "lon…\n  task: Make the tests pass [o]nce, [n]o: ␛[2J\n"},
	} {
		q.Number, q.Input = c.number, c.input
		a := d.asks(t.Context(), q)
		assert.Equal(t, "\ndefault › coder "+task.ShortID(q.ExecutionID)+" asks: run_pty_cmd (executes, high risk)\n"+
			c.want+"  run: go test ./...\n  │ go test ./...\n", d.expect(choice))
		d.typed("n\n")
		<-a
		d.expect("\n")
	}
}

// A question leaves room for itself, and counts what it does not show.
func TestLongPreview(t *testing.T) {
	for rows, want := range map[uint16]int{100: 40, 24: 16, 10: 5, 0: 16} {
		d := newScreen(t, false, nil)
		require.NoError(t, pty.Setsize(d.screen, &pty.Winsize{Rows: rows, Cols: 80}))
		q := question()
		q.Intent.Preview = strings.Repeat("a line\n", 100)
		c := d.asks(t.Context(), q)
		shown := d.expect("[a]ll first, [n]o: ")
		assert.Equal(t, want, strings.Count(shown, "\n  │ a line"))
		assert.Contains(t, shown, fmt.Sprintf("\n  … %d rows are left out here …\n", 100-want))
		d.typed("n\n")
		<-c
	}
}

func TestColour(t *testing.T) {
	d := newScreen(t, true, nil)
	q := question()
	q.Intent = tool.Intent{
		Tool: "edit_file", Effect: tool.Writes, Risk: tool.Medium, Summary: "edit a.go",
		Preview: "@@ -1 +1 @@\n a\n-b\n+c\x1b[0m",
	}
	c := d.asks(t.Context(), q)
	assert.Equal(t, strings.Join([]string{
		"", "\x1b[1mdefault › coder asks:\x1b[0m edit_file (writes, \x1b[33mmedium risk\x1b[0m)", "  edit a.go",
		"  │ @@ -1 +1 @@", "  │  a", "  │ \x1b[31m-b\x1b[0m", "  │ \x1b[32m+c␛[0m\x1b[0m", "",
	}, "\n"), d.expect("[o]nce"))
	d.expect("(every edit_file, any file, any agent), [n]o: ")
	d.typed("n\n")
	<-c
}

func TestAnswerForTheFolder(t *testing.T) {
	q := question()
	q.Lasting = "run_pty_cmd(go test ./...)"
	for _, line := range []string{"f", "Folder"} {
		d := newScreen(t, false, nil)
		c := d.asks(t.Context(), q)
		d.expect("[o]nce, for this [s]ession (every run_pty_cmd, any command, any agent),\r\n" +
			"always in this [f]older (run_pty_cmd(go test ./...)), [n]o: ")
		d.typed(line + "\n")
		assert.Equal(t, reply{approval.Folder, nil}, <-c, line)
	}
	d := newScreen(t, false, nil)
	c := d.asks(t.Context(), question())
	d.expect(choice)
	d.typed("f\n")
	d.expect(choice)
	d.typed("n\n")
	assert.Equal(t, reply{approval.No, nil}, <-c)
}
