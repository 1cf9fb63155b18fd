package scenario

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
)

// endureDocument is a text of n paragraphs of some 100 characters.
func endureDocument(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b,
			"Paragraph %d tells of matter %d, of which nothing else in this text tells, and that at some length.\n\n",
			i, i)
	}
	return b.String()
}

// TestLongDocument: a text that does not fit is cut, its parts are summarised by
// children, and the answer is made of what they say. That is said, not hidden.
func TestLongDocument(t *testing.T) {
	m := endurePlay(t, func(_ context.Context, k endureTalk) api.Message {
		said := 0
		for _, message := range k.messages {
			said += len(message.Content)
		}
		assert.Less(t, said/4, 4096, "a prompt that does not fit")
		if strings.Contains(k.messages[1].Content, "Summarize this, please.") && k.said("system",
			"You summarise one text") {
			return endureSay("Some matter.")
		}
		return endureSay("All matters.")
	})
	m.room = 4096
	document := endureDocument(400)

	t.Run("dry run", func(t *testing.T) {
		w := newWorld(t, m.addr, played)
		e := w.start(document, "Summarize this, please.", "--dry-run").wait()
		assert.Equal(t, 0, e.code, "exit code")
		assert.Regexp(t, `(?m)^  map: \d+ parts, each by summarizer, in at most about [\d,]+ words$`, e.stdout)
		assert.Regexp(t, `(?m)^  part 2: lines \d+-\d+, about [\d,]+ tokens`, e.stdout)
		assert.Empty(t, w.spawned())
		assert.Zero(t, m.requests())
		w.runs("list")
		assert.Empty(t, w.runs("list"), "nothing was run")
	})
	t.Run("run", func(t *testing.T) {
		w := newWorld(t, m.addr, played)
		e := w.start(document, "Summarize this, please.", "--json").wait()
		assert.Equal(t, 0, e.code, "exit code")
		r := endureParse(t, e.stdout)
		assert.Equal(t, "All matters.", *r.Output)
		children := w.spawned()
		assert.Greater(t, len(children), 2)
		for _, child := range children {
			assert.Equal(t, "summarizer depth=1", child)
		}
		warning := fmt.Sprintf("the text was too long for the model: it was summarised in %d parts before it was "+
			"answered about", len(children))
		assert.Contains(t, r.Warnings, warning)
		assert.Contains(t, e.stderr, fmt.Sprintf("map: %d parts", len(children)))
		tree := w.runs("tree", r.ExecutionID)
		assert.Len(t, tree, len(children)+1)
		whole := []string{}
		for i := range 400 {
			if !m.wasAsked(fmt.Sprintf("Paragraph %d tells of matter %d,", i, i)) {
				whole = append(whole, fmt.Sprint(i))
			}
		}
		assert.Empty(t, whole, "paragraphs that nobody read")
	})
	t.Run("batch", func(t *testing.T) {
		w := newWorld(t, m.addr, played)
		w.file("tasks.jsonl", fmt.Sprintf("{\"task\":\"Summarize this, please.\",\"context\":%q}\n", document))
		e := w.qq("batch", "--no-bar", "--output-format", "jsonl", "tasks.jsonl")
		assert.Equal(t, 0, e.code, "exit code")
		r := endureLines(t, e)[0]
		assert.Equal(t, "All matters.", *r.Output)
		assert.Contains(t, strings.Join(r.Warnings, "\n"), "the text was too long for the model")
		assert.Contains(t, w.spawned(), "summarizer depth=2")
		plan := w.qq("batch", "--dry-run", "tasks.jsonl")
		assert.Contains(t, plan.stdout, "each by summarizer")
	})
}

// wasAsked reports whether part was in any request so far.
func (m *endureModel) wasAsked(part string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.asked {
		if k.said("user", part) {
			return true
		}
	}
	return false
}

// TestLongDocumentPartFails: without one of the parts there is no answer.
func TestLongDocumentPartFails(t *testing.T) {
	m := endurePlay(t, func(_ context.Context, k endureTalk) api.Message {
		switch {
		case k.said("user", "tells of matter 150,"):
			return endureSay("")
		case k.said("system", "You summarise one text"):
			return endureSay("Some matter.")
		}
		assert.Fail(t, "nobody should be asked for the whole")
		return endureSay("All matters.")
	})
	m.room = 4096
	w := newWorld(t, m.addr, played)
	e := w.start(endureDocument(400), "Summarize this, please.", "--json").wait()
	assert.Equal(t, 1, e.code, "exit code")
	r := endureParse(t, e.stdout)
	assert.Equal(t, "empty_answer", r.Status)
	assert.Empty(t, *r.Output)
	assert.Regexp(t,
		`^summarise the document: 1 of \d+ summaries failed: part \d+ of \d+ \(lines .*\): the agent gave an `+
			`empty answer$`, *r.Error)
	assert.Contains(t, e.stderr, *r.Error)
	assert.Contains(t, e.stderr, "hint: ")
}

// TestLongDocumentInTurn: who hands out the parts lets those go first that
// summarise them, also when one request at a time may be sent.
func TestLongDocumentInTurn(t *testing.T) {
	m := endurePlay(t, func(context.Context, endureTalk) api.Message { return endureSay("Matters.") })
	m.room = 4096
	w := newWorld(t, m.addr, played, "QQ_MAX_PARALLEL=1", "QQ_CHILD_TIMEOUT=5")
	w.file("tasks.jsonl", fmt.Sprintf("{\"task\":\"Summarize this, please.\",\"context\":%q}\n", endureDocument(100)))
	e := w.qq("batch", "--no-bar", "--output-format", "jsonl", "tasks.jsonl")
	require.Equal(t, 0, e.code, "exit code")
	assert.Equal(t, "Matters.", *endureLines(t, e)[0].Output)
}

// TestLongDocumentOfARealServer: the same with a server that counts tokens itself,
// and would cut what is too long. To its model each byte is a token, so the text is
// one of which others have as many.
func TestLongDocumentOfARealServer(t *testing.T) {
	s := house.server(t, "1")
	spec := scripts()
	spec.Context = 6144
	require.NoError(t, s.Create(t.Context(), ollamatest.Model{Name: "medium", Spec: spec, Template: template}))
	w := newWorld(t, s.URL.Host, "medium")
	w.file(".qq/agents/reader.md", "---\nname: reader\ndescription: reads\ntools: [read_file]\n---\nYou read.\n")
	e := w.start(strings.Repeat("a1b2c3d4e5f6g7h8i9\n", 300), "Summarize it. [[poem]]", "--agent", "reader",
		"--json").wait()
	require.Equal(t, 0, e.code, "exit code")
	r := endureParse(t, e.stdout)
	assert.Equal(t, poem, *r.Output)
	children := len(w.spawned())
	assert.Greater(t, children, 1)
	assert.Contains(t, r.Warnings,
		fmt.Sprintf("the text was too long for the model: it was summarised in %d parts before it was answered about",
			children))
	assert.Greater(t, w.runs("tree", r.ExecutionID)[1].Depth, 0)
}
