package app

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/internal/app/output"
)

// TestCopied: on a terminal an answer of the built-in model begins with a line that says that it was copied. No pipe,
// no file and no JSON gets that line, and no other model.
func TestCopied(t *testing.T) {
	w := newWorld(t)
	w.file("a.md", "# Bees\n\nBees make honey. Bees live in hives. A hive has one queen of all bees.\n")
	w.file("b.md", "# Ants\n\nAnts carry leaves. Ants live in nests. A nest has many ants.\n")
	head := output.Copied + "\n"
	for _, args := range [][]string{{"Keywords of a.md"}, {"Summarize a.md and b.md"},
		{"batch", "--no-bar", "-m", "Keywords of {}", "a.md", "b.md"},
		{"batch", "--no-bar", "--output-format", "markdown", "-m", "Keywords of {}", "a.md", "b.md"}} {
		e := w.onTerminal(args...).wait()
		assert.Zero(t, e.code, e.out)
		assert.True(t, strings.HasPrefix(e.out, head), "%q: %s", args, e.out)
		assert.Equal(t, 1, strings.Count(e.out, "copied"), "%q: %s", args, e.out)
		assert.NotContains(t, w.run(args...).out, "copied", args)
		assert.NotContains(t, w.onTerminal(append(args, "--json")...).wait().out, "copied", args)
	}
	assert.NotContains(t, w.onTerminal("batch", "-o", "out", "-m", "Keywords of {}", "a.md").wait().out, "copied")
	assert.NotContains(t, w.onTerminal("Write a poem").wait().out, "copied", "it answered nothing")

	other, _ := newServedWorld(t)
	assert.NotContains(t, other.onTerminal("hello").wait().out, "copied")
}

// TestNarratedExtract: with -v a person can read what the built-in model calls.
func TestNarratedExtract(t *testing.T) {
	w := newWorld(t)
	w.file("a.md", "Bees make honey. Bees live in hives. A hive has one queen of all bees.\n")
	w.file("b.md", "Ants carry leaves. Ants live in nests. A nest has many ants.\n")
	said := w.run("-v", "Summarize a.md and b.md").errors
	assert.Contains(t, said, "] run_parallel_tasks 2 tasks: Summarize the file a.md, Summarize the file b.md\n")
	assert.Contains(t, said, "] read_file path: b.md, start_line: 1, end_line: 2000\n")
	assert.NotContains(t, said, "{")
}
