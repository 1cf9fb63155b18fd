package prose

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// What the scanner sees: every heading, paragraph and list item, and nothing
// of pictures, comments, tables and code.
func TestBlocks(t *testing.T) {
	t.Parallel()
	for _, name := range documents {
		blocks := Parse(read(t, name), name)
		var b strings.Builder
		for _, block := range blocks {
			kind := [...]string{"paragraph", "item", "quote", "heading", "record"}[block.Kind]
			if block.Kind == Heading {
				kind += fmt.Sprint(block.Level)
			}
			fmt.Fprintf(&b, "%s: %s\n", kind, block.Text)
		}
		checkGolden(t, name+".blocks", b.String())
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
		assert.Equal(t, want, strings.Join(Sentences(text), "|"), text)
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a [link](http://x.org/a_b \"t\") b":      "a link b",
		"[![x](y)](z) text":                       "text",
		"a [ref][1] and [short] and a note[^2].":  "a ref and short and a note.",
		"**bold** _it_ ~~gone~~ snake_case 2 * 3": "bold it gone snake_case 2 * 3",
		"``a ` b`` and `*x*` and `f()`":           "`a ` b` and `*x*` and `f()`",
		"a &amp; b &lt;c&gt; `&amp;`":             "a & b <c> `&amp;`",
		"<b>x</b><br>y <https://a.b/c> <path>":    "x y https://a.b/c <path>",
		"smile :smile: at 12:30:00":               "smile at 12:30:00",
		`\*no\* emphasis`:                         "*no* emphasis",
		"a[i] and [[b]]":                          "a[i] and b",
		"open [bracket and `tick":                 "open [bracket and `tick",
		"see <!-- not this --> that":              "see that",
		"Vec<T> and a < b > c":                    "Vec<T> and a < b > c",
		"a ![pic](x.png).":                        "a.",
	} {
		assert.Equal(t, want, plain(text), text)
	}
}

// Texts that make careless scanners take forever. Each is long enough for
// quadratic work to run into the limit of the test binary.
func TestHostileTextsEnd(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"[", "](", "[a](", "`", "``a`", "<", "<!--", "*a_", "(", "a. ", "1. ", "# a\n", "> > a\n", "- a\n", "|a|b\n|-|-|\n",
		":a", "a", "a ", "世界。", ". `", "(a. ", "\t", "![a](b)", "e.g. A ", "\xff", "x\n\n"} {
		for _, b := range Parse(strings.Repeat(unit, 500<<10/len(unit)), "a.md") {
			for _, s := range Sentences(b.Text) {
				assert.True(t, utf8.ValidString(s), unit)
			}
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "word": 1, "a word": 2, "internationalization": 3, "12345": 2, "a\n\n\nb": 3, "世界世界": 4, "f(x)": 4, "...": 2,
	} {
		assert.Equal(t, want, Tokens(text), text)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range documents {
		f.Add(read(f, name), name)
	}
	f.Add("[a](b [c](d ![e](f `g ``h <i <!-- j **k** \\", "x.md")
	f.Add("/*\n * a\n */\nfunc x() {}\n# b\n\"\"\"c\"\"\"", "x.py")
	f.Fuzz(func(t *testing.T, text, name string) {
		for _, b := range Parse(text, name) {
			if b.Text == "" || strings.Contains(b.Text, "\n") || !utf8.ValidString(b.Text) {
				t.Errorf("block %q", b.Text)
			}
			if b.Kind == Heading && (b.Level < 1 || b.Level > 6) {
				t.Errorf("heading of level %d", b.Level)
			}
			for _, s := range Sentences(b.Text) {
				if strings.TrimSpace(s) != s || s == "" || !strings.Contains(b.Text, s) {
					t.Errorf("sentence %q of %q", s, b.Text)
				}
			}
		}
	})
}
