package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
	"qq/test/tinymodel"
)

// workRounds is how often two writers meet at one line.
const workRounds = 200

// workWriter plays an agent that counts up its own number in a line that another
// one counts in too. In each round both have read the line before either edits
// it, so that they edit what both have seen.
type workWriter struct {
	t      *testing.T
	name   string
	meet   chan struct{} // where both meet: one sends, one receives
	phase  string
	round  int
	seen   string
	lost   []int    // rounds in which the first attempt failed
	failed []string // what those attempts were answered
}

func (w *workWriter) next(ctx context.Context, k workTalk) api.Message {
	answer := k.last().Content
	switch w.phase {
	case "first reading":
		w.seen = answer
		w.wait(ctx) // both have read
		return w.edit("first attempt")
	case "first attempt":
		if strings.HasPrefix(answer, "Error: ") {
			w.lost, w.failed = append(w.lost, w.round), append(w.failed, answer)
			return w.read("second reading")
		}
		w.round++
	case "second reading":
		w.seen = answer
		return w.edit("second attempt")
	case "second attempt":
		assert.False(w.t, strings.HasPrefix(answer, "Error: "), "%s, round %d: %s", w.name, w.round, answer)
		w.round++
	}
	if w.round == workRounds {
		return api.Message{Role: "assistant", Content: "Counted."}
	}
	w.wait(ctx) // both have done the round before
	return w.read("first reading")
}

func (w *workWriter) wait(ctx context.Context) {
	select {
	case w.meet <- struct{}{}:
	case <-w.meet:
	case <-ctx.Done():
	}
}

func (w *workWriter) read(phase string) api.Message {
	w.phase = phase
	return workAsk(workCall("read_file", "path", "shared.txt"))
}

func (w *workWriter) edit(phase string) api.Message {
	w.phase = phase
	old := regexp.MustCompile(`a=\d+ b=\d+\.`).FindString(w.seen)
	var a, b int
	_, err := fmt.Sscanf(old, "a=%d b=%d.", &a, &b)
	assert.NoError(w.t, err, w.seen)
	if w.name == "a" {
		a++
	} else {
		b++
	}
	return workAsk(workCall("edit_file", "path", "shared.txt", "old_text", old, "new_text",
		fmt.Sprintf("a=%d b=%d.", a, b)))
}

// TestWritersRace: two processes edit the same line at the same moment, again
// and again. Of each two edits one succeeds; the other is told what is there now,
// reads again, and tries again. Nothing that either wrote is lost.
func TestWritersRace(t *testing.T) {
	meet := make(chan struct{})
	a, b := &workWriter{t: t, name: "a", meet: meet}, &workWriter{t: t, name: "b", meet: meet}
	m := workPlay(t, map[string]workAgent{
		"a": a.next, "b": b.next,
		"lead": workSteps(workDo(workCall("run_parallel_tasks", "tasks", []any{
			map[string]any{"agent": "writer", "task": "Count. [[a]]"},
			map[string]any{"agent": "writer", "task": "Count. [[b]]"},
		})), workText("Both have counted.")),
	})
	w := newWorld(t, m.addr, played, "QQ_PLAN=off") // nothing else lets them meet
	w.file(".qq/agents/writer.md",
		"---\nname: writer\ndescription: counts\ntools: [read_file, edit_file]\nmax_turns: 1000\n---\nYou count.\n")
	shared := w.file("shared.txt", "begin\na=0 b=0.\nend\n")
	e := w.qq("Count. [[lead]]", "--auto-approve", "--output-format", "stream-json")
	require.Equal(t, 0, e.code)

	both := slices.Concat(a.lost, b.lost)
	slices.Sort(both)
	want := make([]int, workRounds)
	for i := range want {
		want[i] = i
	}
	assert.Equal(t, want, both, "in each round exactly one first attempt failed")
	for _, answer := range slices.Concat(a.failed, b.failed) {
		assert.Regexp(t, `old_text is not there: the nearest is .*line 2(?s:.*)a=\d+ b=\d+\.`, answer)
	}
	t.Logf("a lost %d rounds, b lost %d", len(a.lost), len(b.lost))
	content, err := os.ReadFile(shared)
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("begin\na=%d b=%d.\nend\n", workRounds, workRounds), string(content))

	good, bad := workEdits(t, e.stdout)
	assert.Equal(t, 2*workRounds, good, "edits that the events tell of")
	assert.Equal(t, workRounds, bad, "edits that failed, as the events tell")
}

