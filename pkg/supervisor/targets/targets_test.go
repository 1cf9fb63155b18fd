package targets

import (
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pairs are targets, and whether some path is in both.
var pairs = []struct {
	a, b string
	want bool
}{
	// paths
	{"src/a.go", "src/a.go", true},
	{"./src/a.go", "src/a.go", true},
	{"src//a.go", "src/a.go", true},
	{"src/x/../a.go", "src/a.go", true},
	{"/src/a.go", "src/a.go", true},
	{"src/a.go", "src/b.go", false},
	{"src/a.go", "src/A.go", false},
	{"src/a", "src/a.go", false},
	{".", "src/a.go", true},
	{"/", "src", true},
	{"", "x", true},
	// folders
	{"src", "src/a.go", true},
	{"src/", "src/a.go", true},
	{"src/app", "src/app2", false},
	{"src/app", "src/app2/x.go", false},
	{"src/app", "src/app/x/y/z.go", true},
	{"src", "src", true},
	{"src", "lib", false},
	{"a/b", "b", false},
	{"src/app", "src", true},
	// * and ?
	{"*.go", "a.go", true},
	{"*.go", "a.md", false},
	{"*.go", "src/a.go", false},
	{"src/*.go", "src/a.go", true},
	{"src/*.go", "src/app/a.go", false},
	{"src/*", "src/a.go", true},
	{"src/*", "src/app/a.go", false},
	{"src/*", "src/app", true},
	{"src/*", "src", true}, // the folder contains what the glob matches
	{"*/a.go", "src", true},
	{"s*/a.go", "src", true},
	{"s*/a.go", "lib", false},
	{"src/*.go", "src/*.md", false},
	{"src/a*", "src/*z", true},
	{"src/a*", "src/b*", false},
	{"src/a*.go", "src/*b.go", true},
	{"src/a*c", "src/ac", true},
	{"src/a*c", "src/a", false},
	{"src/?.go", "src/a.go", true},
	{"src/?.go", "src/ab.go", false},
	{"src/??.go", "src/*.go", true},
	{"src/?", "src/*b", true},
	{"a*b*c", "axbyc", true},
	{"a*b*c", "acb", false},
	{"src/é?", "src/éé", true},
	// **
	{"**", "src/a.go", true},
	{"**/*.go", "src/a.go", true},
	{"**/*.go", "a.go", true},
	{"**/*.go", "docs/a.md", true}, // docs/a.md may be a folder
	{"**/*.go", "src", true},
	{"**/*.go", "**/*.md", false},
	{"src/**", "src", true},
	{"src/**", "src/a/b/c", true},
	{"src/**", "src2", false},
	{"src/**/a.go", "src/a.go", true},
	{"src/**/a.go", "src/x/y/a.go", true},
	{"src/**/a.go", "lib/a.go", false},
	{"src/**/test/*.go", "src/x/test/a.go", true},
	{"src/**/test/*.go", "src/*/main.go", true},
	{"src/**/test/*.go", "src/main.go", true}, // a folder main.go
	{"src/**/test/*.go", "src/*/main.md", false},
	{"src/**/x", "**/y/x", true},
	{"**/a/**", "b/a/c", true},
	{"a/**/b", "a/**/c", false},
	{"a/**/b", "*/c/b", true},
	{"a**b", "acb", true},
	{"a**b", "ac/cb", false},
	{"src/**/*", "src", true},
	// classes
	{"src/[ab].go", "src/a.go", true},
	{"src/[ab].go", "src/c.go", false},
	{"src/[!ab].go", "src/a.go", false},
	{"src/[!ab].go", "src/c.go", true},
	{"src/[^ab].go", "src/[a-c].go", true},
	{"src/[a-c].go", "src/[d-f].go", false},
	{"src/[a-d].go", "src/[d-f].go", true},
	{"src/[!a].go", "src/[a].go", false},
	{"src/[!a].go", "src/[!b].go", true},
	{"src/[]].go", "src/].go", true},
	{"src/[a", "src/[a", true}, // malformed: anything that begins like it
	{"src/[a", "src/b", true},
	{"src/[a", "lib/b", false},
	// names with brackets, as they are spelled
	{"app/[id]/page.tsx", "app/[id]/page.tsx", true},
	{"app/[id]", "app/[id]/page.tsx", true},
	{"app/[id]/*.tsx", "app/[[]id]/page.tsx", true},
	{"app/[id]/*.tsx", "app/[slug]/page.tsx", false},
	{"app/[id]/page.tsx", "app/*/page.tsx", true},
	{`src/a\*`, "src/a*", true},
	{`src/a\*`, "src/ab", false},
	// braces
	{"src/{a,b}.go", "src/a.go", true},
	{"src/{a,b}.go", "src/c.go", false},
	{"{src,lib}/a.go", "lib", true},
	{"{src,lib}/a.go", "docs", false},
	{"{src,lib}/**", "lib/x/y", true},
	{"src/{a,b/c}.go", "src/b/c.go", true},
	{"src/{a,{b,c}}.go", "src/c.go", true},
	{"src/{a,b}.go", "src/{b,c}.go", true},
	{"src/{a,b}.go", "src/{c,d}.go", false},
	{"src/{a*,b}", "src/ax", true},
	{"src/a{,_test}.go", "src/a.go", true},
	{"src/a{,_test}.go", "src/a_test.go", true},
	{"src/a{,_test}.go", "src/b_test.go", false},
	{"src/{**/,}x", "src/x", true}, // cannot be decided
	{"src/**{/b,}", "src/b", true}, // cannot be decided
	{"src/{a,b", "src/c", true},    // malformed
	{"src/{../lib,x}/a", "lib/a", true},
}

func TestOverlap(t *testing.T) {
	require.GreaterOrEqual(t, len(pairs), 60)
	for _, p := range pairs {
		a, b := Parse(p.a, false), Parse(p.b, false)
		assert.Equal(t, p.want, Overlap(a, b), "%s and %s", p.a, p.b)
		assert.Equal(t, p.want, Overlap(b, a), "%s and %s", p.b, p.a)
		if !p.want { // whatever case means
			continue
		}
		assert.True(t, Overlap(Parse(p.a, true), Parse(strings.ToUpper(p.b), true)), "folded: %s and %s", p.a, p.b)
	}
}

func TestFold(t *testing.T) {
	overlap := func(a, b string) bool { return Overlap(Parse(a, true), Parse(b, true)) }
	assert.True(t, overlap("src/README.md", "SRC/readme.MD"))
	assert.True(t, overlap("src/*.go", "SRC/A.GO"))
	assert.True(t, overlap("src/[A-z].go", "src/_.go"))
	assert.True(t, overlap("caf\u00e9", "cafe\u0301"), "composed or not")
	assert.True(t, overlap("\u212a", "k"), "the sign of kelvin")
	assert.False(t, overlap("src/a.go", "src/b.go"))
}

// A long glob is not compiled: it overlaps with all that begins like it.
func TestLongGlob(t *testing.T) {
	const n = 2 << 20
	long := Parse("src/"+strings.Repeat("{", n)+"a"+strings.Repeat("}", n), false)
	assert.True(t, Overlap(long, Parse("src/x", false)))
	assert.False(t, Overlap(long, Parse("lib/x", false)))
}

// A path that is a file has nothing below it.
func TestAsFile(t *testing.T) {
	readme := Parse("src/README.md", false)
	sources := Parse("src/**/*.go", false)
	assert.True(t, Overlap(readme, sources))
	assert.False(t, Overlap(readme.AsFile(), sources))
	assert.False(t, Overlap(readme.AsFile(), Parse("src/README.md/x", false)))
	assert.True(t, Overlap(readme.AsFile(), Parse("src/*", false)))
	assert.True(t, Overlap(readme.AsFile(), Parse("src", false)))
}

func TestContains(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"src", "src/a.go", true}, {"src", "src", true}, {"src", "src/*.go", true}, {"src", "src/**/x", true},
		{".", "**/x", true}, {".", "a", true}, {"src", "src2", false}, {"src", "src*", false}, {"src", "*", false},
		{"src/*.go", "src/*.go", true}, {"src/*.go", "src/a.go", false}, {"src/a.go", "src", false},
		{"src/app", "src/app[12]", false},
	} {
		assert.Equal(t, c.want, Contains(Parse(c.a, false), Parse(c.b, false)), "%s in %s", c.b, c.a)
	}
	assert.False(t, Contains(Parse("a", false).AsFile(), Parse("a", false)))
	assert.True(t, Contains(Parse("src/*.go", false), Parse("src/a.go", false).AsFile()))
	assert.False(t, Contains(Parse("src/*.go", false), Parse("src/a.md", false).AsFile()))
	assert.True(t, Target{}.Anything())
	assert.True(t, Parse("**", false).Anything())
	assert.False(t, Parse("a", false).Anything())
}

