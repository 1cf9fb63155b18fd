package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// room is a folder to work in, with a home for the ledger.
type room struct {
	t     *testing.T
	home  string
	dir   string
	files string
	ids   int
}

func newRoom(t *testing.T) *room {
	dir := t.TempDir()
	return &room{t: t, home: t.TempDir(), dir: dir, files: dir}
}

// record begins the record of one more process; without says that it keeps no
// ledger.
func (r *room) record(without bool) *Record {
	r.ids++
	id := fmt.Sprintf("root-%03d", r.ids) // they sort by time, as those of roots do
	cfg := Config{ID: id, Dir: r.dir, Tasks: r}
	if !without {
		cfg.Ledger = ledger.NewRecorder(r.home, ledger.Root{ID: id, Command: "batch", Dir: r.dir, Started: time.Now()},
			ledger.Options{})
		r.t.Cleanup(func() { _ = cfg.Ledger.Close() })
	}
	return New(cfg)
}

func (r *room) newID() string {
	r.ids++
	return "id-" + strconv.Itoa(r.ids)
}

func (r *room) ModelOf(task.Task) string { return "m" }

func (r *room) Left(executionID string, _ task.Task) []string {
	return []string{"left of " + executionID}
}

func (r *room) CacheKey(_ context.Context, t task.Task) string { return "cache of " + t.Text }

// Read comes to the content of a file.
func (r *room) Read(_ context.Context, dir string, read task.Read) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, strings.Trim(string(read.Arguments), `"`)))
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// tasks are those with these texts, each made of the file of that name.
func (r *room) tasks(texts ...string) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		for _, text := range texts {
			if !yield(task.Task{Text: text, File: filepath.Join(r.files, text)}, nil) {
				return
			}
		}
	}
}

// play runs a batch of tasks with these texts: each that is not known ends as end
// says. It returns what was run and what came of all.
func (r *room) play(rec *Record, b Batch, end func(t task.Task) task.Result, texts ...string) (ran []string,
	results []task.Result) {
	_, err := rec.Open(r.t.Context(), b, r.tasks(texts...))
	require.NoError(r.t, err)
	index := 0
	for t := range rec.Tasks(r.t.Context(), r.tasks(texts...)) {
		t.Timeout = 7 // a limit that is put in later changes no key
		res, ok := rec.Known(r.t.Context(), index, t)
		if !ok {
			ran = append(ran, t.Text)
			job := task.Job{Task: t, ExecutionID: r.newID(), BatchID: rec.batch.ID, Index: index, Depth: 1}
			res = end(t)
			if rec.Keeps() {
				require.NoError(r.t, rec.Claim(job))
				require.NoError(r.t, rec.Finish(job, res))
			}
		}
		res.Index = index
		rec.Done(res)
		rec.Delivered(res)
		results = append(results, res)
		index++
	}
	require.NoError(r.t, rec.Close())
	if rec.Keeps() {
		require.NoError(r.t, rec.cfg.Ledger.Close())
	}
	return ran, results
}

// ends answers with the text, and fails for "bad".
func ends(t task.Task) task.Result {
	r := t.Ended(task.Completed, "")
	if t.Text == "bad" {
		r = t.Ended(task.Failed, "it is bad")
	}
	r.Output, r.Attempts, r.Reads = "of "+t.Text, 1, []task.Read{}
	return r
}

func statuses(results []task.Result) (s []task.Status) {
	for _, r := range results {
		s = append(s, r.Status)
	}
	return s
}