// workEdits counts the calls of edit_file that ended well and ended badly.
func workEdits(t *testing.T, stream string) (good, bad int) {
	t.Helper()
	for line := range strings.Lines(stream) {
		var e struct {
			Type, Tool string
			Failed     bool
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		switch {
		case e.Type != "tool_end" || e.Tool != "edit_file":
		case e.Failed:
			bad++
		default:
			good++
		}
	}
	return good, bad
}

// Models of two writers that do not read but for markers: what the other one
// wrote into the file tells them that they have come second.
const (
	workWriterA = "work-writer-a"
	workWriterB = "work-writer-b"
	workPairs   = 20
)

// workWriterModel says what the writer own says, who shares a file with other.
func workWriterModel(name, own, other string) ollamatest.Model {
	edit := func(old, new string) string {
		return fmt.Sprintf(`<tool_call>{"name": "edit_file", "arguments": {"path": "shared.txt", "old_text": %q, `+
			`"new_text": %q}}</tool_call>`, old, new)
	}
	// A server may hand on arguments in any order: each call has one marker at most.
	mine, theirs := fmt.Sprintf("%s was here [[%s]]", own, own), other+" was here"
	spec := ollamatest.Spec(
		tinymodel.Script{Start: "[[write]]", Text: edit("nobody was here", mine)},
		// It stands in the answer to an edit that came too late.
		tinymodel.Script{Start: "[[" + other + "]]",
			Text: `<tool_call>{"name": "read_file", "arguments": {"path": "shared.txt"}}</tool_call>`},
		tinymodel.Script{Start: "[[end]]", Text: edit(theirs, mine+" and "+theirs)},
		tinymodel.Script{Start: "[[" + own + "]]", Text: "Written."},
	)
	spec.Context = 8192
	return ollamatest.Model{Name: name, Spec: spec, Template: template}
}

// TestWritersOllama is the same with a server and models: pairs of processes,
// each with a file of its own.
func TestWritersOllama(t *testing.T) {
	s := house.server(t, "1")
	require.NoError(t, s.Create(t.Context(), workWriterModel(workWriterA, "anna", "bert")))
	require.NoError(t, s.Create(t.Context(), workWriterModel(workWriterB, "bert", "anna")))
	w := newWorld(t, s.URL.Host, workWriterA)
	for agent, model := range map[string]string{"anna": workWriterA, "bert": workWriterB} {
		w.file(".qq/agents/"+agent+".md",
			fmt.Sprintf("---\nname: %s\ndescription: writes\ntools: [read_file, edit_file]\nmodel: ollama:%s\n---\n"+
				"You write.\n", agent, model))
	}
	var tasks []map[string]string
	for i := range workPairs {
		dir := fmt.Sprintf("pair%d", i)
		// The marker stands alone at the end: a part of the file that is near the
		// text of an edit does not show it.
		w.file(filepath.Join(dir, "shared.txt"), "nobody was here\n"+strings.Repeat("\n", 10)+"[[end]]\n")
		for _, agent := range []string{"anna", "bert"} {
			tasks = append(tasks, map[string]string{"agent": agent, "task": "Write. [[write]]", "working_dir": dir})
		}
	}
	list, err := json.Marshal(tasks)
	require.NoError(t, err)
	e := w.qq("batch", "-j", "2", "--no-bar", "--auto-approve", "--output-format", "stream-json",
		w.file("tasks.json", string(list)))
	require.Equal(t, 0, e.code)
	for i := range workPairs {
		content, err := os.ReadFile(filepath.Join(w.work, fmt.Sprintf("pair%d", i), "shared.txt"))
		require.NoError(t, err)
		line, _, _ := strings.Cut(string(content), "\n")
		assert.Contains(t, []string{
			"anna was here [[anna]] and bert was here [[bert]]", "bert was here [[bert]] and anna was here [[anna]]",
		}, line)
	}
	good, bad := workEdits(t, e.stdout)
	assert.Equal(t, 2*workPairs, good)
	assert.Equal(t, workPairs, bad, "one of each pair came second")
}
