package digest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/extract/prose"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

var documents = []string{"guide.md", "letter.txt", "queue.go"}

func read(t testing.TB, name string) string {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(text)
}

func TestProducts(t *testing.T) {
	t.Parallel()
	for _, name := range documents {
		for range 3 { // the same each time
			text, err := New(prose.Parse(read(t, name), name)).Make(context.Background(), Wish{Products: []Product{Summary, Points, Keywords, Outline}})
			require.NoError(t, err)
			checkGolden(t, name+".answer", text+"\n")
		}
	}
}

func TestLengthIsObeyed(t *testing.T) {
	t.Parallel()
	d := New(prose.Parse(essay(20<<10), ""))
	for n := 1; n <= 20; n++ {
		w := Wish{Products: []Product{Points}}
		w.Count[Points] = n
		text, err := d.Make(context.Background(), w)
		require.NoError(t, err)
		assert.Len(t, strings.Split(text, "\n"), n)
		w = Wish{Products: []Product{Keywords}}
		w.Count[Keywords] = n
		text, err = d.Make(context.Background(), w)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, len(strings.Split(text, ", ")), min(n, 16), "there are 16 nouns")
		assert.LessOrEqual(t, len(strings.Split(text, ", ")), n)
		w = Wish{Products: []Product{Outline}}
		w.Count[Outline] = n
		text, err = d.Make(context.Background(), w)
		require.NoError(t, err)
		assert.LessOrEqual(t, strings.Count(text, "\n- The "), n)
		w = Wish{Products: []Product{Summary}, Words: 10 * n}
		text, err = d.Make(context.Background(), w)
		require.NoError(t, err)
		assert.LessOrEqual(t, prose.Count(text), max(10*n, 25))
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := New(prose.Parse(essay(100<<10), "")).Make(ctx, Wish{Products: []Product{Summary}})
	require.ErrorIs(t, err, context.Canceled)
}

// A text with too many sentences to compare them all: the answer still comes
// from all of it, in its order, without repetition.
func TestLongText(t *testing.T) {
	t.Parallel()
	text := essay(400 << 10)
	d := New(prose.Parse(text, ""))
	require.Greater(t, len(d.sentences), 4*most)
	list, err := d.Quotes(context.Background(), Summary, Wish{})
	require.NoError(t, err)
	assert.Len(t, list, 12)
	order := make([]int, len(list))
	for i, s := range list {
		order[i] = slices.IndexFunc(d.sentences, func(c sentence) bool { return c.text == s })
	}
	assert.True(t, slices.IsSorted(order), order)
	assert.Len(t, slices.Compact(slices.Clone(order)), 12)
	assert.Less(t, order[0], len(d.sentences)/3)
	assert.Greater(t, order[11], len(d.sentences)*2/3)
}

func TestKeywords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// A phrase that stands alone counts more than its words.
		"The control pipe ends. A control pipe is a pipe. Each control pipe has an end, and the control pipe of a child is short.": "control pipe",
		// A verb is no keyword, however often it stands there.
		"We walk to the hive. You walk to the hive. They can walk to a hive.": "hive",
		// A name keeps its capital.
		"The city of Berlin is large. In Berlin the buses of Berlin are yellow. They like Berlin.":                                       "Berlin",
		"Der Imker geht zu den Bienen und die Bienen kommen zu dem Imker. Die Bienen sind in dem Korb und der Imker ist bei den Bienen.": "Bienen",
	} {
		assert.Equal(t, []string{want}, New(prose.Parse(text, "")).Keywords(1), text)
	}
	assert.Empty(t, New(nil).Keywords(3))
}

func TestNothingToQuote(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1,2\n3,4", "```\ncode code code code code\n```", "|a|b|\n|-|-|\n|one two three four five|six|"} {
		answer, err := New(prose.Parse(text, "a.md")).Make(context.Background(), Wish{Products: []Product{Summary, Points}})
		require.NoError(t, err)
		assert.Empty(t, answer, text)
	}
	answer, err := New(prose.Parse("Short.", "")).Make(context.Background(), Wish{Products: []Product{Summary}})
	require.NoError(t, err)
	assert.Equal(t, "Short.", answer, "a very short text is returned whole")
}

