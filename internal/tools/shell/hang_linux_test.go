package shell

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/box"
	"qq/internal/standin"
	"qq/pkg/proc"
	"qq/pkg/tool"
)

// stuck is a Starter and a command that hang until free is closed.
type stuck struct {
	free  chan struct{}
	start bool // to hang, and not only the command
	asked chan struct{}
	stops chan struct{}
}

func newStuck(t *testing.T, start bool) *stuck {
	s := &stuck{make(chan struct{}), start, make(chan struct{}, 1), make(chan struct{}, 1)}
	t.Cleanup(func() {
		close(s.free)
		<-s.stops // what starts too late is stopped
	})
	return s
}

func (s *stuck) Start(proc.Command, []string) (box.Running, error) {
	s.asked <- struct{}{}
	if s.start {
		<-s.free
	}
	return s, nil
}

func (s *stuck) Stop() { s.stops <- struct{}{} }

func (s *stuck) Done() <-chan struct{} { return s.free }

func (s *stuck) Wait() box.Outcome { <-s.free; return box.Outcome{} }

// TestCancelledHang: a call that is cancelled ends, whatever does not answer: what starts commands, or the first one,
// which finds out whether a rule for git counts.
func TestCancelledHang(t *testing.T) {
	enough := errors.New("enough")
	for name, start := range map[string]bool{"start": true, "command": false} {
		t.Run(name, func(t *testing.T) {
			s := newStuck(t, start)
			d := newDesk(t, func(c *Config) { c.Host = s })
			repository(t, d.Dir)
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan tool.Intent, 1)
			go func() {
				in, err := tool.Plan(ctx, d.tools()[0], []byte(standin.Args("command", "git log")))
				assert.NoError(t, err)
				ended <- in
			}()
			<-s.asked
			cancel(enough)
			select {
			case in := <-ended:
				assert.Contains(t, in.Doubt, "could write .git/config")
			case <-time.After(10 * time.Second):
				require.Fail(t, "it hangs")
			}
		})
	}
	t.Run("run", func(t *testing.T) {
		s := newStuck(t, true)
		d := newDesk(t, func(c *Config) { c.Host = s })
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := d.run(ctx, []byte(standin.Args("command", "true")))
			ended <- err
		}()
		<-s.asked
		cancel(enough)
		select {
		case err := <-ended:
			require.ErrorIs(t, err, enough)
		case <-time.After(10 * time.Second):
			require.Fail(t, "it hangs")
		}
	})
}

// TestUnruled: without rules nothing is looked up before a command.
func TestUnruled(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Ruled, c.Host = false, nil })
	repository(t, d.Dir)
	for _, command := range []string{"git log", "grep -r x .", "no-such-program"} {
		in, err := tool.Plan(t.Context(), d.tools()[0], []byte(standin.Args("command", command)))
		require.NoError(t, err)
		assert.Equal(t, "this run has no such rule", in.Doubt)
	}
}

// repository makes dir one of git.
func repository(t *testing.T, dir string) {
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".git", "objects"), 0o700))
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", name), []byte(text), 0o600))
	}
}
