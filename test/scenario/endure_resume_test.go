package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// endureFlaky answers each task with its text, and those that say so with nothing
// as long as well is false.
func endureFlaky(well *bool) func(context.Context, endureTalk) api.Message {
	return func(ctx context.Context, k endureTalk) api.Message {
		if strings.HasPrefix(k.text(), "fails") && !*well {
			return endureSay("")
		}
		return endureEcho(ctx, k)
	}
}

// batch runs qq batch with args and expects that it ends with code and asks the
// model about these tasks alone, in any order.
func (m *endureModel) batch(w *world, code int, asked []string, args ...string) ended {
	w.t.Helper()
	m.forget()
	e := w.qq(append([]string{"batch", "--no-bar"}, args...)...)
	assert.Equal(w.t, code, e.code, "exit code of %q", args)
	assert.ElementsMatch(w.t, asked, m.tasks(), "asked by %q", args)
	return e
}

// endureText are the answers to tasks in the format text.
func endureText(tasks ...string) string {
	var b strings.Builder
	for _, task := range tasks {
		fmt.Fprintf(&b, "Answer to %s\n", task)
	}
	return b.String()
}

// TestResumeByContent: what is done is known by what it says, wherever it stands.
func TestResumeByContent(t *testing.T) {
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	file := w.file("tasks.txt", "a\nb\nc\n")
	e := m.batch(w, 0, []string{"a", "b", "c"}, file)
	assert.Equal(t, endureText("a", "b", "c"), e.stdout)

	for _, tt := range []struct {
		name, lines string
		asked       []string
	}{
		{"nothing changed", "a\nb\nc\n", nil},
		{"the order changed", "c\na\nb\n", nil},
		{"a line was edited", "a\nB\nc\n", []string{"B"}},
		{"lines were added and taken away", "new\nc\n", []string{"new"}},
		{"one of two alike is new", "a\na\nb\n", []string{"a"}},
		{"and then it is not", "b\na\na\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.file("tasks.txt", tt.lines)
			e := m.batch(w, 0, tt.asked, "--resume", file)
			assert.Equal(t, endureText(strings.Fields(tt.lines)...), e.stdout)
		})
	}
}

// TestResumeFilesByContent: a file is another one when its content is.
func TestResumeFilesByContent(t *testing.T) {
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	args := []string{"-m", "Summarize {}"}
	for _, name := range []string{"1.txt", "2.txt", "3.txt"} {
		w.file(name, "text of "+name)
		args = append(args, name)
	}
	m.batch(w, 0, []string{"Summarize 1.txt", "Summarize 2.txt", "Summarize 3.txt"}, args...)
	m.batch(w, 0, nil, append(args, "--resume")...)
	w.file("2.txt", "another text")
	m.batch(w, 0, []string{"Summarize 2.txt"}, append(args, "--resume")...)
	m.batch(w, 0, nil, append(args, "--resume")...)
}

// TestResumeFailed: what failed stands as it is with --resume, with its place and
// its exit code, and is run again with --resume-failed.
func TestResumeFailed(t *testing.T) {
	well := false
	m := endurePlay(t, endureFlaky(&well))
	w := newWorld(t, m.addr, played)
	file := w.file("tasks.txt", "a\nfails 1\nb\nfails 2\nc\n")
	all := []string{"a", "fails 1", "b", "fails 2", "c"}
	jsonl := []string{file, "--output-format", "jsonl"}
	statuses := func(e ended) (list []string) {
		for _, r := range endureLines(t, e) {
			list = append(list, r.Status)
		}
		return list
	}
	first := m.batch(w, 4, all, jsonl...)
	want := []string{"completed", "empty_answer", "completed", "empty_answer", "completed"}
	assert.Equal(t, want, statuses(first))
	again := m.batch(w, 4, nil, append(jsonl, "--resume")...)
	assert.Equal(t, want, statuses(again))
	id := endureLines(t, first)[0].BatchID

	// Another batch in the same folder is the last one from now on.
	other := w.file("other.txt", "x\n")
	m.batch(w, 0, []string{"x"}, other)
	refused := m.batch(w, 2, nil, file, "--resume") // nothing of it is in the last one
	assert.Contains(t, refused.stderr, "hint: --resume="+endureShort(id)+" continues batch")
	well = true
	e := m.batch(w, 0, []string{"fails 1", "fails 2"}, append(jsonl, "--resume-failed="+endureShort(id))...)
	assert.Equal(t, slices.Repeat([]string{"completed"}, 5), statuses(e))
	assert.Equal(t, "Answer to fails 2", *endureLines(t, e)[3].Output)
	for _, r := range endureLines(t, e) {
		assert.Equal(t, id, r.BatchID, r.Task)
	}
	m.batch(w, 0, nil, file, "--resume="+id)
	m.batch(w, 0, nil, file, "--resume="+id[:len(id)-2]) // a beginning that no other has
}

