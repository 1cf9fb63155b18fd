package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
		"-m {2},{1} -i people.tsv":             "3,Bob\n",
		"-m x={1} a.json a.csv":                "x=a.json\nx=a.csv\n",
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
	assert.Equal(t, "x 1\nx 2\nx 3\n", w.pipe("1\n2\n3\n", "batch", "-q", "-m", "x {1}").out)
	assert.Equal(t, "> one\n> two\n", w.pipe("one\ntwo\n", "batch", "-q", "-m", "> {}").out)
}

// TestBatchAsParallel: inputs as GNU parallel knows them, through to the answers. The model says what it is told.
func TestBatchAsParallel(t *testing.T) {
	w, _ := newServedWorld(t)
	w.file("sub/a.b.txt", "")
	w.file("lines", "1\n2\n")
	w.file("rows.jsonl", "{\"name\":\"Ada\",\"more\":{\"x\":[1]}}\n{\"name\":\"Bob\",\"more\":null}\n")
	for args, want := range map[string]string{
		"-m {/}:{//}:{.}:{/.} sub/a.b.txt":            "a.b.txt:sub:sub/a.b:a.b\n",
		"-m {1}-{2} ::: a b ::: c d":                  "a-c\na-d\nb-c\nb-d\n",
		"-m {1}-{2} ::: a b :::+ c d":                 "a-c\nb-d\n",
		"-m {1}-{2} :::: lines ::: --x -X":            "1---x\n1--X\n2---x\n2--X\n",
		"-m {1}-{2} ::: a :::: lines":                 "a-1\na-2\n",
		"-m {1}-{2} ::: a ::::+ lines":                "a-1\n",
		"::: hello you":                               "hello\nyou\n",
		"-n2 -m {2}{1}:{} ::: a b c d":                "ba:a b\ndc:c d\n",
		"-n 3 -m {} sub sub/a.b.txt lines rows.jsonl": "sub sub/a.b.txt lines\nrows.jsonl\n",
		"-m {name}:{more} -i rows.jsonl":              "Ada:{\"x\":[1]}\nBob:\n",
		"-j1 -m {%} ::: a b":                          "1 a\n1 b\n",
	} {
		e := w.run(append([]string{"batch", "-q"}, strings.Fields(args)...)...)
		assert.Equal(t, want, e.out, "%s: %s", args, e.errors)
	}
	for args, c := range map[string][2]string{
		"-0 -m {/}":                      {"x/a\x00b\x00", "a\nb\n"},
		"--colsep ;; -m {2}":             {"x/a;;b\nc;;d", "b\nd\n"},
		"-m {a}+{b}":                     {"a,b\n1,2\n", "1+2\n"},
		"-m {name}":                      {"{\"name\":\"Ada\"}\n", "Ada\n"},
		"-m {1}{2} :::: lines -":         {"x\ny\n", "1x\n1y\n2x\n2y\n"},
		"-m {{.Name}}-{}":                {"a\n", "{{.Name}}-a\n"},
		"--input-format lines":           {"## a\n\ntext\n\n## b\n\n", "## a\ntext\n## b\n"},
		"-m {#}={} -n2 --no-bar":         {"a\nb\nc\n", "1=a b\n2=c\n"},
		"-m {name} --input-format=jsonl": {"{\"name\":\"Ada\"}\n", "Ada\n"},
	} {
		e := w.pipe(c[0], append([]string{"batch", "-q"}, strings.Fields(args)...)...)
		assert.Equal(t, c[1], e.out, "%s: %s", args, e.errors)
	}
}

// TestBatchShuffled: tasks run in a random order, which a batch that is resumed repeats.
func TestBatchShuffled(t *testing.T) {
	w, server := newServedWorld(t)
	args := []string{"batch", "-q", "-j1", "--shuf", "-m", "{#} {}", ":::",
		"a", "b", "c", "d", "e", "f", "g", "h", "fails"}
	whole := w.run(args...)
	require.Zero(t, whole.code, whole.errors)
	lines := strings.Split(strings.TrimSpace(whole.out), "\n")
	require.Len(t, lines, 9)
	var letters []string
	for i, line := range lines {
		number, letter, _ := strings.Cut(line, " ")
		assert.Equal(t, fmt.Sprint(i+1), number)
		letters = append(letters, letter)
	}
	assert.ElementsMatch(t, args[7:], letters)
	assert.NotEqual(t, args[7:], letters)
	asked := server.Count("/api/chat")
	again := w.run(slices.Insert(slices.Clone(args), 1, "--resume")...)
	assert.Equal(t, whole.out, again.out)
	assert.Equal(t, asked, server.Count("/api/chat"), "nothing was run again")
}