func TestResume(t *testing.T) {
	r := newRoom(t)
	ran, _ := r.play(r.record(false), Batch{}, ends, "a", "a", "bad", "b")
	assert.Equal(t, []string{"a", "a", "bad", "b"}, ran)

	// By content and not by position, equal ones by their number.
	ran, results := r.play(r.record(false), Batch{Resume: true}, ends, "b", "new", "a", "bad", "a", "a")
	assert.Equal(t, []string{"new", "a"}, ran)
	assert.Equal(t, []task.Status{task.Completed, task.Completed, task.Completed, task.Failed, task.Completed,
		task.Completed}, statuses(results))
	assert.Equal(t, "of b", results[0].Output)

	ran, _ = r.play(r.record(false), Batch{Resume: true, Failed: true}, ends, "a", "bad", "b")
	assert.Equal(t, []string{"bad"}, ran)

	// What was only stopped has no end.
	stopped := func(t task.Task) task.Result { return t.Ended(task.Cancelled, "") }
	r.play(r.record(false), Batch{}, stopped, "c")
	ran, _ = r.play(r.record(false), Batch{Resume: true}, ends, "c")
	assert.Equal(t, []string{"c"}, ran)

	// The content of the file that a task was made of counts.
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "f"), []byte("one"), 0o600))
	r.play(r.record(false), Batch{}, ends, "f", "g")
	ran, _ = r.play(r.record(false), Batch{Resume: true}, ends, "f", "g")
	assert.Empty(t, ran)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "f"), []byte("two"), 0o600))
	ran, _ = r.play(r.record(false), Batch{Resume: true}, ends, "f", "g")
	assert.Equal(t, []string{"f"}, ran)
}

func TestResumeOfNothing(t *testing.T) {
	r := newRoom(t)
	_, err := r.record(false).Open(t.Context(), Batch{Resume: true}, r.tasks())
	require.ErrorIs(t, err, ErrUnknown)
	assert.ErrorContains(t, err, "no batch of this directory is in the ledger")
	_, err = r.record(true).Open(t.Context(), Batch{Resume: true}, r.tasks())
	require.ErrorIs(t, err, ErrUnknown)
	assert.ErrorContains(t, err, "\nhint: leave --no-ledger out")
}

// Two do not work on one batch.
func TestResumeOfABatchAtWork(t *testing.T) {
	r := newRoom(t)
	first := r.record(false)
	id, err := first.Open(t.Context(), Batch{Count: 1}, r.tasks())
	require.NoError(t, err)
	require.NoError(t, first.Claim(task.Job{ExecutionID: "x", BatchID: id, Depth: 1}))
	_, err = r.record(false).Open(t.Context(), Batch{Resume: true}, r.tasks())
	assert.ErrorContains(t, err, "another qq is at work on it: batch "+task.ShortID(id))
	require.NoError(t, first.cfg.Ledger.Close())
	_, err = r.record(false).Open(t.Context(), Batch{Resume: true}, r.tasks())
	assert.NoError(t, err)
}

// The ledger alone knows what was done: a log is no help.
func TestLogIsNotRead(t *testing.T) {
	r := newRoom(t)
	log := filepath.Join(t.TempDir(), "log")
	r.play(r.record(true), Batch{Log: log}, ends, "a", "bad", "b")
	before := content(t, log)
	for _, without := range []bool{true, false} {
		_, err := r.record(without).Open(t.Context(), Batch{Log: log, Resume: true}, r.tasks("a", "bad", "b"))
		require.ErrorIs(t, err, ErrUnknown)
		problem, hint, two := strings.Cut(err.Error(), "\nhint: ")
		assert.True(t, two)
		if without {
			assert.Equal(t, []string{"without the ledger nothing is known of an earlier batch",
				"leave --no-ledger out"}, []string{problem, hint})
		} else {
			assert.Equal(t, "no batch with the job log "+log+" is in the ledger", problem)
		}
	}
	assert.Equal(t, before, content(t, log), "it stays as it is")
}

// The log of a batch that goes on has a line for each task, with the time of its end, and
// names the batch.
func TestLogIsCompleted(t *testing.T) {
	r := newRoom(t)
	log := filepath.Join(t.TempDir(), "log")
	first := r.record(false)
	r.play(first, Batch{Log: log}, ends, "a", "b")
	before := content(t, log)
	for _, left := range []string{before[:len(before)-4], before[:len(jobHeader)], ""} { // of a crash
		require.NoError(t, os.WriteFile(log, []byte(left), 0o600))
		ran, _ := r.play(r.record(false), Batch{Log: log, Resume: true}, ends, "a", "b", "c")
		assert.Len(t, ran, map[bool]int{true: 1}[left == before[:len(before)-4]])
		all := lines(t, log)
		require.Len(t, all, 3)
		for i, columns := range all {
			assert.Equal(t, []string{strconv.Itoa(i + 1), "qq:" + first.batch.ID}, columns[:2])
		}
		began, err := strconv.ParseFloat(all[0][2], 64)
		require.NoError(t, err)
		then, err := strconv.ParseFloat(lineOf(before)[2], 64)
		require.NoError(t, err)
		assert.InDelta(t, then, began, 1)
	}
	require.NoError(t, os.Remove(log))
	ran, _ := r.play(r.record(false), Batch{Log: log, Resume: true}, ends, "a", "b")
	assert.Empty(t, ran, "the ledger knows the batch by the name of its log")
	assert.Len(t, lines(t, log), 2)
}

