package edit

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// apply is what an edit makes of a content.
func apply(t testing.TB, content, old, new string) (string, error) {
	t.Helper()
	e, err := New(old, new)
	if err != nil {
		return "", err
	}
	s, err := e.Find([]byte(content))
	if err != nil {
		return "", err
	}
	return string(s.Apply([]byte(content))), nil
}

func TestFind(t *testing.T) {
	for _, c := range []struct{ content, old, new, want string }{
		{"one two", "two", "2", "one 2"},
		{"a\nb\nc\n", "b\n", "", "a\nc\n"},
		{"a\nb", "b", "c\nd", "a\nc\nd"},
		{"a\r\nb\r\nc", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc"},
		{"a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"},
		{"a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"},
		{"a\nb\n", "a\r\nb\r\n", "x\r\ny\r\n", "x\ny\n"},
		{"\ufeffa\r\nb\r\n", "a\n", "x\n", "\ufeffx\r\nb\r\n"},
		{"\ufeffa\n", "\ufeffa", "b", "\ufeffb\n"},
		{"a\r\nb\nc\nd", "b\nc", "x\ny", "a\r\nx\ny\nd"},     // mixed: as it is
		{"a\r\nb\nc\r\nd", "a\nb", "x\ny", "x\r\ny\nc\r\nd"}, // mixed: as the place
		{"a\r\nb\nc\r\nd", "a\nb\nc", "x\ny", "x\ny\r\nd"},   // mixed itself
		{"a\nb\na\r\nb\n", "a\nb\n", "", "a\r\nb\n"},         // mixed: as it is, where it is once
		{"\xff\xfeé\n", "é", "e", "\xff\xfee\n"},
	} {
		got, err := apply(t, c.content, c.old, c.new)
		require.NoError(t, err, "%q", c)
		assert.Equal(t, c.want, got, "%q", c)
	}
}

func TestFindFails(t *testing.T) {
	for _, c := range []struct{ content, old, new, want string }{
		{"a", "", "b", "old_text is empty: give the text to replace, or use create_file or write_file"},
		{"a", "\ufeff", "b", "old_text is empty: give the text to replace, or use create_file or write_file"},
		{"a", "a", "a", "old_text and new_text are the same: nothing would change"},
		{"", "a", "b", "old_text is not there"},
		{"a\nb\na\n\na", "a", "b",
			"old_text is there 3 times, at lines 1, 3, 5: give more of the text around it, so that it is there once"},
		{"aaa", "aa", "b",
			"old_text overlaps itself at line 1: give more of the text around it, so that it is there once"},
		{strings.Repeat("a\n", 99), "a\n", "",
			"old_text is there 99 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and others: " +
				"give more of the text around it, so that it is there once"},
		{"a\r\nb\nx\na\nb\r\nx", "a\r\nb\r\n", "c",
			"old_text is there 2 times, at lines 1, 4: give more of the text around it, so that it is there once"},
	} {
		_, err := apply(t, c.content, c.old, c.new)
		assert.EqualError(t, err, c.want, "%q", c)
	}
}

// texts draws texts in which everything happens that lines can do.
func texts(t *rapid.T, label string, most int) string {
	piece := rapid.SampledFrom([]string{"a", "b", "ab", " ", "\n", "\r\n", "\r", "é", "\xff", "\ufeff"})
	return strings.Join(rapid.SliceOfN(piece, 0, most).Draw(t, label), "")
}

// An edit is one replacement, whatever the lines end with, and is refused where
// there is not one place.
func TestEditIsOneReplacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := texts(t, "content", 30)
		switch rapid.IntRange(0, 2).Draw(t, "ends") {
		case 1:
			content = lf.apply(content)
		case 2:
			content = crlf.apply(content)
		}
		old := texts(t, "old", 4)
		if rapid.Bool().Draw(t, "part") && content != "" {
			from := rapid.IntRange(0, len(content)-1).Draw(t, "from")
			old = content[from:rapid.IntRange(from+1, len(content)).Draw(t, "to")]
		}
		checkEdit(t, content, old, texts(t, "new", 6))
	})
}

func FuzzEdit(f *testing.F) {
	f.Add("a\r\nb\r\n", "a\n", "x\n")
	f.Add("\ufeffa\nb\r\n", "a\nb", "")
	f.Add("aaa", "aa", "b")
	f.Add("\r\r\n\n", "\r\n", "\n")
	f.Fuzz(func(t *testing.T, content, old, new string) { checkEdit(t, content, old, new) })
}

type fataler interface {
	Fatalf(format string, args ...any)
}