// A summary is bounded, whatever the text looks like.
func TestSummaryIsBounded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a log":                  strings.Repeat("Nov 20 14:01:00 web[1]: the request took a long time\n", 100),
		"one long line":          strings.Repeat("word upon word without an end ", 200),
		"a long sentence":        strings.Repeat("and so on and on, ", 60) + "to the end.",
		"four middle sentences":  strings.Repeat("The bees of the valley carry the pollen of all the flowers to every one of the fields by the river. ", 8),
		"a long list of strings": strings.Repeat("- the item of the list\n", 100),
	} {
		answer, err := New(prose.Parse(text, "")).Make(context.Background(), Wish{Products: []Product{Summary}})
		require.NoError(t, err)
		assert.NotEmpty(t, answer, name)
		assert.LessOrEqual(t, len(answer), len(text)/3+40, name)
		for line := range strings.Lines(answer) {
			assert.LessOrEqual(t, len(line), mostBytes+1, name)
		}
	}
}

func TestRecordsAreQuotedUnchanged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 60 {
		fmt.Fprintf(&log, "2026-11-20 14:%02d:00 web[%d]: GET /index in %d ms\n", i, i, i*7)
		if i == 40 {
			log.WriteString("2026-11-20 14:40:30 web[40]: ERROR the *disk* is full\n")
		}
	}
	list, err := New(prose.Parse(log.String(), "")).Quotes(context.Background(), Summary, Wish{})
	require.NoError(t, err)
	assert.Contains(t, list, "2026-11-20 14:40:30 web[40]: ERROR the *disk* is full")
	for _, line := range list {
		assert.Contains(t, log.String(), line+"\n")
	}
	answer, err := New(prose.Parse(log.String(), "")).Make(context.Background(), Wish{Products: []Product{Summary}})
	require.NoError(t, err)
	assert.Equal(t, strings.Join(list, "\n"), answer, "each on a line of its own")
}

// One sentence says what the text is about: a remark below the title does not.
func TestOneSentence(t *testing.T) {
	t.Parallel()
	const rest = " A bee is an insect that carries the pollen of flowers. The insect lives in a hive with many others. It flies in summer. The hive of the bee stands in the valley."
	w := Wish{Products: []Product{Summary}}
	w.Count[Summary] = 1
	for _, remark := range []string{"How a bee is built, and why.", "Measured on a bee of the valley in spring.", "Copyright 2020 The Bee Authors of the valley and others.", "An example of a bee is as follows.",
		"Or running the bees directly from the hive.", "You can run the bee of the valley with:\n\n"} {
		text, err := New(prose.Parse("# Bees\n\n"+remark+rest, "a.md")).Make(context.Background(), w)
		require.NoError(t, err)
		assert.Equal(t, "A bee is an insect that carries the pollen of flowers.", text, remark)
	}
}

func TestStandsAlone(t *testing.T) {
	t.Parallel()
	lex := english()
	for text, leans := range map[string]bool{
		"This makes it fast.": true, "This package makes it fast.": false, "However, it rained.": true, "The bees fly.": false,
		"For example, a bee flies.": true, "With these wings it flies.": true, "These tools are part of it.": true, "It’s late.": true,
		"The house that this man built is old.": true, "": false, "世界": false,
	} {
		assert.Equal(t, leans, lex.leans(text), text)
	}
	for _, never := range []string{"Too short here.", "The plan looks like this:", "a/b/c --d=1 [2] {3} <4> 5/6", "An open (bracket is here to stay", "A `tick is open for a long time"} {
		assert.Zero(t, fitness(never, prose.Paragraph), never)
	}
	whole := fitness("The bees of the valley carry pollen to every flower.", prose.Paragraph)
	for _, worse := range []string{"See the bees of the valley carry pollen to flowers.", "Do the bees of the valley carry pollen to flowers?",
		"the bees of the valley carry pollen to flowers", "The bees of https://bees.example carry pollen to all flowers."} {
		assert.Less(t, fitness(worse, prose.Paragraph), whole, worse)
	}
}

func TestStem(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{{"plan", "plans", "planned", "planning"}, {"process", "processes"}, {"query", "queries"}, {"value", "values"},
		{"file", "files"}, {"test", "tests", "tested", "testing"}, {"box", "boxes"}, {"status", "status"}} {
		for _, w := range same {
			assert.Equal(t, stem(same[0]), stem(w), w)
		}
	}
}

func FuzzMake(f *testing.F) {
	for _, name := range documents {
		f.Add(read(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 20000 {
			return
		}
		w := Wish{Products: []Product{Summary, Points, Keywords, Outline}}
		answer, err := New(prose.Parse(text, "")).Make(context.Background(), w)
		require.NoError(t, err)
		again, err := New(prose.Parse(text, "")).Make(context.Background(), w)
		require.NoError(t, err)
		assert.Equal(t, answer, again)
		assert.True(t, utf8.ValidString(answer))
	})
}