// lineOf are the columns of the first line of a log.
func lineOf(log string) []string { return strings.Split(strings.TrimPrefix(log, jobHeader), "\t") }

// An answer holds as long as what was read for it is the same.
func TestCacheOfWhatIsRead(t *testing.T) {
	r := newRoom(t)
	write := func(text string) { require.NoError(t, os.WriteFile(filepath.Join(r.dir, "read"), []byte(text), 0o600)) }
	reads := func(t task.Task) task.Result {
		res := ends(t)
		read := task.Read{Tool: "read_file", Arguments: []byte(`"read"`)}
		read.Digest, _ = r.Read(context.Background(), r.dir, read)
		res.Reads = []task.Read{read}
		return res
	}
	write("one")
	r.play(r.record(false), Batch{Cache: true}, reads, "a")
	ran, _ := r.play(r.record(false), Batch{Cache: true}, reads, "a")
	assert.Empty(t, ran)
	write("two")
	ran, _ = r.play(r.record(false), Batch{Cache: true}, reads, "a")
	assert.Equal(t, []string{"a"}, ran)
}

func TestCache(t *testing.T) {
	r := newRoom(t)
	r.play(r.record(false), Batch{Cache: true}, ends, "a", "bad")
	ran, results := r.play(r.record(false), Batch{Cache: true}, ends, "a", "bad", "a")
	assert.Equal(t, []string{"bad"}, ran)
	assert.True(t, results[0].Cached && results[2].Cached)
	assert.Equal(t, "of a", results[2].Output)

	// They are results of that batch: it goes on without the cache.
	ran, _ = r.play(r.record(false), Batch{Resume: true}, ends, "a", "bad", "a")
	assert.Empty(t, ran)
}

// What is no regular file is not read: a pipe would never end.
func TestContentOf(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, name := range []string{"", dir, pipe, filepath.Join(dir, "missing"), "/dev/zero"} {
		assert.Empty(t, (&Record{}).contentOf(t.Context(), name), name)
	}
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Len(t, (&Record{}).contentOf(t.Context(), file), 64)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Empty(t, (&Record{}).contentOf(ended, file))
}

func TestMissingOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	res := task.Result{OutputFile: file}
	missing(&res)
	assert.Empty(t, res.OutputFile)
	assert.Len(t, res.Warnings, 1)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	res = task.Result{OutputFile: file}
	missing(&res)
	assert.Equal(t, file, res.OutputFile)
	assert.Empty(t, res.Warnings)
}

// What never had its chance is run again, what may have done something is not.
func TestWhatIsSettled(t *testing.T) {
	r := newRoom(t)
	end := func(status task.Status) func(task.Task) task.Result {
		return func(t task.Task) task.Result { return t.Ended(status, "") }
	}
	for status, again := range map[task.Status]bool{
		task.Unavailable: true, task.Limit: true, task.Interrupted: true, task.Failed: false,
		task.UnknownOutcome: false,
	} {
		name := string(status)
		r.play(r.record(false), Batch{}, end(status), name)
		ran, _ := r.play(r.record(false), Batch{Resume: true}, ends, name)
		assert.Equal(t, again, len(ran) == 1, status)
	}
	r.play(r.record(false), Batch{}, end(task.UnknownOutcome), "x")
	ran, _ := r.play(r.record(false), Batch{Resume: true, Failed: true}, ends, "x")
	assert.Equal(t, []string{"x"}, ran, "who says so has looked")
}

