package extract

import (
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

	"qq/internal/models/extract/markdown"
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

var samples = []string{"guide.md", "letter.txt"}

func sample(t testing.TB, name string) string {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(text)
}

func quotable(text string) *document { return newDocument(markdown.Parse(text), false) }

// What the scanner sees: every heading, paragraph and list item, and nothing
// of pictures, comments, tables and code.
func TestBlocks(t *testing.T) {
	t.Parallel()
	for _, name := range samples {
		var b strings.Builder
		for _, block := range markdown.Parse(sample(t, name)) {
			fmt.Fprintf(&b, "%s%d: %s\n", [...]string{"paragraph", "item", "heading"}[block.Kind], block.Level,
				block.Text)
		}
		checkGolden(t, name+".blocks", b.String())
	}
}

func TestProducts(t *testing.T) {
	t.Parallel()
	for _, name := range samples {
		for range 3 { // the same each time
			text := ""
			for p, title := range [...]string{"Summary", "Key points", "Keywords", "Outline"} {
				text += title + ":\n\n" + quotable(sample(t, name)).render(wish{product: product(p)}) + "\n\n"
			}
			checkGolden(t, name+".answer", text)
		}
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"One. Two. Three.":                                  "One.|Two.|Three.",
		"Use tools, e.g. Git. Then go on.":                  "Use tools, e.g. Git.|Then go on.",
		"That is, i.e. This, good. Next.":                   "That is, i.e. This, good.|Next.",
		"See No. 5 of it. No. That is wrong.":               "See No. 5 of it.|No.|That is wrong.",
		"Go 1.26 is out. It is fast.":                       "Go 1.26 is out.|It is fast.",
		"J. Doe wrote it. Then Dr. Roe read it.":            "J. Doe wrote it.|Then Dr. Roe read it.",
		"It stops. `qq` goes on. `qq run` starts.":          "It stops.|`qq` goes on.|`qq run` starts.",
		"Call `a. B` now. End.":                             "Call `a. B` now.|End.",
		"He left (it was late. Very late) by bus. End.":     "He left (it was late. Very late) by bus.|End.",
		"What? Yes! Go.":                                    "What?|Yes!|Go.",
		"Yahoo! is a firm. End.":                            "Yahoo! is a firm.|End.",
		"Apples, pears, etc. Then more.":                    "Apples, pears, etc.|Then more.",
		"世界很大。我们很小。":                                        "世界很大。|我们很小。",
		"It runs on .NET now. End.":                         "It runs on .NET now.|End.",
		"No end":                                            "No end",
		"  ":                                                "",
		"It was Fig. 3 that he saw. Fig. Tree is no place.": "It was Fig. 3 that he saw.|Fig.|Tree is no place.",
	} {
		assert.Equal(t, want, strings.Join(splitSentences(text), "|"), text)
	}
}

// Texts that make careless scanners take forever.
func TestHostileTextsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long, and has one goroutine")
	}
	t.Parallel()
	for _, unit := range []string{"[", "](", "[a](", "`", "``a`", "<", "<!--", "*a_", "(", "a. ", "1. ", "# a\n",
		"> > a\n", "- a\n", "|a|b\n|-|-|\n",
		":a", "a", "a ", "世界。", ". `", "(a. ", "\t", "![a](b)", "e.g. A ", "\xff", "x\n\n"} {
		for _, b := range markdown.Parse(strings.Repeat(unit, 100<<10/len(unit))) {
			for _, s := range splitSentences(b.Text) {
				assert.True(t, utf8.ValidString(s), unit)
			}
		}
	}
}

// essay writes about size bytes of Markdown, the same each time: sections with
// paragraphs, lists and code, from a small set of words.
func essay(size int) string {
	nouns := strings.Fields("queue worker ledger signal tree budget frame socket parser planet river engine garden " +
		"window letter market")
	verbs := strings.Fields("keeps moves reads writes opens guards counts sends holds joins")
	var b strings.Builder
	seed := uint32(1)
	pick := func(list []string) string {
		seed = seed*1664525 + 1013904223
		return list[int(seed>>16)%len(list)]
	}
	for i := 0; b.Len() < size; i++ {
		if i%7 == 0 {
			fmt.Fprintf(&b, "## The %s and the %s %d\n\n", pick(nouns), pick(nouns), i)
		}
		for range 4 {
			fmt.Fprintf(&b,
				"The %s %s the **%s** of [the %s](http://example.com/%d), and every %s %s\na `%s` before the %s ends. ",
				pick(nouns), pick(verbs), pick(nouns), pick(nouns), i, pick(nouns), pick(verbs), pick(nouns),
				pick(nouns))
		}
		fmt.Fprintf(&b, "\n\n- a %s that %s the %s\n- the %s of a %s\n\n```\ncode %d\n```\n\n",
			pick(nouns), pick(verbs), pick(nouns), pick(nouns), pick(nouns), i)
	}
	return b.String()
}

