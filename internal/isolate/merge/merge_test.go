package merge_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/isolate/merge"
)

func TestTexts(t *testing.T) {
	for name, c := range map[string]struct {
		base, ours, theirs, want string
		conflict                 bool
	}{
		"far apart":     {base: "a\nb\nc\nd\n", ours: "A\nb\nc\nd\n", theirs: "a\nb\nc\nD\n", want: "A\nb\nc\nD\n"},
		"one side":      {base: "a\n", ours: "a\n", theirs: "b\n", want: "b\n"},
		"the same":      {base: "a\nb\n", ours: "a\nc\n", theirs: "a\nc\n", want: "a\nc\n"},
		"same and more": {base: "a\nb\nc\nd\n", ours: "X\nb\nc\nd\n", theirs: "X\nb\nc\nY\n", want: "X\nb\nc\nY\n"},
		"same line":     {base: "a\nb\n", ours: "a\nc\n", theirs: "a\nd\n", conflict: true},
		"neighbours":    {base: "a\nb\n", ours: "A\nb\n", theirs: "a\nB\n", conflict: true},
		"both append":   {base: "a\n", ours: "a\nb\n", theirs: "a\nc\n", conflict: true},
		"last line end": {base: "a\nb\nc", ours: "A\nb\nc", theirs: "a\nb\nc\n", want: "A\nb\nc\n"},
		"removed part":  {base: "a\nb\nc\nd\ne\n", ours: "e\n", theirs: "a\nb\nX\nd\ne\n", conflict: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := merge.Texts(c.base, c.ours, c.theirs)
			assert.Equal(t, !c.conflict, ok)
			assert.Equal(t, c.want, got)
		})
	}
}

// TestTextsAgainstGit: what is joined is what git joins, and what git calls a conflict is one.
func TestTextsAgainstGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	dir, joined := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		change := func(base, word string) string {
			lines := strings.SplitAfter(base, "\n")
			for range rapid.IntRange(0, 2).Draw(t, "edits") {
				i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
				lines[i] = rapid.SampledFrom([]string{"", word + "\n", word + "\n" + lines[i]}).Draw(t, "new")
			}
			return strings.Join(lines, "")
		}
		base := ""
		for i := range rapid.IntRange(0, 12).Draw(t, "lines") { // no line twice: which one moved is certain
			base += strconv.Itoa(i) + "\n"
		}
		ours, theirs := change(base, "x"), change(base, rapid.SampledFrom([]string{"x", "y"}).Draw(t, "word"))
		for name, content := range map[string]string{"base": base, "ours": ours, "theirs": theirs} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		got, ok := merge.Texts(base, ours, theirs)
		back, same := merge.Texts(base, theirs, ours)
		assert.Equal(t, ok, same, "both ways")
		assert.Equal(t, got, back, "both ways")
		if !ok {
			return
		}
		cmd := exec.Command("git", "merge-file", "-p", "ours", "base", "theirs")
		cmd.Dir = dir
		out, err := cmd.Output()
		assert.NoError(t, err, "git finds a conflict")
		assert.Equal(t, string(out), got)
		joined++
	})
	assert.Positive(t, joined)
}