// TestResumeBegins: with nothing to resume a batch begins if that is wanted, unless its job log says that
// there was one.
func TestResumeBegins(t *testing.T) {
	r := newRoom(t)
	log := filepath.Join(t.TempDir(), "log")
	for _, b := range []Batch{{Resume: true}, {Resume: true, Log: log}, {Resume: true, ID: "x", Begin: true}} {
		rec := r.record(false)
		_, err := rec.Open(t.Context(), b, r.tasks("a"))
		require.ErrorIs(t, err, ErrUnknown, "%+v", b)
		require.NoError(t, rec.cfg.Ledger.Close())
	}
	require.NoError(t, os.WriteFile(log, []byte(jobHeader+"1\tx\n"), 0o600))
	rec := r.record(false)
	_, err := rec.Open(t.Context(), Batch{Resume: true, Begin: true, Log: log}, r.tasks("a"))
	require.ErrorIs(t, err, ErrUnknown)
	require.NoError(t, rec.cfg.Ledger.Close())
	assert.Equal(t, jobHeader+"1\tx\n", content(t, log), "as it was")
	require.NoError(t, os.WriteFile(log, []byte(jobHeader), 0o600))
	for _, b := range []Batch{{Resume: true, Begin: true}, {Resume: true, Begin: true, Failed: true, Log: log}} {
		rec := r.record(false)
		ran, _ := r.play(rec, b, ends, "a")
		assert.Equal(t, []string{"a"}, ran)
		assert.False(t, rec.Resumes())
	}
	rec = r.record(false)
	ran, _ := r.play(rec, Batch{Resume: true, Begin: true, Log: log}, ends, "a")
	assert.Empty(t, ran)
	assert.True(t, rec.Resumes())
}

// TestOtherBatch: a batch to go on with that has none of the tasks, or is one of
// another folder, is not gone on with.
func TestOtherBatch(t *testing.T) {
	r := newRoom(t)
	night, err := r.record(false), error(nil)
	r.play(night, Batch{}, ends, "a", "b")
	r.play(r.record(false), Batch{}, ends, "quick")
	refuse := func(b Batch, texts ...string) string {
		t.Helper()
		rec := r.record(false)
		_, err = rec.Open(t.Context(), b, r.tasks(texts...))
		require.ErrorIs(t, err, ErrUnknown)
		require.NoError(t, rec.cfg.Ledger.Close())
		return err.Error()
	}
	text := refuse(Batch{Resume: true}, "a", "b")
	assert.Contains(t, text, "no task of batch ")
	assert.Contains(t, text, "\nhint: --resume="+task.ShortID(night.batch.ID)+" continues")
	assert.NotContains(t, refuse(Batch{Resume: true}, "other"), "continues")
	ran, _ := r.play(r.record(false), Batch{Resume: true, ID: night.batch.ID}, ends, "new", "b")
	assert.Equal(t, []string{"new"}, ran, "one is enough")

	// What was refused before it began stands in nobody's way, and what came to nothing
	// has nothing to lose.
	empty := r.record(false)
	_, err = empty.Open(t.Context(), Batch{}, r.tasks("x"))
	require.NoError(t, err)
	require.NoError(t, empty.cfg.Ledger.Close())
	ran, _ = r.play(r.record(false), Batch{Resume: true}, ends, "new", "b", "c")
	assert.Equal(t, []string{"c"}, ran)

	// One that was stopped before its first task goes on, if there is no other that has the tasks.
	stopped := r.record(false)
	_, err = stopped.Open(t.Context(), Batch{}, r.tasks("y"))
	require.NoError(t, err)
	require.NoError(t, stopped.cfg.Ledger.Close())
	on := r.record(false)
	ran, _ = r.play(on, Batch{Resume: true}, ends, "y")
	assert.Equal(t, []string{"y"}, ran)
	assert.Equal(t, stopped.batch.ID, on.batch.ID)

	r.play(r.record(false), Batch{}, ends, "bad")
	ran, _ = r.play(r.record(false), Batch{Resume: true}, ends, "good")
	assert.Equal(t, []string{"good"}, ran)

	here := r.dir
	r.dir = filepath.Join(t.TempDir(), "there")
	require.NoError(t, os.Mkdir(r.dir, 0o700))
	assert.Contains(t, refuse(Batch{Resume: true, ID: night.batch.ID}, "a"),
		"another directory\nhint: resume it there: -C "+here)
	r.play(r.record(false), Batch{}, ends, "y")
	assert.NotContains(t, refuse(Batch{Resume: true}, "a"), "continues", "it is one of another directory")
	require.NoError(t, os.Remove(here))
	ran, _ = r.play(r.record(false), Batch{Resume: true, ID: night.batch.ID}, ends, "a")
	assert.Empty(t, ran, "the directory was moved")
}

