package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const batchSize = 10

// batchAnswer is longer for earlier tasks, so that later ones are done first.
func batchAnswer(i int) string {
	return fmt.Sprintf("Answer %d", i) + strings.Repeat(" and on", 2*(batchSize-i)) + "."
}

// TestBatch prints the results in the order of the tasks, one JSON line each.
func TestBatch(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		var tasks strings.Builder
		for i := range batchSize {
			fmt.Fprintf(&tasks, "Task %d. [[task%d]]\n", i, i)
		}
		w := s.world(t, scripted)
		args := []string{"batch", "--model", w.server + ":" + scripted, "-j", "3", "--no-bar", "--output-format", "jsonl",
			w.file("tasks.txt", tasks.String())}
		e := w.qq(args...)
		assert.Equal(t, 0, e.code, "exit code")
		lines := resultLines(t, e)
		require.Len(t, lines, batchSize)
		for i, r := range lines {
			assert.Equal(t, i, r.Index)
			assert.Equal(t, fmt.Sprintf("Task %d. [[task%d]]", i, i), r.Task)
			assert.Equal(t, batchAnswer(i), *r.Output)
		}
		assert.Len(t, w.spawned(), batchSize)
	})
}

// TestBatchWithFailure: one task of three fails, the others are done.
func TestBatchWithFailure(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		w := s.world(t, scripted)
		e := w.start("One. [[poem]]\nTwo. [[stuck]]\nThree. [[poem]]\n", "batch", "-j", "3", "--no-bar", "--output-format",
			"jsonl").wait()
		assert.Equal(t, 4, e.code, "exit code")
		lines := resultLines(t, e)
		require.Len(t, lines, 3)
		assert.Equal(t, poem, *lines[0].Output)
		assert.Equal(t, "broken_stream", lines[1].Status)
		assert.Equal(t, poem, *lines[2].Output)
	})
}

func resultLines(t *testing.T, e ended) []result {
	t.Helper()
	var rs []result
	for line := range strings.Lines(e.stdout) {
		rs = append(rs, parse(t, line))
	}
	return rs
}