// TestBatchSlots: {%} is a number from 1 to --jobs, filled in when the task starts.
func TestBatchSlots(t *testing.T) {
	w, _ := newServedWorld(t)
	e := w.run("batch", "-q", "-j3", "-m", "number {%} of {}", ":::", "a", "b", "c", "d", "e", "f", "g", "h", "i")
	require.Zero(t, e.code, e.errors)
	lines := strings.Split(strings.TrimSpace(e.out), "\n")
	require.Len(t, lines, 9)
	for _, line := range lines {
		assert.Regexp(t, "^number [123] of [a-i]$", line)
	}
}

// TestBatchBrokenName: a name that is not UTF-8 fails its own task, in order; the batch goes on, and can be resumed.
func TestBatchBrokenName(t *testing.T) {
	w, server := newServedWorld(t)
	for _, name := range []string{"a", "b\xff", "c"} {
		w.file(name, "")
	}
	args := []string{"batch", "-m", "{}", "a", "b\xff", "c"}
	e := w.run(append(args, "--joblog", "log")...)
	assert.Equal(t, 4, e.code)
	assert.Equal(t, "a\n[task 2 failed: its input is not valid UTF-8]\nc\n", e.out)
	assert.Contains(t, e.errors, "qq: task 2 (failed): its input is not valid UTF-8\n  hint: convert it")
	log, err := os.ReadFile(filepath.Join(w.dir, "log"))
	require.NoError(t, err)
	rows := strings.Split(string(log), "\n")
	assert.Regexp(t, `^2\t.*\t1\t0\tb\\+xff$`, rows[2])
	assert.Contains(t, w.run("runs").out, "3/3 done, 1 failed")

	asked := server.Count("/api/chat")
	e = w.run(append(args, "--resume-failed", "-q")...)
	assert.Equal(t, "a\n[task 2 failed: its input is not valid UTF-8]\nc\n", e.out)
	assert.Equal(t, 4, e.code)
	assert.Equal(t, asked, server.Count("/api/chat"), "a task that cannot be run asks no model")
	e = w.run(append(args, "--dry-run")...)
	assert.Equal(t, "1\tdefault\ta\n2\tdefault\tb\\xff\n\tit will fail: its input is not valid UTF-8; "+
		"convert it, for example: iconv -f LATIN1 -t UTF-8; rename a file that is called so\n3\tdefault\tc\n", e.out)
}

// TestGroupsAreRecognized: a task of several files is run again when any of them has changed.
func TestGroupsAreRecognized(t *testing.T) {
	w, server := newServedWorld(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.file(name, name)
	}
	args := []string{"batch", "-q", "-n2", "-m", "{}", "a", "b", "c", "d"}
	require.Zero(t, w.run(args...).code)
	asked := server.Count("/api/chat")
	w.file("d", "changed")
	e := w.run(append(args, "--resume")...)
	assert.Equal(t, "a b\nc d\n", e.out, e.errors)
	assert.Equal(t, asked+1, server.Count("/api/chat"))
}

// TestLargeTask: a task may have 2 MB, whichever way it comes.
func TestLargeTask(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it")
	}
	w := newWorld(t)
	text := "Summarize: Planes fly in the air. " + strings.Repeat(" ", 2_000_000) + "Boats float on the lake."
	w.file("task.txt", text)
	for _, args := range [][]string{{"-m", text}, {"-f", "task.txt"}, {"batch", "task.txt"}} {
		e := w.run(append(args, "-q")...)
		assert.Zero(t, e.code, e.errors)
		assert.Contains(t, e.out, "Boats float on the lake.")
	}
	e := w.pipe(text, "-q", "-m", "-")
	assert.Zero(t, e.code, e.errors)
	e = w.run("-q", "-m", strings.Repeat("x", 17<<20))
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.errors, "task is 17825792 bytes long, at most 16777216")
}