// TestOldResultHidesNothing: what a run before came to says nothing of a later one
// that began to act and was killed.
func TestOldResultHidesNothing(t *testing.T) {
	for _, status := range []task.Status{task.Cancelled, task.Interrupted, task.Unavailable, task.Limit, task.Failed} {
		r := newRoom(t)
		r.play(r.record(false), Batch{}, func(t task.Task) task.Result { return t.Ended(status, "") }, "x")
		rec := r.record(false)
		id, err := rec.Open(t.Context(), Batch{Resume: true, Failed: true}, r.tasks("x"))
		require.NoError(t, err)
		for tk := range rec.Tasks(t.Context(), r.tasks("x")) {
			job := task.Job{Task: tk, ExecutionID: "acts", BatchID: id, Depth: 1}
			require.NoError(t, rec.Claim(job))
			require.NoError(t, rec.Effects(job))
		}
		require.NoError(t, rec.cfg.Ledger.Close()) // killed
		unknown := func() {
			ran, results := r.play(r.record(false), Batch{Resume: true}, ends, "x")
			assert.Empty(t, ran, status)
			assert.Equal(t, task.UnknownOutcome, results[0].Status, status)
		}
		unknown()
		if !status.Conclusive() { // and one that is stopped before it acts
			r.play(r.record(false), Batch{Resume: true, Failed: true},
				func(t task.Task) task.Result { return t.Ended(status, "") }, "x")
			unknown()
		}
		ran, _ := r.play(r.record(false), Batch{Resume: true, Failed: true}, ends, "x")
		assert.Equal(t, []string{"x"}, ran, status)
	}
}

// A task that had begun to act when its process was killed is not done again,
// unless it says that it may be.
func TestKilledWhileItActed(t *testing.T) {
	r := newRoom(t)
	rec := r.record(false)
	id, err := rec.Open(t.Context(), Batch{}, r.tasks())
	require.NoError(t, err)
	for i, text := range []string{"acts", "reads"} {
		tsk := task.Task{Text: text}
		rec.name(t.Context(), tsk)
		job := task.Job{Task: tsk, ExecutionID: "x-" + text, BatchID: id, Index: i, Depth: 1}
		require.NoError(t, rec.Claim(job))
		if text == "acts" { // by the hands of a child
			child := task.Job{Task: tsk, ExecutionID: "x-child", Parent: job.ExecutionID, BatchID: id, Depth: 2}
			require.NoError(t, rec.Claim(child))
			require.NoError(t, rec.Effects(child))
		}
	}
	require.NoError(t, rec.cfg.Ledger.Close()) // and no end of anything

	again := r.record(false)
	_, err = again.Open(t.Context(), Batch{Resume: true}, r.tasks())
	require.NoError(t, err)
	for i, text := range []string{"acts", "reads"} {
		again.name(t.Context(), task.Task{Text: text})
		res, ok := again.Known(t.Context(), i, task.Task{Text: text})
		assert.Equal(t, text == "acts", ok)
		if ok {
			assert.Equal(t, task.UnknownOutcome, res.Status)
			assert.Contains(t, res.Err(), "\nhint: ")
		}
	}
}

// What cannot be recorded is not said to be.
func TestEffectsThatCannotBeRecorded(t *testing.T) {
	r := newRoom(t)
	require.NoError(t, r.record(true).Effects(task.Job{ExecutionID: "x"}), "nothing is kept")
	r.home = filepath.Join(r.home, "file")
	require.NoError(t, os.WriteFile(r.home, nil, 0o600))
	require.Error(t, r.record(false).Effects(task.Job{ExecutionID: "x"}))
}

// A task is in the log only when its answer has been printed.
func TestLogAfterTheAnswer(t *testing.T) {
	for _, without := range []bool{true, false} {
		t.Run(fmt.Sprint(without), func(t *testing.T) { logAfterTheAnswer(t, newRoom(t), without) })
	}
}

