package scenario

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLongDocumentsOneAtATime: several texts that are too long, and one request at
// a time. Nobody keeps a place at the server while others work for it.
func TestLongDocumentsOneAtATime(t *testing.T) {
	m := endurePlay(t, func(context.Context, endureTalk) api.Message { return endureSay("Matters.") })
	m.room = 4096
	w := newWorld(t, m.addr, played, "QQ_CHILD_TIMEOUT=30")
	line := fmt.Sprintf("{\"task\":\"Summarize this, please.\",\"context\":%q}\n", endureDocument(200))
	w.file("tasks.jsonl", strings.Repeat(line, 3))
	e := w.qq("batch", "--no-bar", "-j", "1", "--output-format", "jsonl", "tasks.jsonl")
	assert.Equal(t, 0, e.code, "exit code")
	list := endureLines(t, e)
	require.Len(t, list, 3)
	for _, r := range list {
		assert.Equal(t, "Matters.", *r.Output)
	}
}

// TestLongTask: a task that is too long itself keeps what it asks for, and says so
// before and after.
func TestLongTask(t *testing.T) {
	var asked []string
	m := endurePlay(t, func(_ context.Context, k endureTalk) api.Message {
		if k.said("system", "You summarise one text") {
			return endureSay("Some matter.")
		}
		asked = append(asked, k.text())
		return endureSay("De la matière.")
	})
	m.room = 4096
	w := newWorld(t, m.addr, played)
	w.file("task.txt", "Translate the following text into French.\n\n"+endureDocument(300))
	const note = `the task itself was too long: its beginning was kept as the request ("Translate the following text ` +
		`into French."), and the rest taken as what it is about`
	plan := w.qq("-f", "task.txt", "--dry-run")
	assert.Equal(t, 0, plan.code, "exit code")
	assert.Contains(t, plan.stdout, "each by summarizer")
	r := endureParse(t, w.qq("-f", "task.txt", "--json").stdout)
	assert.Equal(t, "De la matière.", *r.Output)
	assert.Equal(t, []string{"Translate the following text into French."}, asked)
	assert.Contains(t, r.Warnings, note)
	assert.Contains(t, plan.stdout, fmt.Sprintf("map: %d parts", len(w.spawned())))
	assert.Contains(t, plan.stdout, note)
}
