package box

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	eater = "head -c 400000000 /dev/zero | tail -n 1 > /dev/null; echo eaten"
	bomb  = "for i in $(seq 150); do sleep 30 & done; echo all; wait"
)

func limited(view bool, l Limits) func(*Config) {
	return func(c *Config) { c.Mounts, c.Limits = view, l }
}

// TestMemory: a command that uses too much memory is ended, with and without cgroups, and the outcome says so.
func TestMemory(t *testing.T) {
	for _, groups := range []bool{true, false} {
		if !groups {
			withoutGroups(t)
		} else if parents().Memory == "" {
			continue
		}
		y := newYard(t, nil, limited(true, Limits{Memory: 100 << 20}))
		text := map[bool]string{true: eater, false: "dd if=/dev/zero bs=300M count=1 2>/dev/null | sleep 20"}[groups]
		out, o := y.run(text)
		require.Len(t, o.Excess, 1, out)
		const want = "out_of_memory: the command and what it started reached the limit of 100 MB (QQ_COMMAND_MEMORY)"
		assert.Equal(t, want, o.Excess[0])
	}
	y := newYard(t, nil, limited(true, Limits{}))
	out, o := y.run(eater)
	assert.Equal(t, "eaten\n", out)
	assert.Empty(t, o.Excess)
}

// TestProcesses: so is one that starts too many processes, or it cannot start more.
func TestProcesses(t *testing.T) {
	for _, groups := range []bool{true, false} {
		if !groups {
			withoutGroups(t)
		} else if parents().Processes == "" {
			continue
		}
		y := newYard(t, nil, limited(true, Limits{Processes: 100}))
		c := y.shell(bomb)
		r, err := y.Start(c, nil)
		require.NoError(t, err)
		select {
		case <-r.Done():
		case <-time.After(10 * time.Second):
			r.Stop()
		}
		o := r.Wait()
		said, err := os.ReadFile(c.Stdout.Name())
		require.NoError(t, err)
		if groups || os.Geteuid() == 0 {
			require.NotEmpty(t, o.Excess, string(said))
			assert.Contains(t, o.Excess[0], "reached the limit of 100 processes (QQ_COMMAND_PROCESSES)")
		}
		if groups || os.Geteuid() != 0 {
			assert.NotContains(t, string(said), "all\n")
		}
	}
}

func TestFileSize(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newYard(t, nil, limited(view, Limits{FileSize: 1 << 20}))
		_, o := y.run("head -c 3000000 /dev/zero > f; exit $?")
		assert.Equal(t, []string{"a file reached the limit of 1 MB (QQ_COMMAND_FILE_SIZE)"}, o.Excess)
		info, err := os.Stat(y.path("f"))
		require.NoError(t, err)
		assert.EqualValues(t, 1<<20, info.Size())
	})
}

// TestSane: the usual limits are none for a build.
func TestSane(t *testing.T) {
	y := newYard(t, map[string]string{"main.go": "package main\nfunc main() {}\n", "go.mod": "module x\n"},
		limited(true, Limits{Memory: 8192 << 20, Processes: 2048, FileSize: 10240 << 20}))
	out, o := y.run("mkdir tmp; GOTMPDIR=$PWD/tmp GOCACHE=$PWD/cache GOFLAGS=-buildvcs=auto go build -o out . && ./out")
	if o.Code == 127 {
		t.Skip(out)
	}
	assert.Zero(t, o.Code, out)
	assert.Empty(t, append(o.Excess, o.Notes...))
}