// TestLargeContext: a run with 20 MB on stdin is recorded, without the middle of the text.
func TestLargeContext(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it")
	}
	w := newWorld(t)
	text := "The text begins. " + strings.Repeat("x", 20_000_000) + " The text ends."
	e := w.pipe(text, "Summarize it in two sentences")
	assert.NotContains(t, e.errors, "not recorded")
	list := w.run("sessions", "list").out
	assert.Contains(t, list, "Summarize it in two sentences")
	names, err := filepath.Glob(filepath.Join(w.home, "qq", "sessions", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	shown := w.run("sessions", "show", strings.TrimSuffix(filepath.Base(names[0]), ".jsonl")).out
	for _, part := range []string{
		"The text begins.", "bytes left out: too long for the transcript]", "The text ends.",
	} {
		assert.Contains(t, shown, part)
	}
	assert.Contains(t, w.run("runs").out, "Summarize it in two sentences")
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
	assert.NoFileExists(t, filepath.Join(w.dir, "each", "failing.txt"))
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
	const halted = `\[task %d not started: a task failed\]`
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

// TestResumeOfChangedValues: an answer about a file that has changed since is not taken from before, however the file
// was named.
func TestResumeOfChangedValues(t *testing.T) {
	w, _ := newServedWorld(t)
	w.file("list", "c.md\n")
	for _, input := range []string{"c.md", "-i list", "::: c.md", ":::: list", "--colsep : ::: x:c.md",
		"::: c.md ::: x"} {
		w.file("c.md", "old")
		args := append([]string{"batch", "-m", "Summarize {}"}, strings.Fields(input)...)
		require.Zero(t, w.run(args...).code, input)
		resume := slices.Insert(slices.Clone(args), 1, "--resume")
		e := w.run(resume...)
		assert.Contains(t, e.errors, "1 of them from before", input)
		w.file("c.md", "new")
		assert.NotContains(t, w.run(resume...).errors, "from before", input)
	}
}

// TestResultsWithNewNames: a batch that is resumed with one more file leaves no second result of the same input, and
// the results of another batch stay, also if their tasks begin in the same way.
func TestResultsWithNewNames(t *testing.T) {
	w, _ := newServedWorld(t, batchScripts())
	for _, name := range []string{"docs/x.md", "lib/x.md", "a/y.md"} {
		w.file(name, "x")
	}
	results := func() (names []string) {
		all, err := filepath.Glob(filepath.Join(w.dir, "r", "*"))
		require.NoError(t, err)
		for _, path := range all {
			names = append(names, filepath.Base(path))
		}
		return names
	}
	require.Zero(t, w.run("batch", "-q", "--results", "r", "-m", "Other {}", "a/y.md").code)
	w.file("r/note.json", "{}")
	require.Zero(t, w.run("batch", "-q", "--results", "r", "-m", "Read {}", "docs/x.md").code)
	e := w.run("batch", "--results", "r", "-m", "Read {}", "docs/x.md", "lib/x.md", "--resume")
	require.Zero(t, e.code, e.errors)
	assert.Contains(t, e.errors, "1 of them from before")
	assert.Equal(t, []string{"docs-x.md.json", "docs-x.md.txt", "lib-x.md.json", "lib-x.md.txt", "note.json",
		"y.md.json", "y.md.txt"}, results())
	e = w.run("batch", "-q", "--results", "r", "-m", "Read {}", "lib/x.md", "a/y.md", "--resume")
	require.Zero(t, e.code, e.errors)
	assert.Equal(t, []string{"docs-x.md.json", "docs-x.md.txt", "note.json", "x.md.json", "x.md.txt", "y.md.json",
		"y.md.txt"}, results())

	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "r")))
	same := strings.Repeat("The beginning is the same. ", 5)
	w.file("a.txt", same+"alpha")
	w.file("b.txt", same+"beta")
	require.Zero(t, w.run("batch", "-q", "--results", "r", "a.txt").code)
	alpha := results()
	require.Zero(t, w.run("batch", "-q", "--results", "r", "b.txt").code)
	both := results()
	require.Len(t, both, 4)
	require.Subset(t, both, alpha)
	e = w.run("batch", "--results", "r", "--resume", "b.txt")
	require.Zero(t, e.code, e.errors)
	assert.Contains(t, e.errors, "1 of them from before")
	assert.Equal(t, both, results())
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

	// Of a run that is halted, nothing is left but what it did itself. What failed has no answer.
	failed := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return strings.HasSuffix(s, ".txt") })
	e := batch(append(all, "-m", "Read again {} [[failing]]", "--halt", "soon", "-j1")...)
	assert.Equal(t, 4, e.code)
	assert.Equal(t, []string{"a.md.json"}, inFolder(), "what was not started has none, and no older one")
	b := batch(append(all, "-m", "Read again {} [[failing]]", "--resume-failed")...)
	assert.Equal(t, 4, b.code)
	assert.Equal(t, failed, inFolder())

	// Another batch does not mix with it in silence.
	e = batch("-m", "Count {}", "docs/a.md")
	assert.Zero(t, e.code)
	assert.Equal(t, "qq: "+filepath.Join(w.dir, "r")+" also has results of another batch, which stay there\n", e.errors)
	assert.Equal(t, slices.Sorted(slices.Values(append(failed, "a.md.txt"))), inFolder())

	// The files of a person are never replaced.
	e = w.run("batch", "-q", "--results", "docs", "-m", "Read {}", "docs/c.txt")
	assert.Equal(t, 2, e.code)
	assert.Equal(t, "qq: "+filepath.Join(w.dir, "docs", "c.txt")+" is there, and is no result of qq\n"+
		"  hint: give another folder with --results\n", e.errors)
	text, err := os.ReadFile(filepath.Join(w.dir, "docs", "c.txt"))
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
	assert.Contains(t, e.errors, "qq: task 1 (limit): Error: Maximum recursion depth (3) exceeded\n"+
		"qq: 3 limit")
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
	assert.Contains(t, e.errors, "qq: 3 completed, 1 failed, 1 of these 4 from before in ")
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
	assert.Regexp(t, `qq: the previous batch with such tasks \(\d/\d done, started [-0-9]{10} [0-9:]{5}\) `+
		`did not complete: --resume-failed=[0-9a-f]{8} continues it\n`, e.errors)
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