func BenchmarkRender(b *testing.B) {
	for _, size := range []int{5 << 10, 150 << 10, 5 << 20} {
		text := essay(size)
		for p := range products {
			b.Run(fmt.Sprintf("%d/%dK", p, size>>10), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					quotable(text).render(wish{product: p})
				}
			})
		}
	}
}

func TestLengthIsObeyed(t *testing.T) {
	t.Parallel()
	d := quotable(essay(20 << 10))
	for n := 1; n <= 20; n++ {
		assert.Len(t, strings.Split(d.render(wish{product: points, count: n}), "\n"), n)
		found := len(strings.Split(d.render(wish{product: keywords, count: n}), ", "))
		assert.GreaterOrEqual(t, found, min(n, 14), "there are 16 nouns")
		assert.LessOrEqual(t, found, n)
		assert.LessOrEqual(t, strings.Count(d.render(wish{product: outline, count: n}), "\n")+1, n)
		assert.LessOrEqual(t, len(splitWords(d.render(wish{words: 10 * n}))), max(10*n, 25))
	}
}

// The answer about a long text comes from all of it, in its order, without
// repetition.
func TestLongText(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long, and has one goroutine")
	}
	t.Parallel()
	d := quotable(essay(400 << 10))
	list := d.quotes(wish{})
	assert.Len(t, list, 12)
	order := make([]int, len(list))
	for i, s := range list {
		order[i] = slices.IndexFunc(d.sentences, func(c sentence) bool { return c.text == s.text })
	}
	assert.True(t, slices.IsSorted(order), order)
	assert.Len(t, slices.Compact(slices.Clone(order)), 12)
}

func TestKeywords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// A phrase that stands alone counts more than its words.
		"The control pipe ends. A control pipe is a pipe. Each control pipe has an end, and the control pipe of a " +
			"child is short.": "control pipe",
		// The singular is shown, without the capital of a first word.
		"Hives are made of wood. A hive stands there. The hives are new.": "hive",
		// A name keeps its capital.
		"The city of Berlin is large. In Berlin the buses of Berlin are yellow. They like Berlin.": "Berlin",
	} {
		assert.Equal(t, []string{want}, quotable(text).keywords(1), text)
	}
	assert.Empty(t, newDocument(nil, false).keywords(3))
}

func TestNothingToQuote(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1,2\n3,4", "```\ncode code code code code\n```",
		"|a|b|\n|-|-|\n|one two three four five|six|",
		strings.Repeat("word upon word without an end ", 200),
		strings.Repeat("Nov 20 14:01:00 web[1]: the request took a long time\n", 100)} {
		assert.Empty(t, quotable(text).render(wish{}), text)
		assert.Empty(t, quotable(text).render(wish{product: points}), text)
	}
	assert.Equal(t, "Short.", quotable("Short.").render(wish{}), "a very short text is returned whole")
	_, err := quoteText("--- a/x.md\n+++ b/x.md\n@@ -1 +1 @@\n-The product is old.\n+The product is new.\n", "", wish{},
		nil)
	require.ErrorContains(t, err, "the text is a difference of files")
}

// One sentence says what the text is about: a remark below the title does not.
func TestOneSentence(t *testing.T) {
	t.Parallel()
	const rest = " A bee is an insect that carries the pollen of flowers. The insect lives in a hive with many " +
		"others. It flies in summer. The hive of the bee stands in the valley."
	for _, remark := range []string{"How a bee is built, and why.", "Measured on a bee of the valley in spring.",
		"Copyright 2020 The Bee Authors of the valley and others.",
		"An example of a bee is as follows.", "Or running the bees directly from the hive.",
		"What to know about a bee before a night.", "You can run the bee of the valley with:\n\n"} {
		assert.Equal(t, "A bee is an insect that carries the pollen of flowers.",
			quotable("# Bees\n\n"+remark+rest).render(wish{count: 1}), remark)
	}
}

