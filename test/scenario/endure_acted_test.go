package scenario

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestActedIsNotDoneTwice: a batch is stopped before its task acts, goes on and is
// killed after that. To go on does not do it again, whatever an older run came to; to
// ask for what failed does.
func TestActedIsNotDoneTwice(t *testing.T) {
	const (
		thinking = iota
		acting
		free
	)
	var phase, acted atomic.Int32
	m := endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
		if k.turn() == 0 {
			if phase.Load() == thinking {
				<-ctx.Done()
			}
			return workAsk(workCall("write_file", "path", "found.txt", "content", "half"))
		}
		acted.Add(1)
		if phase.Load() == acting {
			<-ctx.Done()
		}
		return endureSay("Done.")
	})
	w := newWorld(t, m.addr, played, "QQ_APPROVE=auto")
	w.file(".qq/agents/writer.md", "---\nname: writer\ndescription: writes\ntools: [write_file]\n---\nYou write.\n")
	batch := []string{"batch", "--no-bar", "-a", "writer", w.file("task.txt", "Write it\n")}
	stop := func(at int32, how syscall.Signal, args ...string) {
		t.Helper()
		phase.Store(at)
		m.forget()
		q := w.start("", append(batch, args...)...)
		w.until(runTimeout, "it is at work", func() bool { return m.requests() == int(at)+1 })
		require.NoError(t, q.cmd.Process.Signal(how))
		q.wait()
		w.until(time.Second, "nothing is left", func() bool { return len(w.processes()) == 0 })
	}
	stop(thinking, syscall.SIGINT)
	stop(acting, syscall.SIGKILL, "--resume")
	phase.Store(free)
	for range 2 {
		e := w.qq(append(batch, "--resume")...)
		assert.Equal(t, 4, e.code)
		assert.Contains(t, e.stderr, "(unknown_outcome): it had begun to act when it was stopped")
		assert.Contains(t, e.stderr, "hint: look what it has done; then --resume-failed")
	}
	assert.EqualValues(t, 1, acted.Load())
	w.qq(append(batch, "--resume-failed")...).answered("Done.")
	assert.EqualValues(t, 2, acted.Load())
	w.qq(append(batch, "--resume-failed")...).answered("Done.")
	assert.EqualValues(t, 2, acted.Load(), "it is done now")
}

// TestOneWritesTheOutput: the file for the results has one writer, is not the log,
// and is not left where nothing was begun.
func TestOneWritesTheOutput(t *testing.T) {
	m := endurePlay(t, endureLead)
	w := newWorld(t, m.addr, played)
	tasks, out, log := w.file("tasks.txt", "One hangs\n"), filepath.Join(w.dir, "out"), filepath.Join(w.dir, "log")
	q := w.start("", "batch", "--no-bar", tasks, "-o", out)
	w.until(runTimeout, "it is at work", func() bool { return len(m.hanging()) == 1 })
	w.qq("batch", tasks, "-o", out).refused("another qq writes its results there")
	require.NoError(t, q.cmd.Process.Signal(syscall.SIGKILL))
	q.wait()
	w.until(time.Second, "nothing is left", func() bool { return len(w.processes()) == 0 })

	w.qq("batch", tasks, "-o", log, "--joblog", log).refused("the same file")
	assert.NoFileExists(t, log)
	elsewhere := filepath.Join(w.dir, "elsewhere")
	require.NoError(t, os.Symlink(w.dir, elsewhere))
	w.qq("batch", tasks, "-o", filepath.Join(elsewhere, "log"), "--joblog",
		filepath.Join(elsewhere, "log")).refused("the same file")
	assert.NoFileExists(t, log)
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	require.NoError(t, os.Symlink(log, log+".txt"))
	w.qq("batch", tasks, "-o", log+".txt", "--joblog", log).refused("the same file")
	w.qq("batch", "--no-bar", w.file("done.txt", "Done\n")).answered("Answer to Done")
	other := filepath.Join(w.dir, "other")
	w.qq("batch", w.file("others.txt", "Two\n"), "-o", other, "--resume").refused("no task of batch")
	assert.NoFileExists(t, other)
}

// TestLedgerThatWasCleared: what was cleared is not known any more, which is said before
// the log or an answer is lost.
func TestLedgerThatWasCleared(t *testing.T) {
	var well atomic.Bool
	m := endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
		if k.text() == "Two" && !well.Load() {
			<-ctx.Done()
		}
		return endureEcho(ctx, k)
	})
	w := newWorld(t, m.addr, played)
	out, log := filepath.Join(w.dir, "out"), filepath.Join(w.dir, "log")
	batch := []string{"batch", "--no-bar", "-j", "2", w.file("tasks.txt", "One\nTwo\nThree\nFour\n"), "-o", out,
		"--joblog", log}
	q := w.start("", batch...)
	w.until(runTimeout, "all but one have ended", func() bool {
		rows := w.runs("list")
		return len(rows) == 1 && rows[0].Counts["completed"] == 3
	})
	require.NoError(t, q.cmd.Process.Signal(syscall.SIGKILL))
	q.wait()
	w.until(time.Second, "nothing is left", func() bool { return len(w.processes()) == 0 })
	require.Equal(t, 0, w.qq("runs", "clear", "--all").code)

	well.Store(true)
	before := endureRead(t, log)
	m.forget()
	w.qq(append(batch, "--resume")...).refused("no batch with the job log " + log + " is in the ledger")
	assert.Empty(t, m.tasks())
	assert.Equal(t, before, endureRead(t, log))
	assert.Equal(t, 0, w.qq(batch...).code, "it begins anew")
	assert.Equal(t, endureText("One", "Two", "Three", "Four"), endureRead(t, out))
}
