package scenario

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInterrupt: Ctrl-C while the model speaks. When qq has returned no process
// may be left, not even for a moment.
func TestInterrupt(t *testing.T) {
	s := house.server(t, "1")
	for _, tt := range []struct {
		name, prompt string
		processes    int
		toGroup      bool // as a terminal does it; a script signals qq alone
		flags        []string
		dialect      string
	}{
		{"qq alone", "Go on. [[loop]]", 1, false, nil, ""},
		{"qq alone, json", "Go on. [[loop]]", 1, false, []string{"--json"}, ""},
		{"with children", "Do both. [[fanloop]]", 3, false, nil, ""},
		{"with children, whole group", "Do both. [[fanloop]]", 3, true, nil, ""},
		{"with children, openai", "Do both. [[fanloop]]", 3, true, nil, "openai"},
		{"with children, anthropic", "Do both. [[fanloop]]", 3, true, nil, "anthropic"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			relay := newRelay(t, s.URL.Host)
			w := newWorldIn(t, tt.dialect, relay.addr, scripted)
			q := w.start("", append(tt.flags, tt.prompt)...)
			receive(t, relay.flowing)
			w.until(runTimeout, "all are at work", func() bool { return len(w.processes()) >= tt.processes })
			to := q.cmd.Process.Pid
			if tt.toGroup {
				to = -to
			}
			require.NoError(t, syscall.Kill(to, syscall.SIGINT))
			e := q.wait()
			assert.Empty(t, w.processes(), "left when qq has returned")
			if tt.flags != nil {
				e.failed(130, "interrupted")
			}
			assert.Equal(t, 130, e.code, "exit code; stderr %q", e.stderr)
		})
	}
}

// TestTerminate: as a service manager ends it.
func TestTerminate(t *testing.T) {
	s := house.server(t, "1")
	relay := newRelay(t, s.URL.Host)
	w := newWorld(t, relay.addr, scripted)
	q := w.start("", "Do both. [[fanloop]]")
	receive(t, relay.flowing)
	w.until(runTimeout, "all are at work", func() bool { return len(w.processes()) >= 3 })
	require.NoError(t, q.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, q.wait().code, "exit code")
	assert.Empty(t, w.processes())
}

// TestKilled: nobody can catch SIGKILL; the children go all the same, without
// anybody's help.
func TestKilled(t *testing.T) {
	s := house.server(t, "1")
	relay := newRelay(t, s.URL.Host)
	w := newWorld(t, relay.addr, scripted)
	q := w.start("", "Do both. [[fanloop]]")
	receive(t, relay.flowing)
	w.until(runTimeout, "all are at work", func() bool { return len(w.processes()) >= 3 })
	require.NoError(t, q.cmd.Process.Kill())
	assert.Equal(t, -1, q.wait().code)
	w.assertGone()
}
