package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/command"
	"qq/internal/record/ledger"
	"qq/internal/standin"
	"qq/pkg/task"
)

// batchScripts are a task that fails, and one whose answer takes a while.
func batchScripts() standin.Option {
	return standin.Scripts(
		standin.Script{Start: "[[failing]]", Fault: &standin.Fault{Status: 500, Error: "out of memory"}},
		standin.Script{Start: "[[slow]]", Text: "late", Fault: &standin.Fault{BeforeFirst: 200 * time.Millisecond}},
		standin.Script{Start: "[[never]]", Fault: &standin.Fault{BeforeFirst: -1}},
	)
}

// TestBatchInputs: each form of input gives its tasks, in order.
func TestBatchInputs(t *testing.T) {
	w, _ := newServedWorld(t, batchScripts())
	w.file("a.json", `[{"task":"one"},{"task":"[[slow]]","agent":"coder"},{"task":"three"}]`)
	w.file("a.jsonl", "{\"task\":\"one\"}\n\n{\"task\":\"[[slow]]\"}\n{\"task\":\"three\"}\n")
	w.file("a.csv", "task,agent\none,coder\n[[slow]],\nthree,\n")
	w.file("a.txt", "one\n[[slow]]\n\nthree\n")
	w.file("people.csv", "name,age\nBob,3\n\"Eve, too\",4\n")
	w.file("people.tsv", "name\tage\nBob\t3\n")
	for args, want := range map[string]string{
		"a.json":                               "one\nlate\nthree\n",
		"a.jsonl":                              "one\nlate\nthree\n",
		"a.csv":                                "one\nlate\nthree\n",
		"a.txt":                                "one\nlate\nthree\n",
		"-j1 a.txt":                            "one\nlate\nthree\n",
		"-i a.txt --input-format json":         "",
		"-m {#}:{name}-{age}={} -i people.csv": "1:Bob-3=Bob,3\n" + `2:Eve, too-4="Eve, too",4` + "\n",
		"-m {name} -i people.tsv":              "Bob\n",
		"-m {#}={} a.json a.csv":               "1=a.json\n2=a.csv\n",
		"-m Read a.csv a.json":                 "Read a.csv\nRead a.json\n",
	} {
		e := w.run(append([]string{"batch", "-q"}, strings.Fields(args)...)...)
		assert.Equal(t, want, e.out, "%s: %s", args, e.errors)
	}
	for text, want := range map[string]string{
		"one\n[[slow]]\n":                      "one\nlate\n",
		`[{"task":"one"},{"task":"[[slow]]"}]`: "one\nlate\n",
		"{\"task\":\"one\"}\n":                 "one\n",
	} {
		assert.Equal(t, want, w.pipe(text, "batch", "-q").out)
	}
	assert.Equal(t, "> one\n> two\n", w.pipe("one\ntwo\n", "batch", "-q", "-m", "> {}").out)
}

