package naming

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// each returns the items as a sequence.
func each(items []Item) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for _, it := range items {
			if !yield(it, nil) {
				return
			}
		}
	}
}

// named returns the names of a batch.
func named(t require.TestingT, items []Item) []string {
	n, err := New(each(items))
	require.NoError(t, err)
	names := make([]string, len(items))
	for i, it := range items {
		names[i] = n.Of(i+1, it)
	}
	return names
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ items, want string }{
		{"pkgs/net-http.txt pkgs/io.txt", "net-http io"},
		{"docs/a.md README.md", "a.md README.md"},
		{"a/doc.go b/doc.go a/x.go", "a-doc.go b-doc.go x.go"},
		{"a.txt a", "00001 00002"},
		{"Readme.md README.MD x.md", "00001 00002 x.md"},
		{"one one two", "00001 00002 two"},
		{"a/b-c a-b/c b-c", "00001 00002 b-c"},
		{".env ../.git/config ..", "env git-config 00003"},
		{"00002 7 00009", "00001 7 00009"},
		{"-rf $HOME *.go; a|b", "rf HOME go a-b"},
		{"./docs/über.md docs/名前.md", "über.md 名前.md"},
		{"u\u0308ber.md \u00fcber.md ÜBER.md ok.md", "00001 00002 00003 ok.md"},
		{"TCP/IP 1/2", "TCP-IP 1-2"},
		{strings.Repeat("a", 200) + " " + strings.Repeat("b", 201), strings.Repeat("a", 200) + " 00002"},
		{"a\x00b\xff\x1b[2J\u202ec.md", "a-b-2J-c.md"},
	} {
		var items []Item
		for text := range strings.SplitSeq(c.items, " ") {
			items = append(items, Item{Text: text})
		}
		assert.Equal(t, strings.Split(c.want, " "), named(t, items), c.items)
	}
	assert.Equal(t, []string{"my-file", "Summarize-a-b.md"}, named(t, []Item{
		{Text: "some docs/my file", File: true}, {Text: `Summarize "a/b.md"`},
	}))
	_, err := New(func(yield func(Item, error) bool) { yield(Item{}, os.ErrClosed) })
	assert.ErrorIs(t, err, os.ErrClosed)
}

// TestNamesAreSafe: whatever the items are, their files can be made, each is another one, and they stay in the folder.
func TestNamesAreSafe(t *testing.T) {
	dir := t.TempDir()
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-bA-B./ -]{0,5}`),
			rapid.StringMatching(`0000[1-4](\.txt)?`))
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Item {
			return Item{text.Draw(t, "text"), rapid.Bool().Draw(t, "file")}
		}), 0, 5).Draw(t, "items")
		round++
		folder := filepath.Join(dir, fmt.Sprint(round))
		require.NoError(t, os.Mkdir(folder, 0o700))
		seen := map[string]bool{}
		for _, name := range named(t, items) {
			assert.False(t, seen[strings.ToLower(name)], name)
			seen[strings.ToLower(name)] = true
			assert.True(t, utf8.ValidString(name))
			assert.NotContains(t, "-.", name[:1])
			require.NoError(t, os.WriteFile(filepath.Join(folder, name+".json"), nil, 0o600))
		}
		made, err := os.ReadDir(folder)
		require.NoError(t, err)
		assert.Len(t, made, len(items))
	})
}