// places counts where old is in content; places that overlap count.
func places(content, old string) (n int) {
	for i := range len(content) - len(old) + 1 {
		if strings.HasPrefix(content[i:], old) {
			n++
		}
	}
	return n
}

func checkEdit(t fataler, content, old, new string) {
	e, err := New(old, new)
	if err != nil {
		return
	}
	old, new = strings.TrimPrefix(old, bom), strings.TrimPrefix(new, bom)
	s, err := e.Find([]byte(content))
	got := ""
	if err == nil {
		got = string(s.Apply([]byte(content)))
	} else {
		e.Nearest([]byte(content)) // does not fail either
	}
	style := lineEnds([]byte(content))
	o, n := style.apply(old), style.apply(new)
	if style == mixed && places(content, o) == 0 {
		// Without regard to line ends: what is compared has none but LF.
		content, o, n = lf.apply(content), lf.apply(old), lf.apply(new)
		got = lf.apply(got)
		if strings.Contains(content, "\r\n") || strings.HasSuffix(n, "\r") {
			return // CR CR LF: the comparison itself is not exact
		}
	}
	want := strings.Replace(content, o, n, 1)
	if k := places(content, o); (k == 1) != (err == nil) {
		t.Fatalf("%d places, %v: %q in %q", k, err, o, content)
	}
	if err == nil && got != want {
		t.Fatalf("%q, not %q: %q to %q in %q", got, want, o, n, content)
	}
}

func TestNearest(t *testing.T) {
	content := "package a\n\nfunc One() error {\n\treturn nil\n}\n\nfunc Two(name string) error {\n" +
		"\treturn errors.New(name)\n}\n"
	for _, c := range []struct{ content, old, want string }{
		{content, "func One() error {\n    return nil\n}",
			"only the white space differs, lines 3-5:\nfunc One() error {\n\treturn nil\n}"},
		{content, "func One()  error {", "only the white space differs, line 3:\nfunc One() error {"},
		{content, "func Two(n string) error {\n\treturn errors.New(n)\n}",
			"the nearest is lines 7-9:\nfunc Two(name string) error {\n\treturn errors.New(name)\n}"},
		{content, "  return errors.New(nam)", "the nearest is line 8:\n\treturn errors.New(name)"},
		{strings.ReplaceAll(content, "\n", "\r\n"), "func Won() error {\n\treturn nil\n}",
			"the nearest is lines 3-5:\nfunc One() error {\n\treturn nil\n}"},
		{content, "SELECT * FROM users WHERE 1", "nothing is like it: read the file again"},
		{"", "x", "nothing is like it: read the file again"},
		{"caf\xe9 au lait\n", "caf\ufffd au lait",
			"the file is not UTF-8: leave out what was shown as U+FFFD. the nearest is line 1:\ncaf\xe9 au lait"},
	} {
		e, err := New(c.old, "?")
		require.NoError(t, err)
		assert.Equal(t, c.want, e.Nearest([]byte(c.content)), c.old)
	}
}

// Of a long text the lines are shown where it begins to differ.
func TestNearestOfALongText(t *testing.T) {
	var content, old strings.Builder
	for i := range 100 {
		fmt.Fprintf(&content, "the line of number %d\n", i)
		if i == 60 {
			old.WriteString("something else\n")
		} else {
			fmt.Fprintf(&old, "the line of number %d\n", i)
		}
	}
	e, err := New(old.String(), "?")
	require.NoError(t, err)
	got := e.Nearest([]byte(content.String()))
	assert.True(t, strings.HasPrefix(got, "the nearest is lines 56-75:\nthe line of number 55\n"), got)
	assert.Equal(t, maxNearest, strings.Count(got, "\n"))
}

// The search for the nearest place is bounded, in time and in what it shows.
func TestNearestIsBounded(t *testing.T) {
	for name, content := range map[string]string{
		"lines": strings.Repeat("some words of a line that is much like others\n", 110_000),
		"wide":  strings.Repeat("some words of a line ", 250_000),
		"empty": strings.Repeat("\n", 5<<20),
		"same":  strings.Repeat("a", 5<<20),
	} {
		for _, old := range []string{"some words of a lime", strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 20_000) +
			"b", strings.Repeat("a", 1<<20) + "b"} {
			e, err := New(old, "?")
			require.NoError(t, err)
			start := time.Now()
			got := e.Nearest([]byte(content))
			assert.Less(t, time.Since(start), 5*time.Second, name)
			assert.Less(t, len(got), maxNearest*(maxShown+50), name)
		}
	}
}

