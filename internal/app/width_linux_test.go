package app

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/columns"
)

// assertFits checks that what qq prints on a terminal has no line that the terminal would break, and the same words as
// in a pipe, where each line is whole.
func (w *world) assertFits(args ...string) {
	w.t.Helper()
	piped := w.run(args...)
	require.Less(w.t, piped.code, 2, piped.errors) // qq doctor may have found something
	for _, most := range []int{40, 80, 200} {
		shown := w.onTerminalOf(most, w.command(args...)).wait()
		assert.Equal(w.t, strings.Fields(piped.out), strings.Fields(shown.out), "%v", args)
		for line := range strings.Lines(shown.out) {
			if len(strings.Fields(line)) > 1 { // a long path is one word
				assert.LessOrEqual(w.t, columns.Of(strings.TrimSuffix(line, "\n")), most, "%v: %s", args, line)
			}
		}
	}
}

// TestHelpFits: the help of each command has the form of qq --help, and fits the terminal.
func TestHelpFits(t *testing.T) {
	w := newWorld(t)
	root := newRoot(Streams{}, nil)
	commands := root.cli().Commands
	root.close()
	w.assertFits("--help")
	for _, c := range commands {
		w.assertFits(c.Name, "--help")
		for _, sub := range c.Subcommands {
			w.assertFits(c.Name, sub.Name, "--help")
		}
	}
	help := w.run("batch", "--help").out
	assert.Equal(t, help, w.run("help", "batch").out)
	assert.Equal(t, help, w.run("batch", "-h").out)
	for _, line := range []string{
		"qq batch - run many tasks, each in a process of its own\n\nUSAGE\n  qq batch [flags] [FILE |",
		"\n  {{ is never a placeholder. As with", "\nFLAGS\n  --message, -m, --prompt, -p VALUE\n      ",
		"\n  --null, -0                  a NUL ends each input line, as find -print0 writes it\n", "(default never)\n",
	} {
		assert.Contains(t, help, line)
	}
	assert.Contains(t, w.run("runs", "--help").out, "\nCOMMANDS\n  list                        list runs and batches,")
}

// TestTablesFit: qq config, qq agents list and qq doctor fit the terminal.
func TestTablesFit(t *testing.T) {
	w := newWorld(t)
	w.set("QQ_HOME=/tmp/a-folder/qq", "QQ_WRITABLE=/a,/b")
	w.definition("mine", "---\ndescription: |\n  Does this.\n  And that.\n---\nWork.\n")
	w.assertFits("agents", "list")
	assert.Regexp(t, `(?m)^mine +content-modification .*  Does this\. And that\.$`, w.run("agents", "list").out)
	w.assertFits("config")
	w.assertFits("doctor")
}
