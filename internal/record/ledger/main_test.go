package ledger

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/pkg/task"
)

// roleEnv names the part that the test binary plays as a process of its own.
const roleEnv = "LEDGER_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		roles := map[string]func(home string, args []string) error{
			"write": writeOn, "hold": holdOn, "prompt": promptOnly, "fill": fillUp, "denied": noRight}
		if err := roles[role](os.Args[1], os.Args[2:]); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// player is the test binary in a role.
type player struct {
	cmd   *exec.Cmd
	lines *bufio.Reader
	stdin io.WriteCloser
}

func play(t *testing.T, attr *syscall.SysProcAttr, role, home string, args ...string) *player {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{home}, args...)...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.SysProcAttr = attr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	if err := cmd.Start(); err != nil {
		if attr != nil {
			t.Skip("no namespaces of our own here: ", err)
		}
		require.NoError(t, err)
	}
	p := &player{cmd, bufio.NewReader(out), in}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return p
}

// rest reads to the end of the output and waits for the process.
func (p *player) rest() (lines []string, err error) {
	for {
		line, err := p.lines.ReadString('\n')
		if err != nil { // the end, or a line that was cut
			return lines, p.cmd.Wait()
		}
		lines = append(lines, strings.TrimSpace(line))
	}
}

func (p *player) line(t *testing.T) string {
	t.Helper()
	line, err := p.lines.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// writeOn claims and finishes tasks with several hands, until n are done or it is
// killed; it says what it was promised.
func writeOn(home string, args []string) error {
	name := args[0]
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	l := NewRecorder(home, Root{ID: name, Started: time.Now(), Command: "batch"}, Options{})
	var next atomic.Int64
	var hands sync.WaitGroup
	var failed atomic.Pointer[error]
	for range 4 {
		hands.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				id := fmt.Sprintf("%s-%d", name, i)
				err := l.Claim(Execution{ID: id, Root: name, Batch: "b", Key: id, Task: "t"})
				if err == nil {
					fmt.Println("claimed", id)
					l.Attempt(id, 1, time.Now(), task.Task{}.Ended(task.Broken, ""))
					err = l.Finish("", id, done(id, id+strings.Repeat("x", int(i)%9000)))
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				fmt.Println("finished", id)
			}
		})
	}
	hands.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return l.Close()
}

// holdOn is a root that waits until its input ends.
func holdOn(home string, args []string) error {
	l := NewRecorder(home, Root{ID: args[0], Started: time.Now(), Command: "run"}, Options{})
	err := errors.Join(
		l.Begin(Batch{ID: "batch-" + args[0], Root: args[0], Dir: "/d"}),
		l.Claim(Execution{ID: "run-" + args[0], Root: args[0], Batch: "batch-" + args[0]}))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return l.Close()
}

// promptOnly is a root that has no children.
func promptOnly(home string, args []string) error {
	r := NewRecorder(home, Root{ID: args[0], Started: time.Now(), Command: "run"}, Options{})
	if err := r.Claim(Execution{ID: "run-" + args[0], Root: args[0], Agent: "a", Task: "t"}); err != nil {
		return err
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	if err := r.Finish("", "run-"+args[0], done("", "odd \xff\x00 bytes")); err != nil {
		return err
	}
	return r.Close()
}

// book is a ledger together with the recorders of roots: what they record is in the
// ledger at once.
type book struct {
	*Ledger
	home string
	at   map[string]*Recorder // the roots at work; what others record is that of a dead one
}

// open opens a ledger for the time of the test.
func open(t testing.TB, home string) *book {
	t.Helper()
	l, err := openBook(home, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

func openBook(home string, o Options) (*book, error) {
	l, err := Open(home, o)
	return &book{l, home, map[string]*Recorder{}}, err
}

// by has the root record something.
func (b *book) by(root string, f func(*Recorder) error) error {
	r := b.at[root]
	if r == nil {
		r = NewRecorder(b.home, Root{ID: cmp.Or(root, "nobody")}, Options{})
		defer r.Close()
	}
	r.now = b.now
	err := f(r)
	if b.at[root] == nil {
		err = errors.Join(err, r.Close())
	}
	return errors.Join(err, b.fault("read the journals", b.refresh()))
}

func (b *book) Enter(r Root) error {
	k := NewRecorder(b.home, r, Options{})
	b.at[r.ID] = k
	_, err := k.enter(b.now())
	return err
}

func (b *book) Claim(e Execution) error {
	return b.by(e.Root, func(r *Recorder) error { return r.Claim(e) })
}

func (b *book) Begin(batch Batch) error {
	return b.by(batch.Root, func(r *Recorder) error {
		r.now = func() time.Time { return batch.Started }
		return r.Begin(batch)
	})
}

func (b *book) End(batch, root string, s task.Status, u task.Usage) error {
	return b.by(root, func(r *Recorder) error { return r.End(batch, s, u) })
}

func (b *book) Touch(id string) error {
	return b.by("", func(r *Recorder) error { return r.Touch(id) })
}

func (b *book) Finish(id string, res task.Result) error { return b.FinishFor("", id, res) }

func (b *book) FinishFor(recall, id string, res task.Result) error {
	return b.by("", func(r *Recorder) error { return r.Finish(recall, id, res) })
}

func (b *book) Close() error {
	var errs []error
	for _, r := range b.at {
		errs = append(errs, r.Close())
	}
	if b.Ledger != nil {
		errs = append(errs, b.Ledger.Close())
	}
	return errors.Join(errs...)
}

func done(id, output string) task.Result {
	r := task.Task{Text: "t", Agent: "a", ID: id}.Ended(task.Completed, "")
	r.Output, r.Attempts, r.Usage = output, 1, task.Usage{InputTokens: 3, OutputTokens: 4}
	return r
}

func claim(t testing.TB, l *book, e Execution) {
	t.Helper()
	require.NoError(t, l.Claim(e))
}

func ids(runs []Run) []string {
	list := []string{}
	for _, r := range runs {
		list = append(list, r.ID)
	}
	return list
}

// sound checks the database from end to end.
func sound(t *testing.T, l *book) {
	t.Helper()
	var verdict string
	require.NoError(t, l.db.QueryRow("PRAGMA integrity_check").Scan(&verdict))
	assert.Equal(t, "ok", verdict)
}

// modes checks that only the owner may read what is in home.
func modes(t *testing.T, home string) {
	t.Helper()
	err := filepath.WalkDir(home, func(name string, d os.DirEntry, err error) error {
		if err != nil || name == home {
			return err
		}
		info, err := d.Info()
		if err == nil {
			want := os.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			assert.Equal(t, want, info.Mode().Perm(), name)
		}
		return err
	})
	require.NoError(t, err)
}
