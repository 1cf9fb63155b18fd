package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func plain(file string, number int, line []byte, match bool) string {
	mark := "-"
	if match {
		mark = ":"
	}
	return fmt.Sprintf("%s%s%d%s%s", file, mark, number, mark, line)
}

func search(t testing.TB, pattern string, ignoreCase bool) Search {
	t.Helper()
	p, err := Compile(pattern, ignoreCase)
	require.NoError(t, err)
	return Search{Pattern: p, Limit: 100, Show: plain}
}

func texts(r Report) (lines []string) {
	for _, b := range r.Blocks {
		lines = append(lines, b.Text)
	}
	return lines
}

func TestCompileFindsNeedles(t *testing.T) {
	for _, test := range []struct {
		pattern string
		fold    bool
		want    []string
	}{
		{`func Main`, false, []string{"func Main"}},
		{`\w+Error\(`, false, []string{"Error("}},
		{`^\s*type (\w+) struct`, false, []string{" struct"}},
		{`TODO|FIXME`, false, []string{"TODO", "FIXME"}},
		{`(foo|bar)+baz?`, false, []string{"foo", "bar"}},
		{`(abc){2,3}`, false, []string{"abc"}},
		{`(abc)*`, false, nil},
		{`(abc)?x`, false, []string{"x"}},
		{`foo|\d+`, false, nil},
		{`[a-z]+`, false, nil},
		{`Session`, true, []string{"e", "ion"}[1:]},
		{`SKS`, true, nil},
		{`größe`, true, []string{"gr"}},
		{`a|b|c|d|e|f|g|h|i`, false, nil},
	} {
		p, err := Compile(test.pattern, test.fold)
		require.NoError(t, err)
		var got []string
		for _, n := range p.needles {
			got = append(got, n.text)
			assert.Equal(t, test.fold, n.fold, test.pattern)
		}
		assert.Equal(t, test.want, got, test.pattern)
	}
}

func TestCompileErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		`(`: "pattern is no RE2 expression (no look-around, no back-references): missing " +
			"closing ): (",
		`(?=x)`:                   "invalid or unsupported Perl syntax: (?=",
		`a\nb`:                    "pattern contains a newline",
		strings.Repeat("x", 5000): "pattern is longer than 4096 bytes",
	} {
		_, err := Compile(pattern, false)
		assert.ErrorContains(t, err, want)
	}
}

// Whatever the way to find them, the lines are those that the expression
// matches one by one.
func TestLinesAgainstEachLine(t *testing.T) {
	atoms := []string{"foo", "Bar", "k", "s", "é", `\d`, `[a-c]+`, `\bx`, `^`, `$`, ".", "(?:ab|BA)", "x*", `\s`,
		`[^a]`, `\A`, `\z`, "(?i:bs)", "(?s:.*)", "a{2}"}
	letters := []string{"f", "foo", "FOO", "bar", "Bar", "k", "K", "\u212a", "s", "ſ", "é", "É", "\xff", "1", "abc",
		"x", "ab", "BA", "aa", " ", "\n", "\n", "\r\n", "\t"}
	rapid.Check(t, func(t *rapid.T) {
		join := func(s []string) string { return strings.Join(s, "") }
		pattern := rapid.Custom(func(t *rapid.T) string {
			s := join(rapid.SliceOfN(rapid.SampledFrom(atoms), 1, 4).Draw(t, "atoms"))
			if rapid.Bool().Draw(t, "either") {
				s += "|" + join(rapid.SliceOfN(rapid.SampledFrom(atoms), 1, 3).Draw(t, "or"))
			}
			return s
		}).Draw(t, "pattern")
		fold := rapid.Bool().Draw(t, "fold")
		text := join(rapid.SliceOfN(rapid.SampledFrom(letters), 0, 40).Draw(t, "text"))
		p, err := Compile(pattern, fold)
		if err != nil {
			t.Skip()
		}
		expression := pattern
		if fold {
			expression = "(?i)" + pattern
		}
		re := regexp.MustCompile(expression)
		var want, got []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); re.MatchString(line) {
				want = append(want, line)
			}
		}
		p.lines([]byte(text), func(start, end int) { got = append(got, text[start:end]) })
		if !assert.ObjectsAreEqual(want, got) {
			t.Fatalf("want %q, got %q", want, got)
		}
	})
}

// The letters k and s have a third form, which a search for two would miss.
func TestLinesFoldBeyondASCII(t *testing.T) {
	for pattern, line := range map[string]string{"k": "\u212a", "s": "ſ", "ask": "aſ\u212a", "MISS": "mi\u017fS",
		"É": "é", "rx": "RX"} {
		p, err := Compile(pattern, true)
		require.NoError(t, err)
		found := 0
		p.lines([]byte("zz\n"+line+"\nzz"), func(start, end int) { found++ })
		assert.Equal(t, 1, found, pattern)
	}
}