// TestResumeOutput: the file with the results is byte for byte that of a run that
// was not disturbed, in every format that has nothing but the answers in it.
func TestResumeOutput(t *testing.T) {
	for _, format := range []string{"text", "markdown", "json", "jsonl"} {
		t.Run(format, func(t *testing.T) {
			well := true
			m := endurePlay(t, endureFlaky(&well))
			w := newWorld(t, m.addr, played)
			file := w.file("tasks.txt", "a\nfails 1\nb\nfails 2\nc\n")
			out := filepath.Join(w.dir, "out")
			args := []string{file, "--output-format", format, "-o", out, "-j", "2"}
			m.batch(w, 0, []string{"a", "fails 1", "b", "fails 2", "c"}, append(args, "--no-ledger")...)
			undisturbed := endureRead(t, out)
			require.NotEmpty(t, undisturbed)

			well = false
			m.batch(w, 4, []string{"a", "fails 1", "b", "fails 2", "c"}, args...)
			disturbed := endureRead(t, out)
			assert.NotEqual(t, undisturbed, disturbed)
			m.batch(w, 4, nil, append(args, "--resume")...)
			assert.Equal(t, endureSteady(t, format, disturbed), endureSteady(t, format, endureRead(t, out)),
				"resumed, with what failed")
			well = true
			m.batch(w, 0, []string{"fails 1", "fails 2"}, append(args, "--resume-failed")...)
			assert.Equal(t, endureSteady(t, format, undisturbed), endureSteady(t, format, endureRead(t, out)))
		})
	}
}

// endureSteady is the output without what differs from run to run: ids and times.
func endureSteady(t *testing.T, format, output string) string {
	t.Helper()
	var list []map[string]any
	switch format {
	case "json":
		require.NoError(t, json.Unmarshal([]byte(output), &list), output)
	case "jsonl":
		for line := range strings.Lines(output) {
			list = append(list, map[string]any{})
			require.NoError(t, json.Unmarshal([]byte(line), &list[len(list)-1]), line)
		}
	default:
		return output
	}
	for _, r := range list {
		for _, name := range []string{"execution_id", "batch_id", "duration_ms", "queued_ms"} {
			assert.Contains(t, r, name)
			delete(r, name)
		}
		if did, ok := r["did"].(map[string]any); ok {
			delete(did, "model") // how long the model took
		}
	}
	b, err := json.MarshalIndent(list, "", " ")
	require.NoError(t, err)
	return string(b)
}

