package app

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// TestBatchJobs: -j counts from the processors as in GNU parallel.
func TestBatchJobs(t *testing.T) {
	w, server := newServedWorld(t, batchScripts())
	cpus := runtime.NumCPU()
	w.file("tasks.txt", strings.Repeat("[[never]]\n", cpus+4))
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"-j", "+2"}, cpus + 2},
		{[]string{"-j+2"}, cpus + 2},
		{[]string{"-j", "-1"}, max(cpus-1, 1)},
		{[]string{"--jobs=-999"}, 1},
		{[]string{"-j", "50%"}, (cpus + 1) / 2},
		{[]string{"-j1%"}, 1},
		{[]string{"-j", "2"}, 2},
	} {
		before := server.Count("/api/chat")
		b := w.start(append([]string{"batch", "-q", "tasks.txt"}, c.args...)...)
		w.until(func() bool { return server.Waiting() == c.want })
		b.signal(syscall.SIGINT, syscall.SIGINT)
		b.end()
		assert.Equal(t, c.want, server.Count("/api/chat")-before, "%v: none ended, so no other could start", c.args)
		w.until(func() bool { return server.Waiting() == 0 })
	}
}

// TestBatchDelay: there is some time between two starts, also when there are slots for all.
func TestBatchDelay(t *testing.T) {
	w, _ := newServedWorld(t, batchScripts())
	w.file("tasks.txt", "one\n[[failing]]\nthree\nfour\n")
	e := w.run("batch", "-q", "-k", "--eta", "-j4", "--delay", "0.4", "--joblog", "log", "tasks.txt")
	assert.Equal(t, 4, e.code, e.errors)
	data, err := os.ReadFile(filepath.Join(w.dir, "log"))
	require.NoError(t, err)
	var last float64
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		began, err := strconv.ParseFloat(strings.Split(line, "\t")[2], 64)
		require.NoError(t, err)
		assert.Greater(t, began-last, 0.1, "the log has the time of the start with a process already there")
		last = began
	}
}

// TestBatchMemfree: no task starts while there is too little memory, and the batch can be ended meanwhile.
func TestBatchMemfree(t *testing.T) {
	w, server := newServedWorld(t)
	w.file("tasks.txt", "one\ntwo\n")
	assert.Equal(t, "one\ntwo\n", w.run("batch", "-q", "--memfree", "1M", "tasks.txt").out)
	asked := server.Count("/api/chat")
	b := w.start("batch", "--json", "--no-bar", "--memfree", "999T", "tasks.txt")
	w.until(func() bool {
		said, err := os.ReadFile(b.errors)
		return err == nil && strings.Contains(string(said), "no further task starts")
	})
	b.signal(syscall.SIGINT)
	e := b.end()
	assert.Equal(t, 130, e.code, e.errors)
	assert.Regexp(t, fmt.Sprintf(`qq: \d+ MB of memory are available, %d are asked for: no further task starts\n`, 999<<20),
		e.errors)
	for _, r := range e.documents(t) {
		assert.Equal(t, task.Cancelled, r.Status)
		assert.Zero(t, r.Attempts)
	}
	assert.Equal(t, asked, server.Count("/api/chat"))
	w.assertNoProcess()
}