func TestLeans(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"This makes it fast.": true, "This package makes it fast.": false, "However, it rained.": true,
		"The bees fly.":             false,
		"For example, a bee flies.": true, "With these wings it flies.": true, "These tools are part of it.": true,
		"It’s late.":                            true,
		"The house that this man built is old.": false, "": false, "世界": false,
		"Each command of an agent gets one that names the agent.": true, "A pool keeps one that waits.": true,
		"A pool keeps one worker.": false,
		"They fly.":                true, "Such a hive is dark.": true, "Then the bee flies.": true,
		"That is a hive.":      true,
		"Of those, three fly.": true,
		"But bees fly.":        true, "So there is one hive.": true, "The second hive is empty.": true,
		"Second, the hive is empty.": true,
		"All of it is readable.":     true, "All hives are dark.": false, "Some are dark.": true,
		"Some hives are dark.":       false,
		"When it flies, a bee hums.": true, "When a bee flies, it hums.": false, "Bees and wasps are in it.": true,
		"Hives keep their wax.":      false,
		"By then the hive is empty.": true, "The other hive is full.": true, "Neither flies.": true,
		"The warnings say so.": true,
	} {
		assert.Equal(t, want, leans(text), text)
	}
}

func TestFitness(t *testing.T) {
	t.Parallel()
	fit := func(text string) float64 { return quotable(text).sentences[0].weight }
	for _, never := range []string{"The plan looks like this:", "An open (bracket is here to stay",
		"A `tick is open for a long time"} {
		assert.Zero(t, fit(never), never)
	}
	whole := fit("The bees of the valley carry pollen to every flower.")
	for _, worse := range []string{"See the bees of the valley carry pollen to flowers.",
		"Do the bees of the valley carry pollen to flowers?",
		"the bees of the valley carry pollen to flowers",
		"The bees of https://bees.example carry pollen to all flowers."} {
		assert.Less(t, fit(worse), whole, worse)
	}
}

func TestStem(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{{"query", "queries"}, {"value", "values"}, {"file", "files"},
		{"test", "tests", "tested", "testing"}, {"status", "status"}, {"", "the"}} {
		for _, w := range same {
			assert.Equal(t, stem(same[0]), stem(w), w)
		}
	}
}

// No summary of this project's own documents begins with a sentence that leans
// on one before it, and no key point is such a sentence.
func TestOwnDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long, and has one goroutine")
	}
	t.Parallel()
	files, err := filepath.Glob("../../../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	// What the words of leans do not cover is found by a second, wider list.
	opening := strings.Fields("each it its this that they them their these those such then however but so and or " +
		"also both all some he she " +
		"second third other another one same here there therefore thus hence instead otherwise otherwise, again, " +
		"moreover,")
	for _, file := range append(files, "../../../README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		d := quotable(string(text))
		for n := range 13 {
			for _, w := range []wish{{count: n}, {words: 30 * n}, {product: points, count: n}} {
				list := d.quotes(w)
				require.NotEmpty(t, list, file)
				if w.product == summary {
					list = list[:1]
				}
				for _, s := range list {
					first := strings.ToLower(strings.TrimRight(strings.Fields(s.text)[0], ",."))
					assert.False(t, s.leans || slices.Contains(opening, first), "%s: %s", file, s.text)
				}
			}
		}
	}
}

// TestAllLean: where every sentence leans on another one, they are quoted all the same.
func TestAllLean(t *testing.T) {
	const text = "However, the server was slow. So we bought a larger disk for it."
	got, err := quoteText(text, "", wish{product: summary}, nil)
	require.NoError(t, err)
	assert.Equal(t, text, got)
}

func FuzzRender(f *testing.F) {
	for _, name := range samples {
		f.Add(sample(f, name))
	}
	f.Add("[a](b [c](d ![e](f `g ``h <i <!-- j **k** \\")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 20000 {
			return
		}
		for p := range products {
			answer := quotable(text).render(wish{product: p})
			assert.Equal(t, answer, quotable(text).render(wish{product: p}))
			assert.True(t, utf8.ValidString(answer))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, name := range samples {
		f.Add(sample(f, name))
	}
	f.Add("[a](b [c](d ![e](f `g ``h <i <!-- j **k** \\")
	f.Fuzz(func(t *testing.T, text string) {
		for _, b := range markdown.Parse(text) {
			if b.Text == "" || strings.Contains(b.Text, "\n") || !utf8.ValidString(b.Text) {
				t.Errorf("block %q", b.Text)
			}
			if b.Kind == markdown.Heading && (b.Level < 1 || b.Level > 6) {
				t.Errorf("heading of level %d", b.Level)
			}
			for _, s := range splitSentences(b.Text) {
				if strings.TrimSpace(s) != s || s == "" || !strings.Contains(b.Text, s) {
					t.Errorf("sentence %q of %q", s, b.Text)
				}
			}
		}
	})
}