func TestCovers(t *testing.T) {
	assert.True(t, Parse("src/*.go", false).Covers("src/a.go"))
	assert.True(t, Parse("src/*", false).Covers("src/[a]{b"), "any name")
	assert.False(t, Parse("src/*.go", false).Covers("src/a/b.go"))
	assert.False(t, Parse("src/a/*", false).Covers("src/a"))
}

// names are all paths over a small alphabet, as they exist in some tree.
func names() (all []string) {
	parts := []string{"a", "b", "ab", "ba", "abc", "[a]", "c"}
	for _, x := range parts {
		all = append(all, x)
		for _, y := range parts {
			all = append(all, x+"/"+y)
			for _, z := range parts {
				all = append(all, x+"/"+y+"/"+z)
				for _, w := range parts[:4] {
					all = append(all, x+"/"+y+"/"+z+"/"+w)
				}
			}
		}
	}
	return all
}

// in says by another library whether a path is in a target.
func in(text, name string) bool {
	for strings.HasSuffix(text, "/**/**") { // the library has a in a/**, but not in a/**/**/**
		text = strings.TrimSuffix(text, "/**")
	}
	if ok, err := doublestar.Match(text, name); err == nil && ok {
		return true
	}
	if above, all := strings.CutSuffix(text, "*/**"); all { // the library has a in a/**, but not in *a*/**
		if ok, err := doublestar.Match(above+"*", name); err == nil && ok {
			return true
		}
	}
	if !strings.ContainsAny(text, meta) {
		return name == text || strings.HasPrefix(name, text+"/")
	}
	return strings.ContainsAny(text, spelled) && !strings.ContainsAny(text, "*?") &&
		(name == text || strings.HasPrefix(name, text+"/"))
}