func endureRead(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// TestResumeByJoblog: a batch is found by its job log, in the ledger alone. The log names
// the batch, and has one line for each task however often the batch went on.
func TestResumeByJoblog(t *testing.T) {
	well := false
	m := endurePlay(t, endureFlaky(&well))
	w := newWorld(t, m.addr, played)
	file := w.file("tasks.txt", "a\nfails\nb\nb\n")
	args := []string{file, "--joblog=log"}
	lines := func() []string {
		return strings.Split(strings.TrimSpace(endureRead(t, filepath.Join(w.work, "log"))), "\n")
	}
	m.batch(w, 4, []string{"a", "fails", "b", "b"}, args...)
	require.Len(t, lines(), 5)
	assert.Equal(t, "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand", lines()[0])
	m.batch(w, 0, []string{"x"}, w.file("other.txt", "x\n"), "--joblog=otherlog")
	id := w.runs("list")[1].ID

	w.file("tasks.txt", "a\nfails\nb\nb\nb\nnew\n")
	well = true
	m.batch(w, 0, []string{"fails", "b", "new"}, append(args, "--resume-failed")...)
	m.batch(w, 0, nil, append(args, "--resume")...)
	require.Len(t, lines(), 7)
	for i, line := range lines()[1:] {
		assert.True(t, strings.HasPrefix(line, fmt.Sprintf("%d\tqq:%s\t", i+1, id)), line)
	}
}

// TestResumeNeedsTheLedger: what the ledger does not know cannot go on, and the log and
// the answers stay as they are.
func TestResumeNeedsTheLedger(t *testing.T) {
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	args := []string{w.file("tasks.txt", "a\nb\n"), "-o", "out", "--joblog", "log"}
	m.batch(w, 0, []string{"a", "b"}, append(args, "--no-ledger")...)
	log, out := endureRead(t, filepath.Join(w.work, "log")), endureRead(t, filepath.Join(w.work, "out"))
	assert.Equal(t, 3, strings.Count(log, "\n"), "it is written all the same")
	m.batch(w, 2, nil, append(args, "--resume")...).refused("is in the ledger")
	m.batch(w, 2, nil,
		append(args, "--resume", "--no-ledger")...).refused("without the ledger nothing is known of an earlier batch")
	assert.Equal(t, log, endureRead(t, filepath.Join(w.work, "log")))
	assert.Equal(t, out, endureRead(t, filepath.Join(w.work, "out")))
}

// TestResumeWithOtherLimits: who goes on with more time, or other retries, does not
// do again what is done.
func TestResumeWithOtherLimits(t *testing.T) {
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	file := w.file("tasks.txt", "a\nb\n")
	m.batch(w, 0, []string{"a", "b"}, file, "--timeout", "20")
	m.batch(w, 0, nil, file, "--resume", "--timeout", "30", "--retries", "1", "-j", "1")
}

// TestNothingToResume: there is no such batch to go on with, which is said before
// anything is started. (Without its id, a batch begins: TestNightFirstStart.)
func TestNothingToResume(t *testing.T) {
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	file := w.file("tasks.txt", "a\n")
	for _, args := range [][]string{
		{"--resume=deadbeef"}, {"--resume-failed=deadbeef"}, {"--resume", "--no-ledger"},
		{"--resume", "--resume-failed"},
		{"--resume", "--joblog", "nolog", "--no-ledger"}, {"--cache", "--no-ledger"},
	} {
		m.batch(w, 2, nil, append(args, file)...).refused("")
	}
	assert.NoFileExists(t, filepath.Join(w.work, "nolog"))
}

// TestResumeAfterInterrupt: Ctrl-C in the middle of a batch; what was done stays
// done, and what was under way is run again.
func TestResumeAfterInterrupt(t *testing.T) {
	hang := true
	m := endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
		if hang && strings.HasSuffix(k.text(), "hangs") {
			<-ctx.Done()
		}
		return endureEcho(ctx, k)
	})
	w := newWorld(t, m.addr, played)
	tasks := []string{"a", "b hangs", "c", "d", "e hangs", "f"}
	file, out := w.file("tasks.txt", strings.Join(tasks, "\n")), filepath.Join(w.dir, "out")
	args := []string{"batch", file, "-j", "2", "-o", out, "--joblog", "log"}
	q := w.start("", args...)
	w.until(runTimeout, "two hang", func() bool { return len(m.hanging()) == 2 })
	require.NoError(t, syscall.Kill(-q.cmd.Process.Pid, syscall.SIGINT))
	e := q.wait()
	assert.Equal(t, 130, e.code, "exit code")
	assert.Empty(t, w.processes())
	assert.Regexp(t, `to continue, repeat the command with --resume(-failed)?=[0-9a-f]{8}\n`, e.stderr)

	hang = false
	m.forget()
	e = w.qq(append(args, "--resume")...)
	assert.Equal(t, 0, e.code, "exit code")
	assert.ElementsMatch(t, []string{"b hangs", "e hangs", "f"}, m.tasks())
	assert.Equal(t, endureText(tasks...), endureRead(t, out))
	list := w.runs("list")
	require.Len(t, list, 1, "one batch, though two processes worked on it")
	assert.Equal(t, map[string]int{"completed": 6}, list[0].Counts)
}
