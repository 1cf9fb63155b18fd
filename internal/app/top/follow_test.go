package top

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/control"
	"qq/pkg/task"
)

// fakeRoot is the socket of a root that stays at work while its connections end or do not reply. Each of its snapshots
// tells of one token more.
type fakeRoot struct {
	*net.UnixListener
	mu     sync.Mutex
	used   int
	fails  string // what happens to each request: "", "silent" or "closed"
	failed int    // requests
	events net.Conn
}

func startFake(t *testing.T, home string) *fakeRoot {
	t.Helper()
	folder := filepath.Join(home, "run", "1")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, "root-1.sock"), Net: "unix"})
	require.NoError(t, err)
	r := &fakeRoot{UnixListener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	return r
}

func say(c net.Conn, f control.Frame) {
	f.V = control.Version
	_ = json.NewEncoder(c).Encode(f) // the client may be gone
}

func (r *fakeRoot) serve(c net.Conn) {
	defer c.Close()
	say(c, control.Frame{Type: control.TypeHello, Hello: &control.Root{ExecutionID: "root-1"}})
	for lines := bufio.NewScanner(c); lines.Scan(); {
		var asks control.Request
		_ = json.Unmarshal(lines.Bytes(), &asks) // the client is qq
		r.mu.Lock()
		fails := r.fails
		if r.used++; asks.Type == control.TypeSubscribe && fails == "" {
			r.events = c
		}
		if fails != "" {
			r.failed++
		}
		snap := control.Snapshot{Used: task.Usage{InputTokens: r.used}}
		r.mu.Unlock()
		switch fails {
		case "closed":
			return
		case "":
			say(c, control.Frame{Type: control.TypeSnapshot, ID: asks.ID, Snapshot: &snap})
		}
	}
}

// set says what happens to requests from now on, and returns the connection of the subscriber.
func (r *fakeRoot) set(fails string) net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = fails
	return r.events
}

// TestFollowsAgain: a root that did not reply for some time, or whose connections ended while it was at work, is
// followed again. Only one that is gone has ended.
func TestFollowsAgain(t *testing.T) {
	for name, fail := range map[string]func(*fakeRoot){
		"silent":      func(r *fakeRoot) { r.set("silent") },
		"closed":      func(r *fakeRoot) { r.set("closed") },
		"no events":   func(r *fakeRoot) { r.set("").Close() },
		"both closed": func(r *fakeRoot) { r.set("closed").Close() },
	} {
		for _, killed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				home, err := os.MkdirTemp("", "qq") // the name of a socket is short
				require.NoError(t, err)
				defer os.RemoveAll(home)
				root := startFake(t, home)
				f := follow(home, "")
				defer f.close()
				until := func(why string, is func(run) bool) {
					t.Helper()
					assert.Eventually(t, func() bool {
						all := f.all()
						return len(all) == 1 && is(all[0])
					}, 20*time.Second, 5*time.Millisecond, why)
				}
				until("followed", func(r run) bool { return r.known && root.set("") != nil })
				before := root.set("")
				fail(root)
				until("it fails", func(r run) bool {
					root.mu.Lock()
					defer root.mu.Unlock()
					return name == "no events" || root.failed > 0 && (name != "silent" || r.Err != nil)
				})
				root.set("")
				used := f.all()[0].Used.InputTokens
				until("followed again", func(r run) bool {
					return r.Used.InputTokens > used+1 && r.Err == nil && r.ended.IsZero() && root.set("") != before
				})
				root.Close()
				events := root.set("closed")
				if !killed {
					say(events, control.Frame{Type: control.TypeEnd})
				}
				events.Close()
				until("ended", func(r run) bool { return !r.ended.IsZero() && r.end != nil && r.end.lost == killed })
			})
		}
	}
}
