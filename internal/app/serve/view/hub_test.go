package view

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/approval"
	"qq/internal/control"
	"qq/internal/record/history"
	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// root is a root without jobs, which counts the faces that can answer its questions.
type root struct {
	folder string
	live   jobs.Table
	slots  *limits.Slots
	faces  atomic.Int32
}

func (r *root) Jobs() []jobs.Job                             { return nil }
func (r *root) Cancel(string) bool                           { return false }
func (r *root) Live() *jobs.Table                            { return &r.live }
func (r *root) Slots() *limits.Slots                         { return r.slots }
func (r *root) Used() task.Usage                             { return task.Usage{} }
func (r *root) Log(string) string                            { return "" }
func (r *root) Open() []tool.Question                        { return nil }
func (r *root) Answer(string, approval.Answer, string) error { return nil }
func (r *root) Attend() func()                               { r.faces.Add(1); return func() { r.faces.Add(-1) } }
func (r *root) Resize(int)                                   {}
func (r *root) End()                                         {}
func (r *root) Warn(string)                                  {}
func (r *root) Path() (string, error)                        { return r.folder, nil }

// startRoot opens the socket of a root in home.
func startRoot(t *testing.T, home string) (*root, *control.Server) {
	t.Helper()
	r := &root{folder: filepath.Join(home, "run", "1"), slots: limits.NewSlots(1)}
	require.NoError(t, os.MkdirAll(r.folder, 0o700))
	s := control.Start(control.Config{Root: control.Root{ExecutionID: "root-1", Started: time.Now()}, Tree: r,
		Approvals: r, Servers: r, Host: r, Events: &event.Stream{}, Folder: r})
	t.Cleanup(s.Close)
	return r, s
}

// A server that nobody looks at is no face: a root without a terminal refuses at once, as it does without the server.
func TestAttendsWhileAPageIsOpen(t *testing.T) {
	home := t.TempDir()
	r, s := startRoot(t, home)
	h := New(home)
	h.lingers = 300 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { h.Run(ctx) })
	defer work.Wait()
	defer stop()
	is := func(faces int32, why string) {
		t.Helper()
		assert.Eventually(t, func() bool { return r.faces.Load() == faces }, 5*time.Second, 5*time.Millisecond, why)
	}
	require.Eventually(t, func() bool { return len(h.Roots()) == 1 }, 5*time.Second, 5*time.Millisecond)
	assert.Never(t, func() bool { return r.faces.Load() > 0 }, 700*time.Millisecond, 5*time.Millisecond,
		"nobody looks")
	_, leave := h.View()
	is(1, "a page is open")
	leave()
	is(0, "it was closed")
	h.Refresh()
	is(1, "a page was loaded by a browser without the script")
	is(0, "that was some time ago")
	_, leave = h.View()
	defer leave()
	is(1, "again")
	begun := time.Now()
	s.Close()
	is(0, "the root has ended")
	require.Eventually(t, func() bool { return h.Roots()[0].End == Ended }, 5*time.Second, 5*time.Millisecond)
	assert.Less(t, time.Since(begun), 2*time.Second)
}

// A root that does not take this server is shown with the reason, and asked again until it does.
func TestClosedRootIsTriedAgain(t *testing.T) {
	home := t.TempDir()
	folder := filepath.Join(home, "run", "1")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	l, err := net.Listen("unix", filepath.Join(folder, "root-1.sock"))
	require.NoError(t, err)
	var refusing sync.WaitGroup
	refusing.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, `{"v":1,"type":"error","error":{"code":"forbidden","problem":"not you","hint":"be another"}}`)
			c.Close()
		}
	})
	h := New(home)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { h.Run(ctx) })
	defer work.Wait()
	defer stop()
	require.Eventually(t, func() bool { return len(h.Closed()) == 1 }, 5*time.Second, 5*time.Millisecond)
	text := ClosedText(h.Closed()[0]).String()
	assert.Contains(t, text, "not you (be another)")
	v := View{Root: "/", Now: time.Now(), Store: &Store{Hub: h}}
	notices := v.Notices(Run{Run: history.Run{ID: "root-1"}})
	require.Len(t, notices, 1, "on the page of the run")
	assert.Equal(t, text, notices[0].Text.String())
	require.NoError(t, l.Close())
	refusing.Wait()
	startRoot(t, home)
	assert.Eventually(t, func() bool { return len(h.Closed()) == 0 && len(h.Roots()) == 1 }, 5*time.Second,
		5*time.Millisecond, "it takes the server now")
}

// A root that is stopped is shown as one that does not reply, and as at work again when it goes on.
func TestStoppedRoot(t *testing.T) {
	home := t.TempDir()
	folder := filepath.Join(home, "run", "1")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	l, err := net.Listen("unix", filepath.Join(folder, "root-1.sock"))
	require.NoError(t, err)
	defer l.Close()
	var silent atomic.Bool
	serve := func(c net.Conn) {
		defer c.Close()
		say := func(f control.Frame) {
			f.V = control.Version
			_ = json.NewEncoder(c).Encode(f) // the hub may be gone
		}
		of := control.Root{ExecutionID: "root-1", Started: time.Now()}
		say(control.Frame{Type: control.TypeHello, Hello: &of})
		for lines := bufio.NewScanner(c); lines.Scan(); {
			var asks control.Request
			_ = json.Unmarshal(lines.Bytes(), &asks) // the client is the hub
			if !silent.Load() {
				say(control.Frame{Type: control.TypeSnapshot, ID: asks.ID, Snapshot: &control.Snapshot{Root: of}})
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	h := New(home)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { h.Run(ctx) })
	defer work.Wait()
	defer stop()
	is := func(word string, notices int) {
		t.Helper()
		assert.Eventually(t, func() bool {
			all := h.Roots()
			return len(all) == 1 && all[0].Shown().Word == word && len(h.Closed()) == notices
		}, 10*time.Second, 5*time.Millisecond, word)
	}
	is("at work", 0)
	_, leave := h.View()
	silent.Store(true)
	is("does not reply", 1)
	assert.Contains(t, ClosedText(h.Closed()[0]).String(), "Run root-1 does not reply: it may be stopped.")
	silent.Store(false)
	is("at work", 0)
	leave()
	silent.Store(true)
	time.Sleep(least) // the snapshot is not fresh any more
	h.Refresh()
	is("does not reply", 1)
	silent.Store(false)
	h.Refresh()
	is("at work", 0)
}