// TestBatchOutputs: each output format of the same three tasks, one of which
// fails.
func TestBatchOutputs(t *testing.T) {
	w, _ := newServedWorld(t, batchScripts())
	w.file("tasks.txt", "one\n[[failing]]\nthree\n")
	run := func(format string, more ...string) ended {
		e := w.run(append([]string{"batch", "tasks.txt", "-q", "--output-format", format}, more...)...)
		assert.Equal(t, 4, e.code, e.errors)
		return e
	}
	assert.Regexp(t, `^one\n\[task 2 failed: Ollama at .* answered 500: out of memory\]\nthree\n$`, run("text").out)
	assert.Regexp(
		t,
		"^## 1\\. one\n\none\n\n## 2\\. \\[\\[failing\\]\\]\n\n\\*\\*failed\\*\\*: .* 500: out of memory\n\n"+
			"## 3\\. three\n\nthree\n\n$",
		run("markdown").out,
	)
	for i, r := range run("json").documents(t) {
		assert.Equal(t, i, r.Index)
		assert.Equal(t, i != 1, r.Success)
		assert.NotContains(t, r.Err(), "\n")
	}
	assert.Len(t, jsonLines(t, run("jsonl").out), 3)

	e := run("stream-json", "-o", "out")
	assert.Empty(t, e.out, "events go where the results go")
	text, err := os.ReadFile(filepath.Join(w.dir, "out"))
	require.NoError(t, err)
	kinds := map[any]int{}
	for _, line := range jsonLines(t, string(text)) {
		kinds[line["type"]]++
		switch line["type"] {
		case "batch_start":
			assert.Equal(t, 3.0, line["count"])
		case "batch_complete":
			assert.Equal(t, []any{3.0, 1.0}, []any{line["count"], line["failed_tasks"]})
		}
	}
	assert.Equal(
		t,
		map[any]int{"batch_start": 1, "sub_agent_start": 3, "sub_agent_progress": 3, "token": 2,
			"sub_agent_complete": 2, "sub_agent_error": 1, "result": 3, "batch_complete": 1},
		kinds,
	)

	run("text", "--results", "each")
	var second task.Result
	data, err := os.ReadFile(filepath.Join(w.dir, "each", "failing.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &second))
	assert.Equal(t, task.Failed, second.Status)
	data, err = os.ReadFile(filepath.Join(w.dir, "each", "three.txt"))
	require.NoError(t, err)
	assert.Equal(t, "three", string(data))
}

// TestBatchText: in text, each line can begin with the input of its task, and each task without an answer has a line.
// So a script that expects one line a task finds as many lines as tasks.
func TestBatchText(t *testing.T) {
	w, _ := newServedWorld(t, batchScripts(), standin.Scripts(standin.Script{Start: "[[two]]", Text: "1\n2"}))
	w.file("a.txt", "one\n[[failing]]\nthree\nfour\n")
	w.file("b.md", "x")
	w.file("ids.json", `[{"task":"one","id":"first"},{"task":"[[two]]"}]`)
	w.file("people.csv", "name,age\nBob,3\n")
	const failed = `\[task 2 failed: Ollama at \S+ answered 500: out of memory\]`
	const tag = `\[\[failing\]\]\t`
	const halted = `\[task %d cancelled: not started: halted: too many tasks failed\]`
	for args, want := range map[string]string{
		"a.txt":                                     "one\n" + failed + "\nthree\nfour\n",
		"a.txt --halt soon -j1":                     "one\n" + failed + fmt.Sprintf("\n"+halted+"\n"+halted+"\n", 3, 4),
		"a.txt --tag":                               "one\tone\n" + tag + failed + "\nthree\tthree\nfour\tfour\n",
		"--tag -m Read a.txt b.md":                  "a.txt\tRead a.txt\nb.md\tRead b.md\n",
		"--tag ids.json":                            "first\tone\n\\[\\[two\\]\\]\t1\n\\[\\[two\\]\\]\t2\n",
		"--tag -m {name} -i people.csv":             "Bob,3\tBob\n",
		"--tag --output-format text ids.json":       "first\tone\n\\[\\[two\\]\\]\t1\n\\[\\[two\\]\\]\t2\n",
		"--tag=false --output-format text -q a.txt": "one\n" + failed + "\nthree\nfour\n",
	} {
		e := w.run(append([]string{"batch", "-q"}, strings.Fields(args)...)...)
		assert.Regexp(t, "^"+want+"$", e.out, "%s: %s", args, e.errors)
	}
	e := w.run("batch", "--tag", "--output-format", "markdown", "a.txt")
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.errors, "qq: --tag does not go with --output-format markdown\n  hint: leave --tag out")
	e = w.run("batch", "-q", "--output-format", "jsonl", "-m", "Read", "b.md", "a.txt")
	for _, line := range jsonLines(t, e.out) {
		assert.Equal(t, "Read "+line["input"].(string), line["output"])
	}
}

// TestBatchResults: the files of --results are named by the input, the same names in each run. They make room for those
// of a new run; what is no result is left alone.
func TestBatchResults(t *testing.T) {
	w, _ := newServedWorld(t, batchScripts())
	for _, name := range []string{"docs/a.md", "docs/b.md", "more/b.md", "docs/B.MD", "docs/c.txt"} {
		w.file(name, "x")
	}
	all := []string{"docs/a.md", "docs/b.md", "more/b.md", "docs/B.MD", "docs/c.txt"}
	batch := func(args ...string) ended {
		return w.run(append([]string{"batch", "-q", "--results", "r"}, args...)...)
	}
	inFolder := func() (names []string) {
		entries, err := os.ReadDir(filepath.Join(w.dir, "r"))
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	require.Zero(t, batch(append(all, "-m", "Read {}")...).code)
	want := []string{"00002.json", "00002.txt", "00004.json", "00004.txt", "a.md.json", "a.md.txt", "c.json", "c.txt",
		"more-b.md.json", "more-b.md.txt"}
	assert.Equal(t, want, inFolder())
	found := map[float64]string{}
	for _, name := range want {
		data, err := os.ReadFile(filepath.Join(w.dir, "r", name))
		require.NoError(t, err)
		if strings.HasSuffix(name, ".json") {
			doc := map[string]any{}
			require.NoError(t, json.Unmarshal(data, &doc))
			found[doc["index"].(float64)] = doc["input"].(string)
		}
	}
	assert.Equal(t, map[float64]string{0: all[0], 1: all[1], 2: all[2], 3: all[3], 4: all[4]}, found)

	// Of a run that is halted, nothing is left but what it did itself.
	e := batch(append(all, "-m", "Read again {} [[failing]]", "--halt", "soon", "-j1")...)
	assert.Equal(t, 4, e.code)
	assert.Equal(t, want, inFolder(), "what was not started is a result too")
	text, err := os.ReadFile(filepath.Join(w.dir, "r", "c.txt"))
	require.NoError(t, err)
	assert.Empty(t, string(text), "and is not that of the run before")
	b := batch(append(all, "-m", "Read again {} [[failing]]", "--resume-failed")...)
	assert.Equal(t, 4, b.code)
	assert.Equal(t, want, inFolder())

	// Another batch does not mix with it in silence.
	e = batch("-m", "Count {}", "docs/a.md")
	assert.Zero(t, e.code)
	assert.Equal(t, "qq: "+filepath.Join(w.dir, "r")+" also has results of another batch, which stay there\n", e.errors)
	assert.Equal(t, want, inFolder())

	// The files of a person are never replaced.
	e = w.run("batch", "-q", "--results", "docs", "-m", "Read {}", "docs/c.txt")
	assert.Equal(t, 2, e.code)
	assert.Equal(t, "qq: "+filepath.Join(w.dir, "docs", "c.txt")+" is there, and is no result of qq\n"+
		"  hint: give another folder with --results\n", e.errors)
	text, err = os.ReadFile(filepath.Join(w.dir, "docs", "c.txt"))
	require.NoError(t, err)
	assert.Equal(t, "x", string(text))
}

// TestBatchSaysWhy: stderr has the problem of each failed task, and a common hint only
// once.
func TestBatchSaysWhy(t *testing.T) {
	w, server := newServedWorld(t, batchScripts())
	w.file("tasks.txt", "[[failing]]\n[[failing]] again\nthree\n")
	host := strings.TrimPrefix(server.URL, "http://")
	e := w.run("batch", "tasks.txt", "-j1", "--no-bar")
	assert.Equal(
		t,
		"qq: task 1 (failed): Ollama at "+host+" answered 500: out of memory\n"+
			"  hint: the log of the Ollama server says more\n"+
			"qq: task 2 (failed): Ollama at "+host+" answered 500: out of memory\n",
		cutLast(e.errors),
	)

	w.set("QQ_RECURSION_DEPTH=2")
	e = w.run("batch", "tasks.txt", "--no-bar")
	assert.Equal(t, 4, e.code)
	assert.Contains(t, e.errors, "qq: task 1 (limit): Error: Maximum recursion depth (3) exceeded\nqq: 3 limit")
}

// cutLast is text without its last line.
func cutLast(text string) string {
	return text[:strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n')+1]
}

// TestBatchHalt: --halt decides when no more tasks start, and whether running ones end.
func TestBatchHalt(t *testing.T) {
	w, _ := newServedWorld(t, batchScripts())
	w.file("tasks.txt", "one\n[[failing]]\n[[slow]]\nfour\n")
	w.file("endless.txt", "[[never]]\n[[failing]]\nthree\n")
	w.file("many.txt", strings.Repeat("fine\n", 9)+strings.Repeat("[[failing]]\n", 3)+"last\n")
	const ok, failed, cancelled = task.Completed, task.Failed, task.Cancelled
	for args, want := range map[string][]task.Status{
		"-j1 tasks.txt":                    {ok, failed, ok, ok},
		"-j1 tasks.txt --halt soon":        {ok, failed, cancelled, cancelled},
		"-j1 tasks.txt --halt soon,fail=2": {ok, failed, ok, ok},
		"-j2 endless.txt --halt now":       {cancelled, failed, cancelled},
		"-j1 many.txt --halt soon,fail=10%": {ok, ok, ok, ok, ok, ok, ok, ok, ok, failed,
			cancelled, cancelled, cancelled},
		"-j1 many.txt --halt soon,fail=25%": {ok, ok, ok, ok, ok, ok, ok, ok, ok, failed, failed, failed, cancelled},
	} {
		e := w.run(append([]string{"batch", "-q", "--json"}, strings.Fields(args)...)...)
		assert.Equal(t, 4, e.code, e.errors)
		var got []task.Status
		for _, r := range e.documents(t) {
			got = append(got, r.Status)
		}
		assert.Equal(t, want, got, args)
	}
}

// TestBatchHaltsWhenEnoughIsDone: with success= and done=, a halted batch has done what it was to do. Its exit code is
// 0 although not all tasks were started; with done= only if none has failed.
func TestBatchHaltsWhenEnoughIsDone(t *testing.T) {
	w, _ := newServedWorld(t, batchScripts())
	w.file("tasks.txt", "one\n[[failing]]\n[[slow]]\nfour\n")
	w.file("race.txt", "[[never]]\none\n[[never]] too\nthree\n")
	const ok, failed, cancelled = task.Completed, task.Failed, task.Cancelled
	for args, want := range map[string]struct {
		code int
		all  []task.Status
	}{
		"-j1 tasks.txt --halt soon,success=1":  {0, []task.Status{ok, cancelled, cancelled, cancelled}},
		"-j1 tasks.txt --halt soon,success=2":  {0, []task.Status{ok, failed, ok, cancelled}},
		"-j1 tasks.txt --halt now,success=50%": {0, []task.Status{ok, failed, ok, cancelled}},
		"-j1 tasks.txt --halt now,success=4":   {4, []task.Status{ok, failed, ok, ok}},
		"-j1 tasks.txt --halt soon,done=1":     {0, []task.Status{ok, cancelled, cancelled, cancelled}},
		"-j1 tasks.txt --halt soon,done=50%":   {4, []task.Status{ok, failed, cancelled, cancelled}},
		"-j2 race.txt --halt now,success=1":    {0, []task.Status{cancelled, ok, cancelled, cancelled}},
		"-j2 race.txt --halt now,done=1":       {0, []task.Status{cancelled, ok, cancelled, cancelled}},
	} {
		e := w.run(append([]string{"batch", "-q", "--json"}, strings.Fields(args)...)...)
		assert.Equal(t, want.code, e.code, "%s: %s", args, e.errors)
		var got []task.Status
		for _, r := range e.documents(t) {
			got = append(got, r.Status)
		}
		assert.Equal(t, want.all, got, args)
	}
	e := w.run("batch", "-j1", "--no-bar", "--halt", "soon,success=1", "tasks.txt")
	assert.Zero(t, e.code)
	assert.Equal(t, "qq: halted: enough tasks succeeded, no more were started\n", cutLast(e.errors))
	e = w.run("batch", "--resume", "--no-bar", "tasks.txt")
	assert.Equal(t, 4, e.code)
	assert.Contains(t, e.errors, "qq: 3 completed, 1 failed, 1 of them from before in ")
}

// TestBatchOpensNoDatabaseFirst: a batch opens the database of the ledger only after its first
// children have started. Then it says whether the previous batch did not finish.
func TestBatchOpensNoDatabaseFirst(t *testing.T) {
	var database string
	var opened atomic.Bool
	w, _ := newServedWorld(t, standin.Reply(func(standin.Prompt) string {
		if _, err := os.Stat(database); err == nil {
			opened.Store(true)
		}
		return "x"
	}), batchScripts())
	database = ledger.Path(command.Environment(w.env).Get("QQ_HOME"))
	w.file("halts.txt", "one\n[[failing]]\nthree\n")
	w.file("tasks.txt", "one\ntwo\n")
	assert.Equal(t, 4, w.run("batch", "--bar", "-j1", "--halt", "soon", "halts.txt").code)
	assert.False(t, opened.Load())
	require.NoError(t, os.Remove(database)) // the journal of the next run is not indexed yet
	assert.Equal(t, 4, w.run("batch", "--no-bar", "-j1", "--halt", "soon", "halts.txt").code)
	e := w.run("batch", "--bar", "tasks.txt")
	assert.Zero(t, e.code)
	assert.False(t, opened.Load())
	assert.Regexp(t, `qq: the previous batch did not finish: --resume=[0-9a-f]{8} continues it\n`, e.errors)
	assert.FileExists(t, database)
}

// TestBatchDryRun: the tasks are printed, and nothing is asked of a model. A server that is away does not matter.
func TestBatchDryRun(t *testing.T) {
	w, server := newServedWorld(t)
	w.file("tasks.csv", "task,agent\none,coder\ntwo,\n")
	assert.Equal(t, "1\tcoder\tone\n2\tdefault\ttwo\n", w.run("batch", "--dry-run", "tasks.csv").out)
	assert.Equal(
		t,
		"{\"task\":\"one\",\"agent\":\"coder\"}\n{\"task\":\"two\",\"agent\":\"default\"}\n",
		w.run("batch", "--dry-run", "--json", "tasks.csv").out,
	)
	assert.Empty(t, server.Requests(""))

	w.file(
		"long.json",
		fmt.Sprintf(`[{"task":"Summarize it.","context":%q},{"task":"short"}]`, strings.Repeat("line of text\n", 8000)),
	)
	plain := w.run("batch", "--dry-run", "long.json").out
	lines := jsonLines(t, w.run("batch", "--dry-run", "--json", "long.json").out)
	require.Len(t, lines, 2)
	plan, _ := lines[0]["plan"].([]any)
	assert.Greater(t, len(plan), 2)
	for _, line := range plan {
		assert.Contains(t, plain, fmt.Sprintf("\t%s\n", line))
	}
	assert.NotContains(t, lines[1], "plan")
	assert.Zero(t, server.Count("/api/chat"))

	away := w.with("OLLAMA_HOST=127.0.0.1:1")
	const unknown = "how it would be cut is not known: no answer from Ollama at 127.0.0.1:1: connection refused"
	for _, model := range []string{"auto", "ollama:stand-in"} {
		e := away.run("batch", "--dry-run", "--model", model, "long.json")
		assert.Equal(t, 0, e.code)
		assert.Equal(t, "1\tdefault\tSummarize it.\n\t"+unknown+"\n2\tdefault\tshort\n", e.out)
		chosen := ""
		if model == "auto" {
			chosen = "qq: model auto: it is chosen when the batch runs\n"
		}
		assert.Equal(t, chosen, e.errors)
	}
	assert.Equal(t, []any{unknown}, jsonLines(t, away.run("batch", "--dry-run", "--json", "long.json").out)[0]["plan"])
	e := w.run("batch", "--dry-run", "--model", "ollama:none", "long.json")
	assert.Equal(t, 2, e.code, "the server is there, and has no such model")
}