func TestDiff(t *testing.T) {
	var b strings.Builder
	for i := 1; i <= 20; i++ {
		fmt.Fprintf(&b, "%d\n", i)
	}
	before := b.String()
	for _, c := range []struct{ before, after, want string }{
		{before, strings.Replace(before, "10\n", "ten\nzehn\n", 1),
			"@@ -7,7 +7,8 @@\n 7\n 8\n 9\n-10\n+ten\n+zehn\n 11\n 12\n 13"},
		{before, before + "21", "@@ -18,3 +18,4 @@\n 18\n 19\n 20\n+21\n\\ No newline at end of file"},
		{before, strings.Replace(strings.Replace(before, "2\n", "", 1), "20\n", "x\n", 1),
			"@@ -1,5 +1,4 @@\n 1\n-2\n 3\n 4\n 5\n@@ -17,4 +16,4 @@\n 17\n 18\n 19\n-20\n+x"},
		{"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b"},
		{"a\n", "", "@@ -1 +0,0 @@\n-a"},
		{"a\r\nb\r\n", "a\r\nc\r\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c"},
		{"a\r\nb\r\n", "a\nb\r\n", "@@ -1,2 +1,2 @@\n-a␍\n+a\n b␍"},
		{"", "a\r\n", "@@ -0,0 +1 @@\n+a␍"},
		{"a\n", "\x1b[2Ja\u202e\n", "@@ -1 +1 @@\n-a\n+␛[2Ja<U+202E>"},
	} {
		diff, whole := Diff("f", []byte(c.before), []byte(c.after))
		assert.Equal(t, "--- f\n+++ f\n"+c.want, diff)
		assert.True(t, whole)
	}
	diff, whole := Diff("f", []byte("a\n"), []byte("a\n"))
	assert.Empty(t, diff)
	assert.True(t, whole)
}

func TestDiffIsBounded(t *testing.T) {
	many := func(word string, n int) []byte { return bytes.Repeat([]byte(word+"\n"), n) }
	for name, c := range map[string]struct{ before, after []byte }{
		"rewritten": {many("old", 200_000), many("new", 300_000)},
		"wide many": {nil, many(strings.Repeat("x", 10_000), 200)},
		"one line":  {nil, bytes.Repeat([]byte("é"), 2<<20)},
		"spelled":   {nil, bytes.Repeat([]byte("\xff"), maxDiff/4)},
	} {
		got, whole := Diff("f", c.before, c.after)
		assert.False(t, whole, name)
		assert.LessOrEqual(t, len(got), maxDiff+100, name)
		assert.Regexp(t, `…\n\[\d+ more lines\]$`, got, name)
	}
	for name, c := range map[string]struct {
		before, after []byte
		mark          string
		count         int
	}{
		"10,000 lines": {many("old", 10_000), many("new", 10_000), "\n+new", 10_000},
		"one line":     {nil, bytes.Repeat([]byte("é"), 200_000), "é", 200_000},
		"scattered": {bytes.Repeat([]byte("a\nb\nc\nd\ne\nf\ng\nh\ni\n"), 3000),
			bytes.Repeat([]byte("a\nb\nc\nd\nX\nf\ng\nh\ni\n"), 3000), "\n+X", 3000},
	} {
		got, whole := Diff("f", c.before, c.after)
		assert.True(t, whole, name)
		assert.Equal(t, c.count, strings.Count(got, c.mark), name)
	}
}

// A diff says what changes: made undone from the new content, it is the old.
func TestDiffIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "d\n"})
		before := strings.Join(rapid.SliceOfN(line, 0, 40).Draw(t, "before"), "")
		after := strings.Join(rapid.SliceOfN(line, 0, 40).Draw(t, "after"), "")
		diff, _ := Diff("f", []byte(before), []byte(after))
		got := patch(strings.SplitAfter(before, "\n"), diff)
		if got != after {
			t.Fatalf("%q, not %q", got, after)
		}
	})
}

// patch makes the change that a diff shows, and looks at each line that it says
// to be there.
func patch(lines []string, diff string) string {
	var out strings.Builder
	at := 0
	for _, l := range strings.Split(diff, "\n") {
		var from int
		switch {
		case l == "" || strings.HasPrefix(l, "---") || strings.HasPrefix(l, "+++"):
		case strings.HasPrefix(l, "@@"):
			fmt.Sscanf(l, "@@ -%d", &from)
			for ; at < from-1; at++ {
				out.WriteString(lines[at])
			}
		case l[0] == '+':
			out.WriteString(l[1:] + "\n")
		case lines[at] != l[1:]+"\n":
			return "not there: " + l
		default:
			if l[0] == ' ' {
				out.WriteString(lines[at])
			}
			at++
		}
	}
	return out.String() + strings.Join(lines[at:], "")
}
