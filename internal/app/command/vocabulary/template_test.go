package vocabulary

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A template and files are a batch without its flags; a question about code with braces is none.
func TestBatch(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.md", "b.md", "c d"} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	for _, c := range []struct {
		message string
		words   []string
		want    string
	}{
		{"", []string{"Summarize {}", "a.md"}, "qq batch -m 'Summarize {}' a.md"},
		{"", []string{"Summarize {}", "gone.md", "a.md"}, "qq batch -m 'Summarize {}' gone.md a.md"},
		{"", []string{"Summarize", "{/}", "a.md", "c d", "b.md"}, "qq batch -m 'Summarize {/}' a.md 'c d' …"},
		{"", []string{"Summarize '{}'", "a.md"}, `qq batch -m 'Summarize '\''{}'\''' a.md`},
		{"", []string{"Summarize {}", "now", "a.md"}, ""},
		{"", []string{"Summarize {}", "gone.md"}, ""},
		{"", []string{"explain", "struct{}", "in", "a.md"}, ""},
		{"", []string{"explain []any{} in", "a.md"}, ""},
		{"", []string{"Summarize", "a.md"}, ""},
		{"", []string{"a.md"}, ""},
		{"", nil, ""},
		{"Read {}", []string{"a.md"}, "qq batch -m 'Read {}' a.md"},
		{"Read {}", []string{"now", "a.md"}, ""},
		{"Read it", []string{"a.md"}, ""},
	} {
		assert.Equal(t, c.want, Batch(c.message, c.words), c.words)
	}
}

func TestElsewhereWith(t *testing.T) {
	for _, c := range []struct{ word, argument, want string }{
		{"show", "4c8943ef", "did you mean qq runs show 4c8943ef?"},
		{"Cancel", "4c8943ef", "did you mean qq runs cancel 4c8943ef?"},
		{"run", "do it", `did you mean qq "do it"?`},
		{"run", "tests", ""}, {"show", "me", ""}, {"show", "deadbeef", ""}, {"explain", "do it", ""},
		{"list", "4c8943ef", ""},
	} {
		assert.Equal(t, c.want, ElsewhereWith([]string{c.word, c.argument}), c.word+" "+c.argument)
	}
	assert.Empty(t, ElsewhereWith([]string{"show", "4c8943ef", "now"}))
}