func TestSearchTree(t *testing.T) {
	files := map[string]string{
		"b.txt": "one\ntwo needle\n", "a/x.txt": "needle", "a-b.txt": "no\n\nneedle\r\n", "bin": "needle\x00",
		".gitignore": "ig", "ig": "needle",
	}
	for i := range 200 { // more than a batch
		files[fmt.Sprintf("many/%03d", i)] = "x\nneedle here\n"
	}
	root := plant(t, files)
	require.NoError(t, os.Symlink("b.txt", root.Name()+"/link"))
	for _, workers := range []int{1, 3} {
		s := search(t, "needle", false)
		s.Limit, s.Workers = 1000, workers
		r, err := s.Tree(context.Background(), root, ".")
		require.NoError(t, err)
		got := texts(r)
		assert.Equal(t, 203, r.Matches)
		require.Len(t, got, 203)
		assert.Equal(t, []string{"a-b.txt:3:needle\r", "a/x.txt:1:needle", "b.txt:2:two needle",
			"many/000:2:needle here"}, got[:4])
		assert.Equal(t, "many/199:2:needle here", got[202])

		s.Limit = 5
		r, err = s.Tree(context.Background(), root, ".")
		require.NoError(t, err)
		assert.Equal(t, 203, r.Matches)
		assert.Equal(t, got[:5], texts(r))

		s.Wants = func(file string) bool { return strings.HasPrefix(file, "a") }
		r, err = s.Tree(context.Background(), root, ".")
		require.NoError(t, err)
		assert.Equal(t, got[:2], texts(r))
	}
}

func TestSearchContext(t *testing.T) {
	root := plant(t, map[string]string{"f": "1\nhit\n3\nhit\n5\n6\n7\n8\n9\nhit", "g": "hit\n2"})
	s := search(t, "hit", false)
	s.Context = 2
	r, err := s.Tree(context.Background(), root, ".")
	require.NoError(t, err)
	assert.Equal(t, []Block{
		{"f-1-1\nf:2:hit\nf-3-3", true},
		{"f:4:hit\nf-5-5\nf-6-6", false},
		{"f-8-8\nf-9-9\nf:10:hit", true},
		{"g:1:hit\ng-2-2", true},
	}, r.Blocks)
}

// Files larger than the buffer are searched in pieces, with the right numbers.
func TestSearchLargeFile(t *testing.T) {
	var text bytes.Buffer
	var want []string
	for n := 1; text.Len() < 3*maxChunk; n++ {
		if n%10_000 == 0 {
			fmt.Fprintf(&text, "needle %d\n", n)
			want = append(want, fmt.Sprintf("big:%d:needle %d", n, n))
			continue
		}
		fmt.Fprintf(&text, "some line that is not looked for, number %d\n", n)
	}
	s := search(t, "needle", false)
	r, err := s.File(context.Background(), "big", &text)
	require.NoError(t, err)
	assert.Equal(t, want, texts(r))
	assert.Greater(t, len(want), 10)
}

func TestSearchLongLine(t *testing.T) {
	text := strings.NewReader("a\n" + strings.Repeat("x", 2*maxChunk) + "needle\nneedle\n")
	s := search(t, "needle", false)
	s.Show = func(_ string, number int, line []byte, _ bool) string { return fmt.Sprint(number, " ", len(line) > 0) }
	r, err := s.File(context.Background(), "long", text)
	require.NoError(t, err)
	assert.Equal(t, []string{"2 true", "3 true"}, texts(r))
}

func TestSearchFileErrors(t *testing.T) {
	s := search(t, "x", false)
	_, err := s.File(context.Background(), "b", strings.NewReader("x\x00"))
	assert.ErrorIs(t, err, ErrBinary)
	broken := errors.New("broken")
	_, err = s.File(context.Background(), "b", &failing{broken})
	assert.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestSearchEndsWithContext(t *testing.T) {
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("d%d/f", i)] = "x\n"
	}
	root := plant(t, files)
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	s := search(t, "x", false)
	s.Show = func(file string, number int, line []byte, match bool) string {
		cancel(stop)
		return plain(file, number, line, match)
	}
	_, err := s.Tree(ctx, root, ".")
	assert.ErrorIs(t, err, stop)
}

func BenchmarkSearchGoSource(b *testing.B) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(b, err)
	root, err := os.OpenRoot(filepath.Join(strings.TrimSpace(string(goroot)), "src"))
	if err != nil {
		b.Skip(err)
	}
	defer root.Close()
	for _, pattern := range []string{"ErrNotExist", `func \(\w+ \*Root\)`, `TODO|FIXME`, `(?i)deadlock`,
		`[A-Z]{3}_[0-9]+`, `[a-z]+[0-9]{4,}`} {
		b.Run(pattern, func(b *testing.B) {
			s := search(b, pattern, false)
			for b.Loop() {
				if _, err := s.Tree(context.Background(), root, "."); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