// part is one name of a generated target.
func part(t *rapid.T, globs bool) string {
	if !globs {
		return rapid.SampledFrom([]string{"a", "b", "ab", "abc"}).Draw(t, "name")
	}
	return rapid.SampledFrom([]string{
		"a", "b", "ab", "abc", "*", "**", "?", "a*", "*b", "*a*", "[ab]", "[!a]", "[a-b]b", "{a,b}", "{a,ab}c", "a?",
		"a{,b}", "[a]", `\[a]`, "{*a,b/c}", "?[^b]", "**c",
	}).Draw(t, "part")
}

func target(t *rapid.T) string {
	globs := rapid.IntRange(0, 3).Draw(t, "globs") > 0
	n := rapid.IntRange(1, 4).Draw(t, "parts")
	parts := make([]string, n)
	for i := range parts {
		parts[i] = part(t, globs)
	}
	return strings.Join(parts, "/")
}

// TestPaths compares [Overlap] with all paths of a small alphabet: no path that is in both may be missed,
// and two targets that overlap have one, at least in another alphabet.
func TestPaths(t *testing.T) {
	all := names()
	needless, total := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := target(t), target(t)
		got, want, where := Overlap(Parse(a, false), Parse(b, false)), false, ""
		for _, name := range all {
			if in(a, name) {
				if !Parse(a, false).Covers(name) {
					t.Fatalf("%q does not cover %q", a, name)
				}
				if in(b, name) {
					want, where = true, name
				}
			} else if !strings.ContainsAny(a, spelled) && Parse(a, false).Covers(name) {
				t.Fatalf("%q covers %q", a, name)
			}
		}
		if want && !got {
			t.Fatalf("%q and %q have %q in common", a, b, where)
		}
		if total++; got && !want {
			needless++
		}
	})
	t.Logf("%d of %d pairs overlap only in other alphabets, or cannot be decided", needless, total)
	if total >= 100 { // few pairs say nothing
		assert.Less(t, needless*4, total, "too careful")
	}
}