func logAfterTheAnswer(t *testing.T, r *room, without bool) {
	log := filepath.Join(t.TempDir(), "log")
	rec := r.record(without)
	_, err := rec.Open(t.Context(), Batch{Log: log}, r.tasks())
	require.NoError(t, err)
	rec.name(t.Context(), task.Task{Text: "a"})
	res := ends(task.Task{Text: "a"})
	rec.Done(res)
	assert.Empty(t, lines(t, log))
	lost := res
	lost.Index, lost.Unrecorded = 1, true
	rec.name(t.Context(), task.Task{Text: "b"})
	rec.Done(lost)
	rec.Delivered(lost)
	assert.Empty(t, lines(t, log), "it is run again")
	rec.Delivered(res)
	assert.Len(t, lines(t, log), 1)
	require.NoError(t, rec.Close())
}

// Who asks for what failed gets it done again, whatever it did before; who goes on
// does not.
func TestFailedAfterItActed(t *testing.T) {
	r := newRoom(t)
	acted := func(status task.Status) func(task.Task) task.Result {
		return func(t task.Task) task.Result {
			res := t.Ended(status, "")
			res.Attempts, res.Effects = 1, true
			return res
		}
	}
	r.play(r.record(false), Batch{}, acted(task.Failed), "failed")
	ran, _ := r.play(r.record(false), Batch{Resume: true}, ends, "failed")
	assert.Empty(t, ran)
	ran, _ = r.play(r.record(false), Batch{Resume: true, Failed: true}, ends, "failed")
	assert.Equal(t, []string{"failed"}, ran)

	for _, status := range []task.Status{task.Cancelled, task.Limit, task.Unavailable} {
		r.play(r.record(false), Batch{}, acted(status), string(status))
		ran, results := r.play(r.record(false), Batch{Resume: true}, ends, string(status))
		assert.Empty(t, ran)
		assert.Equal(t, task.UnknownOutcome, results[0].Status)
		ran, _ = r.play(r.record(false), Batch{Resume: true, Failed: true}, ends, string(status))
		assert.Equal(t, []string{string(status)}, ran)
	}
}

func TestKey(t *testing.T) {
	base := task.Task{Text: "text", ID: "one"}
	same := []task.Task{{Text: "text", ID: "two"}, {Text: "text", Agent: task.DefaultAgent}}
	for _, s := range same {
		assert.Equal(t, Key(base), Key(s))
	}
	assert.Equal(t, Key(task.Task{Schema: json.RawMessage(`{"a": 1}`)}),
		Key(task.Task{Schema: json.RawMessage(`{"a":1}`)}))
	assert.Equal(t, Key(task.Task{Check: "make"}), Key(task.Task{Check: "make", CheckAsked: true}), "who gave it")
	seen := map[string]int{}
	for i, k := range []string{
		Key(base), Key(base, ""), Key(base, "x"), Key(base, "x", "y"), Key(base, "xy"),
		Key(task.Task{Text: "text", Agent: "coder"}), Key(task.Task{Text: "text", Model: "m"}),
		Key(task.Task{Text: "text", Context: "c"}),
		Key(task.Task{Text: "text", Context: "c\xff"}), Key(task.Task{Text: "text", Context: "c\xfe"}),
		Key(task.Task{Text: "textc"}),
		Key(task.Task{Text: "text", Schema: json.RawMessage(`{`)}), Key(task.Task{Text: "text", ReadOnly: true}),
		Key(task.Task{Text: "text", WorkingDir: "d"}), Key(task.Task{Text: "text", Dir: "d"}),
		Key(task.Task{Text: "text", Targets: []string{"d"}}),
		Key(task.Task{Text: "text", Denied: []string{"d"}}),
		Key(task.Task{Text: "text", Temporary: &task.Temporary{Prompt: "p"}}),
		Key(task.Task{Text: "text", Idempotent: true}), Key(task.Task{Text: "text", Timeout: 3}),
		Key(task.Task{Text: "text", RequireFileReferences: true}),
		Key(task.Task{Text: "text", Check: "make"}), Key(task.Task{Text: "text", Check: "make test"}),
		Key(task.Task{Text: "text", RequireChange: true}),
	} {
		j, ok := seen[k]
		assert.False(t, ok, "%d is like %d", i, j)
		seen[k] = i
		assert.Len(t, k, 64)
	}
}
