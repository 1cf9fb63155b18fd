package console

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/terminal/editor"
	"qq/pkg/task"
)

func TestMentions(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                   nil,
		"@a.go":                              {"a.go"},
		"see @a.go, and @dir/b.go.":          {"a.go", "dir/b.go"},
		`(@"with space.md") and @x`:          {"with space.md", "x"},
		"me@example.com":                     nil,
		"@ and @, and @\"":                   nil,
		"line\n@next\n\t@tab":                {"next", "tab"},
		strings.Repeat("@a ", 2*maxMentions): slicesOf("a", maxMentions),
	} {
		var got []string
		for _, m := range mentions(text) {
			got = append(got, m.path)
			assert.Equal(t, byte('@'), text[m.from])
		}
		assert.Equal(t, want, got, text)
	}
}

func slicesOf(s string, n int) (all []string) {
	for range n {
		all = append(all, s)
	}
	return all
}

// A file that is named is attached once; a name without a file is a word; no text is an error.
func TestAttach(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.txt", []byte("text of a"), 0o600))
	require.NoError(t, os.Mkdir("dir", 0o700))
	require.NoError(t, os.WriteFile("dir/b.bin", []byte{0, 1, 2}, 0o600))
	got, err := attach(task.Task{Text: "@a.txt @a.txt @none @dir", Context: "before"})
	require.NoError(t, err)
	assert.Equal(t, "before\n\nThe file a.txt:\ntext of a\n\nThe file dir:\nb.bin\n", got.Context)
	_, err = attach(task.Task{Text: "@dir/b.bin"})
	assert.ErrorContains(t, err, "@dir/b.bin")
}

// A link of the working directory does not lead out of it; a person who means its target names that.
func TestAttachLinks(t *testing.T) {
	out := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(out, []byte("a secret"), 0o600))
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("a.txt", []byte("text of a"), 0o600))
	for name, target := range map[string]string{
		"README.md": out, "folder": filepath.Dir(out), "in": "a.txt", "whole": filepath.Join(dir, "a.txt"),
		"gone": "none",
	} {
		require.NoError(t, os.Symlink(target, name))
	}
	for _, name := range []string{"README.md", "folder", "folder/secret", "./README.md", dir + "/README.md"} {
		_, err := attach(task.Task{Text: "@" + name})
		problem, hint := task.Explain(err)
		assert.Equal(t, "@"+name+": it is a link that leads out of the working directory", problem)
		assert.Contains(t, hint, "by its own path: @"+filepath.Dir(out))
	}
	for _, name := range []string{"in", "whole", dir + "/in"} {
		got, err := attach(task.Task{Text: "@" + name})
		require.NoError(t, err)
		assert.Contains(t, got.Context, "text of a")
	}
	rel, err := filepath.Rel(dir, out)
	require.NoError(t, err)
	for _, name := range []string{out, rel} {
		got, err := attach(task.Task{Text: "@" + name + " @gone"})
		require.NoError(t, err)
		assert.Contains(t, got.Context, "a secret")
	}
	for _, name := range []string{"/", ".", ".."} {
		got, err := attach(task.Task{Text: `@"` + name + `"`})
		require.NoError(t, err)
		assert.Contains(t, got.Context, "The file "+name+":\n")
	}
}

// In a large folder each name can be completed, and a list that is cut says so.
func TestLargeFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("big", 0o700))
	for i := range maxListed + 100 {
		require.NoError(t, os.WriteFile(fmt.Sprintf("big/%d", i), nil, 0o600))
	}
	require.NoError(t, os.Mkdir("big/new", 0o700))
	at, found := (&console{}).Complete("see @big/ne")
	assert.Equal(t, 4, at)
	assert.Equal(t, []string{"@big/new/"}, found)
	got, err := attach(task.Task{Text: "@big"})
	require.NoError(t, err)
	assert.Contains(t, got.Context, "\n(there are more: these are the first 5000)\n")
	assert.Equal(t, maxListed+2, strings.Count(got.Context, "\n"))
}

// FuzzMentions: each name is a part of the text.
func FuzzMentions(f *testing.F) {
	f.Add(`see @a "@b" @"c d`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range mentions(text) {
			require.True(t, 0 <= m.from && m.from < m.to && m.to <= len(text))
			require.Contains(t, text[m.from:m.to], m.path)
		}
	})
}

// The file of the history is for the user alone; what is damaged, too long or meant to be forgotten is left out, and a
// file that has grown large is made small.
func TestHistoryFile(t *testing.T) {
	m := memory{filepath.Join(t.TempDir(), "home", historyFile)}
	h, err := m.load()
	require.NoError(t, err)
	assert.Zero(t, h.Len())
	for _, entry := range []string{"one", "two\nlines", " secret", strings.Repeat("x", maxEntry+1)} {
		require.NoError(t, m.add(entry))
	}
	f, err := os.OpenFile(m.path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("{broken\n\"torn")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	h, err = m.load()
	require.NoError(t, err)
	assert.Equal(t, []string{"one", "two\nlines"}, h.Entries())
	info, err := os.Stat(m.path)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode().Perm())

	big := make([]string, 300)
	for i := range big {
		big[i] = strings.Repeat(string(rune('a'+i%20)), 20_000)
	}
	for _, entry := range big {
		require.NoError(t, m.add(entry))
	}
	h, err = m.load()
	require.NoError(t, err)
	m.rewrite(editor.NewHistory([]string{"small"}))
	info, err = os.Stat(m.path)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(100))
	assert.EqualValues(t, 0o600, info.Mode().Perm())
	assert.Greater(t, h.Len(), 100)

	require.NoError(t, os.Remove(m.path))
	require.NoError(t, os.Symlink("/etc/passwd", m.path))
	_, err = m.load()
	assert.Error(t, err, "a link is not followed")
	assert.Error(t, m.add("x"))
}

// Text of others and the answer keep their order; a writer does not run away from a slow terminal.
func TestInbox(t *testing.T) {
	b := newInbox()
	b.put(note, "a")
	b.put(chunk, "b")
	b.TurnEnd(true)
	assert.Equal(t, []item{{note, "a"}, {chunk, "b"}, {final, ""}}, b.take(false))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10 {
			b.put(note, strings.Repeat("x", maxWaiting/2))
		}
	}()
	n := 0
	for range 10 {
		<-b.wake
		items := b.take(false)
		n += len(items)
		assert.LessOrEqual(t, len(items), 2)
		if n == 10 {
			break
		}
	}
	<-done
	b.take(true)
	b.put(note, strings.Repeat("x", 2*maxWaiting)) // nobody takes it any more: it does not wait
	b.put(note, "y")
}
