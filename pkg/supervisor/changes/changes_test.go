package changes

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFiles(t *testing.T) {
	var f Files
	own := []string{"b", "a"}
	assert.Equal(t, own, f.With(own))
	f.Add([]string{"c", "b"})
	f.Add([]string{"c"})
	assert.Equal(t, []string{"a", "b", "c"}, f.With(own))
	assert.Equal(t, []string{"b", "c"}, f.With(nil))
	assert.Equal(t, []string{"b", "c"}, f.Take())
	assert.Empty(t, f.With(nil))
}

func TestOutside(t *testing.T) {
	changed := []string{"a.go", "dir/b.go", "dir2/c.go"}
	assert.Empty(t, Outside(nil, changed), "who named no target may change anything")
	assert.Empty(t, Outside([]string{"."}, changed))
	assert.Equal(t, []string{"dir2/c.go"}, Outside([]string{"./a.go", "dir"}, changed))
	assert.Equal(t, []string{"a.go"}, Outside([]string{"*/*.go"}, changed))
}

func TestWarnings(t *testing.T) {
	many := make([]string, 25)
	for i := range many {
		many[i] = "x"
	}
	assert.Empty(t, Warnings(nil, many, many), "without targets")
	assert.Empty(t, Warnings([]string{"x"}, many, many))
	got := Warnings([]string{"src"}, []string{"src/a", "b"}, []string{"b", "c", "src/d"})
	assert.Equal(t, []string{
		"files were changed outside of the targets: b",
		"files outside of the targets were changed while its commands ran, by these or by somebody else: c",
	}, got)
	got = Warnings([]string{"src"}, nil, many)
	assert.Contains(t, got[0], "x, x and 5 more")
}

func TestRelocate(t *testing.T) {
	files := []string{"a", "b/c"}
	Relocate("", "sub/deep", files)
	assert.Equal(t, []string{"sub/deep/a", "sub/deep/b/c"}, files)
	Relocate("x", "x", files)
	assert.Equal(t, []string{"sub/deep/a", "sub/deep/b/c"}, files)
}
