package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// endureReader does what its task says with the word behind it: read a file, list
// files, write one; it answers with the result.
func endureReader(ctx context.Context, k endureTalk) api.Message {
	how, what, _ := strings.Cut(k.text(), " ")
	if k.turn() > 0 {
		return endureSay(k.text() + ": " + k.last().Content)
	}
	switch how {
	case "Read":
		return workAsk(workCall("read_file", "path", what))
	case "List":
		return workAsk(workCall("list_files", "pattern", what))
	case "Write":
		return workAsk(workCall("write_file", "path", what, "content", "written"))
	}
	return endureEcho(ctx, k)
}

// endureCached are the tasks whose results are marked as cached, and the answers
// of all of them.
func endureCached(t *testing.T, e ended) (cached, answers []string) {
	t.Helper()
	for _, r := range endureLines(t, e) {
		if r.Cached {
			cached = append(cached, r.Task)
			assert.Zero(t, r.Usage.InputTokens, "tokens of what was not run")
		}
		answers = append(answers, *r.Output)
	}
	return cached, answers
}

// TestCacheByContent: a second run asks the model nothing; of many files those
// that have changed are read again, each once.
func TestCacheByContent(t *testing.T) {
	m := endurePlay(t, endureReader)
	w := newWorld(t, m.addr, played)
	args := []string{"--cache", "--agent", "explorer", "--output-format", "jsonl", "-m", "Read {}"}
	var tasks []string
	for i := range 12 {
		name := fmt.Sprintf("%02d.txt", i)
		w.file(name, "text of "+name)
		args, tasks = append(args, name), append(tasks, "Read "+name)
	}
	twice := func(tasks ...string) []string { return append(slices.Clone(tasks), tasks...) } // two requests each
	first := m.batch(w, 0, twice(tasks...), args...)
	cached, answers := endureCached(t, first)
	assert.Empty(t, cached)
	assert.Contains(t, answers[4], "text of 04.txt")

	cached, again := endureCached(t, m.batch(w, 0, nil, args...))
	assert.Equal(t, tasks, cached)
	assert.Equal(t, answers, again)

	for _, i := range []int{0, 5, 11} {
		w.file(fmt.Sprintf("%02d.txt", i), "another text")
	}
	changed := []string{tasks[0], tasks[5], tasks[11]}
	cached, again = endureCached(t, m.batch(w, 0, twice(changed...), args...))
	assert.Len(t, cached, 9)
	assert.Contains(t, again[5], "another text")
	assert.Equal(t, answers[4], again[4])
	m.batch(w, 0, nil, args...)
	w.file("05.txt", "text of 05.txt") // as it was; what is newest counts
	m.batch(w, 0, twice(tasks[5]), args...)

	without := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--cache" })
	m.batch(w, 0, twice(tasks...), without...)
}

// TestCacheOfLists: an answer that rests on a list of files holds until one of
// them comes or goes.
func TestCacheOfLists(t *testing.T) {
	m := endurePlay(t, endureReader)
	w := newWorld(t, m.addr, played)
	w.file("docs/a.md", "A")
	args := []string{"--cache", "--agent", "explorer", "--output-format", "jsonl",
		w.file("tasks.txt", "List docs/*.md\n")}
	asked := []string{"List docs/*.md", "List docs/*.md"}
	m.batch(w, 0, asked, args...)
	m.batch(w, 0, nil, args...)
	w.file("elsewhere/b.md", "B")
	m.batch(w, 0, nil, args...)
	w.file("docs/b.md", "B")
	_, answers := endureCached(t, m.batch(w, 0, asked, args...))
	assert.Contains(t, answers[0], "b.md")
}

// TestCacheOfWhom: the agent and the model count, and what is asked.
func TestCacheOfWhom(t *testing.T) {
	m := endurePlay(t, endureReader)
	w := newWorld(t, m.addr, played)
	w.file("a.txt", "A")
	agent := func(prompt string) {
		w.file(".qq/agents/reader.md", "---\nname: reader\ndescription: reads\ntools: [read_file]\n---\n"+prompt+"\n")
	}
	agent("You read.")
	file, asked := w.file("tasks.txt", "Read a.txt\n"), []string{"Read a.txt", "Read a.txt"}
	args := []string{"--cache", "--agent", "reader", file}
	m.batch(w, 0, asked, args...)
	m.batch(w, 0, nil, args...)
	m.batch(w, 0, asked, append(args, "--model", "ollama:other")...)
	m.batch(w, 0, nil, append(args, "--model", "ollama:other")...)
	m.batch(w, 0, asked, append(args, "--agent", "explorer")...)
	agent("You read well.")
	m.batch(w, 0, asked, args...)
	m.batch(w, 0, nil, args...)
	m.batch(w, 0, nil, append(args, "-o", w.dir+"/out", "-j", "1")...)
	w.file("schema.json", `{"type":"object"}`)
	m.batch(w, 4, append(asked, asked...), append(args, "--schema", "schema.json")...) // sent back twice
}

// TestNeverCached: what an agent does that changes something is done again, and so
// is what failed.
func TestNeverCached(t *testing.T) {
	m := endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
		if k.text() == "Fail" {
			return endureSay("")
		}
		return endureReader(ctx, k)
	})
	w := newWorld(t, m.addr, played)
	w.file("a.txt", "A")
	for _, tt := range []struct {
		agent, task string
		requests    int
		code        int
	}{
		{"coder", "Write b.txt", 2, 0},
		{"coder", "Read a.txt", 2, 0}, // it could have written
		{"explorer", "Fail", 1, 4},
	} {
		t.Run(tt.agent+" "+tt.task, func(t *testing.T) {
			file := w.file("tasks.txt", tt.task+"\n")
			for range 2 {
				e := m.batch(w, tt.code, slices.Repeat([]string{tt.task}, tt.requests), "--cache", "--auto-approve",
					"--agent", tt.agent, "--output-format", "jsonl", file)
				cached, _ := endureCached(t, e)
				assert.Empty(t, cached)
			}
		})
	}
	require.FileExists(t, w.work+"/b.txt")
}

// TestCachedBatch: results that are not run anew belong to the batch that they are
// printed for, which is complete for the record too and has nothing to resume.
func TestCachedBatch(t *testing.T) {
	m := endurePlay(t, endureReader)
	w := newWorld(t, m.addr, played)
	w.file("a.txt", "A")
	args := []string{"--agent", "explorer", "--output-format", "jsonl", w.file("tasks.txt", "Read a.txt\nRead a.txt\n")}
	first := endureLines(t, m.batch(w, 0, slices.Repeat([]string{"Read a.txt"}, 4), append(args, "--cache")...))
	again := endureLines(t, m.batch(w, 0, nil, append(args, "--cache")...))
	assert.NotEqual(t, first[0].BatchID, again[0].BatchID)
	for _, r := range again {
		assert.Equal(t, again[0].BatchID, r.BatchID)
		assert.Zero(t, r.Attempts)
	}
	list := w.runs("list")
	require.Len(t, list, 2)
	for _, batch := range list {
		assert.Equal(t, map[string]int{"completed": 2}, batch.Counts)
	}
	resumed := endureLines(t, m.batch(w, 0, nil, append(args, "--resume")...))
	assert.Equal(t, again[0].BatchID, resumed[0].BatchID)
}
