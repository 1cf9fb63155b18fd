package view

import (
	"context"
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