// TestContainsAll: what contains another target has all its paths, and overlaps with all that the other overlaps with.
func TestContainsAll(t *testing.T) {
	all := names()
	contained := 0
	rapid.Check(t, func(t *rapid.T) {
		draw := func() Target {
			own := Parse(target(t), false)
			if rapid.Bool().Draw(t, "file") {
				own = own.AsFile()
			}
			return own
		}
		a, b, c := draw(), draw(), draw()
		if !Contains(a, b) {
			return
		}
		contained++
		for _, name := range all {
			if b.Covers(name) && !a.Covers(name) {
				t.Fatalf("%q is in %v, and not in %v", name, b, a)
			}
		}
		if Overlap(b, c) && !Overlap(a, c) {
			t.Fatalf("%v overlaps with %v, and %v does not", c, b, a)
		}
	})
	t.Logf("%d pairs", contained)
}

// TestIndex compares an [Index] with a list, while targets come and go.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x Index[int]
		have := map[Ref]Target{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(have) > 0 && rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				for at := range have {
					x.Remove(at)
					delete(have, at)
					break
				}
				continue
			}
			own := Parse(target(t), false)
			if rapid.Bool().Draw(t, "file") {
				own = own.AsFile()
			}
			found := map[Ref]bool{}
			for _, at := range x.Overlapping(own, nil) {
				if found[at] {
					t.Fatalf("%v is found twice for %v", have[at], own)
				}
				found[at] = true
			}
			for at, other := range have {
				if Overlap(own, other) != found[at] {
					t.Fatalf("%v and %v: found %v", own, other, found[at])
				}
			}
			at := x.Add(own, i)
			have[at] = own
			if kept, value := x.At(at); kept != own || value != i {
				t.Fatalf("kept %v", kept)
			}
		}
	})
}

func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b blocks
		have := map[string]bool{}
		for range rapid.IntRange(1, 3000).Draw(t, "steps") {
			s := rapid.StringMatching("[a-c]{1,7}").Draw(t, "s")
			if have[s] {
				b.remove(s)
				delete(have, s)
			} else {
				b.insert(s)
				have[s] = true
			}
		}
		prefix, n, before := rapid.StringMatching("[a-c]{0,2}").Draw(t, "prefix"), 0, ""
		b.each(prefix, "", func(s string) {
			if !have[s] || s <= before || !strings.HasPrefix(s, prefix) {
				t.Fatalf("%q after %q", s, before)
			}
			before = s
			n++
		})
		for s := range have {
			if strings.HasPrefix(s, prefix) {
				n--
			}
		}
		if n != 0 {
			t.Fatalf("%d too many with %q", n, prefix)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, p := range pairs {
		f.Add(p.a, p.b)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, fold := range []bool{false, true} {
			x, y := Parse(a, fold), Parse(b, fold)
			if Overlap(x, y) != Overlap(y, x) {
				t.Fatalf("%v and %v: the order counts", x, y)
			}
			if !Overlap(x, x) && x.kind != glob { // a class like [!\x00-\U0010ffff] has no path
				t.Fatalf("%v does not overlap with itself", x)
			}
			if !Overlap(x, Target{}) && x.kind != glob {
				t.Fatalf("%v is nowhere", x)
			}
			var index Index[int]
			at := index.Add(x, 0)
			if (len(index.Overlapping(y, nil)) > 0) != Overlap(x, y) {
				t.Fatalf("%v and %v: the index says something else", x, y)
			}
			index.Remove(at)
			x.Covers(b)
		}
	})
}
