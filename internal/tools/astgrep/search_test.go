package astgrep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/standin"
	"qq/pkg/proc"
)

func TestSearch(t *testing.T) {
	c := folder(t, astGrep(t), "b/a.go", source, "a.go", "package a\n\nfunc g() { f(nil) }\r\n", "a.py",
		"if err != nil: pass\n")
	assert.Equal(t, []string{"a.go:3: func g() { f(nil) }"}, c.grep(t, "pattern", "f(nil)", "lang", "go"))
	assert.Equal(t, []string{"b/a.go:8: \tif err != nil { [to line 10]"},
		c.grep(t, "pattern", "if $E != nil { $$$B }", "lang", "GoLang"))
	assert.Equal(t, []string{"[no matches]"}, c.grep(t, "pattern", "for { $$$B }", "lang", "go"))
	assert.Equal(t, []string{"a.go:3: func g() { f(nil) }", "b/a.go:7: func f(err error) error { [to line 16]"},
		c.grep(t, "pattern", "func $F($$$A) $$$R { $$$B }", "lang", "go"), "in the order of the paths")
	assert.Contains(t, strings.Join(c.grep(t, "pattern", "fmt.Errorf($A", "lang", "go"), "\n"),
		"[no matches]\n[Pattern contains an ERROR node")
}

// The pattern of a call finds calls in Go as well, where by itself it is read as
// a conversion.
func TestSearchFindsGoCalls(t *testing.T) {
	c := folder(t, astGrep(t), "a.go", source)
	errorf := []string{`a.go:9: 		return fmt.Errorf("x: %w", err)`, `a.go:11: 	x := fmt.Errorf("y")`,
		`a.go:14: 	return wrap(fmt.Errorf("z %d", 1, 2).`}
	assert.Equal(t, errorf, c.grep(t, "pattern", "fmt.Errorf($$$A)", "lang", "go"))
	assert.Equal(t, errorf[1:2], c.grep(t, "pattern", "fmt.Errorf($A)", "lang", "go"))
	assert.Equal(t, []string{"a.go:5: var top = errors.New(\"top\")"},
		c.grep(t, "pattern", "errors.New($A)", "lang", "go"), "outside of functions")
	for pattern, line := range map[string]string{
		"$X.Close()": "12: \tdefer x.Close()", "x.Close()": "12: \tdefer x.Close()",
		"[]byte($A)": "13: \tb := []byte(x)",
		"len($A)":    "15: \t\tUnwrap(), len(b))", "fmt.Errorf($$$A).Unwrap()": errorf[2][len("a.go:"):] +
			" [to line 15]",
		"return fmt.Errorf($$$A)": errorf[0][len("a.go:"):], "$X := fmt.Errorf($A)": errorf[1][len("a.go:"):],
	} {
		assert.Equal(t, []string{"a.go:" + line}, c.grep(t, "pattern", pattern, "lang", "go"), pattern)
	}
}

func TestIsGoCall(t *testing.T) {
	for _, yes := range []string{"f()", " fmt.Errorf($$$A) ", "$X.$F($$$)", "a.b().c(d(e), \")\", '\\'', `)`)",
		"string($A)", "µ(ä)"} {
		assert.True(t, isGoCall(yes), yes)
	}
	for _, no := range []string{"", "f", "f(", "f)(", "a, f()", "x := f()", "!f()", "a.f()+b()", "return f()",
		"func f()", "[]byte(x)", `"f()`,
		`"a"(b)`, "f(')", `f("`, "f() // )", "(f)(", "f[int](x)", "f())"} {
		assert.False(t, isGoCall(no), no)
	}
}

// Whatever a model writes, it is told something.
func TestPatternProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := query{lang: "go", pattern: rapid.StringMatching(`([a$.()"'\\ {}µ]|\$\$\$A|Errorf|if){0,12}`).Draw(t,
			"pattern")}
		args := q.args()
		assert.Equal(t, "--", args[len(args)-1])
		if isGoCall(q.pattern) {
			assert.True(t, strings.HasSuffix(strings.TrimSpace(q.pattern), ")"))
		}
		for _, w := range q.words() {
			assert.Contains(t, q.pattern, w)
		}
	})
}

func TestWords(t *testing.T) {
	for pattern, want := range map[string][]string{
		"fmt.Errorf($$$A)":               {"fmt", "Errorf"},
		"if $ERR != nil { return $$$ }":  {"nil", "return"},
		"a$bcd.größer($X) + 'some text'": {"some", "text"},
		"x = 1 // because":               nil,
		"$A":                             nil,
	} {
		assert.Equal(t, want, (&query{pattern: pattern, lang: "go"}).words(), pattern)
	}
	assert.Nil(t, (&query{pattern: "foreach ($a as $b) {}", lang: "php"}).words())
}

func TestSearchFiles(t *testing.T) {
	const code = "f(1)\n"
	c := folder(
		t,
		astGrep(t),
		"a.js",
		code,
		"sub/b.js",
		code,
		"sub/deep/c.mjs",
		code,
		".hidden/d.js",
		code,
		"e.py",
		code,
		"ignored.js",
		code,
		"sub/ignored.js",
		code,
		".gitignore",
		"ignored.js\n",
		".git/f.js",
		code,
		".env.js",
		code,
		"-x.js",
		code,
		"none",
		code,
	)
	require.NoError(t, c.Root.Symlink("sub", "link"))
	find := func(pairs ...any) (files []string) {
		for _, line := range c.grep(t, append(pairs, "pattern", "f($A)", "lang", "js")...) {
			file, _, _ := strings.Cut(line, ":")
			files = append(files, file)
		}
		return files
	}
	assert.Equal(t, []string{"-x.js", ".hidden/d.js", "a.js", "sub/b.js", "sub/deep/c.mjs"}, find())
	assert.Equal(t, []string{"sub/b.js"}, find("glob", "./sub/*.js"))
	assert.Equal(t, []string{"sub/deep/c.mjs"}, find("glob", "*.mjs", "path", "sub"))
	assert.Equal(t, []string{"sub/b.js", "sub/deep/c.mjs"}, find("path", "link/"),
		"a link is named by what it leads to")
	assert.Equal(t, []string{"sub/b.js"}, find("path", filepath.Join(c.Dir, "sub/b.js")))
	assert.Equal(t, []string{"-x.js"}, find("path", "-x.js"))
	assert.Equal(t, []string{"ignored.js"}, find("path", "ignored.js"), "who names a file wants it")
}

func TestSearchRefuses(t *testing.T) {
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "x.go"), []byte(source), 0o600))
	c := folder(t, astGrep(t), "a.go", source, ".env.go", source, "b.py", "x\n", "c.txt", "x\n")
	require.NoError(t, c.Root.Symlink(outside, "out"))
	for args, want := range map[string]string{
		`{"lang":"go"}`:   `argument "pattern" is missing`,
		`{"pattern":"x"}`: `argument "lang" is missing`,
		`{"pattern":"x","lang":"go","regex":1}`: `unknown argument "regex" (accepted: glob, lang, limit, ` +
			`path, pattern)`,
		`{"pattern":"x","lang":"go","glob":"*.py"}`: `there are no files of the language go: look at path, glob ` +
			`and lang`,
		`{"pattern":"nowhere","lang":"klingon"}`: `ast-grep: invalid value 'klingon' for '--lang <LANG>': ` +
			`klingon is not supported!`,
		`{"pattern":"x","lang":"--config=x"}`:           `lang "--config=x" is not the name of a language`,
		`{"pattern":"x","lang":"go","glob":"["}`:        `glob "[" is not valid`,
		`{"pattern":"x","lang":"go","path":".."}`:       `.. is outside the working directory`,
		`{"pattern":"x","lang":"go","path":"/etc"}`:     `/etc is outside the working directory`,
		`{"pattern":"x","lang":"go","path":"out"}`:      `out is outside the working directory`,
		`{"pattern":"x","lang":"go","path":"out/x.go"}`: `out/x.go is outside the working directory`,
		`{"pattern":"x","lang":"go","path":"no.go"}`:    `no.go does not exist`,
		`{"pattern":"x","lang":"go","path":".env.go"}`:  `.env.go looks like a file of secrets and is not read`,
		`{"pattern":"x","lang":"go","path":"b.py"}`:     `b.py is not a file of the language go`,
		standin.Args("pattern", strings.Repeat("x", maxText+1), "lang",
			"go"): `pattern is 16385 bytes long, at most 16384`,
		standin.Args("pattern", "a\x00", "lang", "go"): `pattern contains a character that is no text`,
		standin.Args("pattern", "x", "lang", "java", "path",
			"a.go/../../../../x"): `a.go/../../../../x is outside the working directory`,
	} {
		r := standin.CallTool(t, c.set(), "ast_grep", args)
		assert.True(t, r.Failed && strings.HasPrefix(r.Content, "Error: "+want), "%s: %s", args, r.Content)
	}
}

// What a model writes is never an option of the program.
func TestSearchTakesPatternsAsTheyAre(t *testing.T) {
	c := folder(t, astGrep(t), "a.js", "x = -y\n--help\n")
	assert.Equal(t, []string{"a.js:1: x = -y"}, c.grep(t, "pattern", "-y", "lang", "js"))
	assert.Equal(t, []string{"a.js:2: --help"}, c.grep(t, "pattern", "--help", "lang", "js"))
}

// A configuration in the working directory loads no code and starts nothing.
func TestSearchLoadsNoGrammars(t *testing.T) {
	c := folder(t, astGrep(t), "a.js", "f(1)\n", "a.mojo", "f(1)\n", "sgconfig.yml", `ruleDirs: []
customLanguages:
  mojo: {libraryPath: ./evil.so, extensions: [mojo]}
`, "evil.so", "no library")
	assert.Equal(t, []string{"a.js:1: f(1)"}, c.grep(t, "pattern", "f($A)", "lang", "js"))
	assert.Contains(t, standin.CallTool(t, c.set(), "ast_grep", `{"pattern":"x","lang":"mojo"}`).Content,
		"mojo is not supported")
}

func TestSearchLimits(t *testing.T) {
	c := folder(t, astGrep(t), "a.js", strings.Repeat("f(1)\n", 300), "long.js",
		"g('"+strings.Repeat("ä", 1000)+"', h())\n",
		"nested.js", "k(k(k(1)))\n")
	lines := c.grep(t, "pattern", "f($A)", "lang", "js")
	require.Len(t, lines, 201)
	assert.Equal(t, "[100 more matches: narrow the pattern, the path or the glob]", lines[200])
	lines = c.grep(t, "pattern", "f($A)", "lang", "js", "limit", "299")
	assert.Equal(t, []string{"a.js:299: f(1)", "[1 more matches: narrow the pattern, the path or the glob]"},
		lines[298:])

	lines = c.grep(t, "pattern", "h()", "lang", "js")
	assert.True(t, strings.HasPrefix(lines[0], "long.js:1: …ää") && strings.HasSuffix(lines[0], "ä', h())"), lines[0])
	lines = c.grep(t, "pattern", "g($$$)", "lang", "js")
	assert.Len(t, []rune(lines[0]), len("long.js:1: ")+maxShown+1)
	assert.Equal(t, []string{"nested.js:1: k(k(k(1)))"}, c.grep(t, "pattern", "k($A)", "lang", "js"),
		"a line is shown once")
}

// More files than one start can name are searched by several.
func TestSearchManyFiles(t *testing.T) {
	c := folder(t, astGrep(t))
	name := strings.Repeat("n", 200)
	for i := range 1500 {
		require.NoError(t, c.Root.WriteFile(fmt.Sprintf("%s%04d.js", name, i), []byte("f(1)\n"), 0o600))
	}
	starts := 0
	h := c.Host
	c.Host = starter(func(cmd proc.Command) (*proc.Process, error) { starts++; return h.Start(cmd) })
	lines := c.grep(t, "pattern", "f($A)", "lang", "js", "limit", 2000)
	assert.Len(t, lines, 1500)
	assert.IsIncreasing(t, lines)
	assert.Equal(t, 2, starts)
}

type starter func(proc.Command) (*proc.Process, error)

func (s starter) Start(c proc.Command) (*proc.Process, error) { return s(c) }

// meanwhile has something happen after the program has ended and before its
// output is read.
func meanwhile(c Config, do func()) Config {
	h := c.Host
	c.Host = starter(func(cmd proc.Command) (*proc.Process, error) {
		p, err := h.Start(cmd)
		if err == nil {
			p.Wait()
			do()
		}
		return p, err
	})
	return c
}

// What the program saw is shown only if the root has it still.
func TestSearchShowsWhatTheRootHas(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "x.js")
	require.NoError(t, os.WriteFile(outside, []byte("f('secret')\n"), 0o600))
	for name, change := range map[string]func(c Config) error{
		"content": func(c Config) error { return c.Root.WriteFile("a.js", []byte("  g(1)\n"), 0o600) },
		"shorter": func(c Config) error { return c.Root.WriteFile("a.js", nil, 0o600) },
		"gone":    func(c Config) error { return c.Root.Remove("a.js") },
		"link out": func(c Config) error {
			return errors.Join(c.Root.Remove("a.js"), c.Root.Symlink(outside, "a.js"))
		},
		"link inside": func(c Config) error {
			return errors.Join(c.Root.Rename("a.js", "b"), c.Root.Symlink("b", "a.js"))
		},
	} {
		c := folder(t, astGrep(t), "a.js", "f('secret')\n")
		c = meanwhile(c, func() { assert.NoError(t, change(c)) })
		assert.Equal(t, []string{"[1 matches in files that changed meanwhile: try again]"},
			c.grep(t, "pattern", "f($A)", "lang", "js"), name)
	}
}

// script is a program that does what a shell script says.
func script(t testing.TB, text string) string {
	path := filepath.Join(t.TempDir(), "ast-grep")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	return path
}

func TestProgramMisbehaves(t *testing.T) {
	for text, want := range map[string]string{
		"exit 7":            "ast-grep failed with exit code 7",
		"kill -9 $$":        "ast-grep was ended by killed",
		"echo '{\"File\":'": "read what ast-grep found: unexpected EOF",
		"echo hello":        "read what ast-grep found: invalid character",
		"echo \"error: unexpected argument '--custom-languages' found\" >&2; exit 2": "this ast-grep is too " +
			"old: 0.50 or newer is needed",
		"head -c 9000000 /dev/zero >&2; echo; echo 'Error: x' >&2; exit 3": "ast-grep failed with " +
			"exit code 3",
		"printf 'Error: No.\\nHelp: a\\n\\n x Caused by\\n╰▻ that\\n╰▻ this' >&2; exit 8": "ast-grep: No: that",
	} {
		c := folder(t, script(t, text), "a.js", "f(1)\n")
		r := standin.CallTool(t, c.set(), "ast_grep", `{"pattern":"x","lang":"js"}`)
		assert.True(t, strings.HasPrefix(r.Content, "Error: "+want), "%s: %s", text, r.Content)
	}
	c := folder(t, "/no/such", "a.js", "f(1)\n")
	assert.Contains(t, standin.CallTool(t, c.set(), "ast_grep", `{"pattern":"x","lang":"js"}`).Content,
		"Error: start /no/such")
}

// Offsets that make no sense are not followed.
func TestProgramLies(t *testing.T) {
	for _, at := range []string{`{"start":-1,"end":2}`, `{"start":3,"end":1}`, `{"start":0,"end":99}`,
		`{"start":0,"end":4}`} {
		c := folder(t,
			script(t,
				`echo '{"file":"a.js","text":"f(2)","range":{"byteOffset":`+at+`},"replacement":"x",`+
					`"replacementOffsets":{"start":-5,"end":1}}'`),
			"a.js", "f(1)\n")
		assert.Equal(t, []string{"[1 matches in files that changed meanwhile: try again]"},
			c.grep(t, "pattern", "x", "lang", "js"))
		assert.True(t,
			standin.CallTool(t, c.set(), "ast_grep_replace", `{"pattern":"x","rewrite":"y","lang":"js"}`).Failed)
		assert.Equal(t, "f(1)\n", c.content(t, "a.js"))
	}
	c := folder(t,
		script(t,
			`echo '{"file":"../x","text":"","range":{"byteOffset":{"start":0,"end":0}},"replacement":"x",`+
				`"replacementOffsets":{"start":0,"end":0}}'`),
		"a.js", "f(1)\n")
	assert.Equal(t, []string{"[1 matches in files that changed meanwhile: try again]"},
		c.grep(t, "pattern", "x", "lang", "js"))
	assert.True(t, standin.CallTool(t, c.set(), "ast_grep_replace", `{"pattern":"x","rewrite":"y","lang":"js"}`).Failed)
}

// A program that says more than is read is ended.
func TestSearchReadsUpToALimit(t *testing.T) {
	c := folder(t,
		script(
			t,
			`while :; do echo '{"file":"a.js","text":"f(1)","range":{"byteOffset":{"start":0,"end":4}},"lines":"`+strings.Repeat(
				"x",
				1<<16,
			)+`"}'; done`,
		),
		"a.js", "f(1)\n")
	lines := c.grep(t, "pattern", "x", "lang", "js", "limit", 1)
	require.Len(t, lines, 2)
	assert.Equal(t, "a.js:1: f(1)", lines[0])
	assert.Regexp(t, `^\[at least \d+ more matches: `, lines[1])
	r := standin.CallTool(t, c.set(), "ast_grep_replace", `{"pattern":"x","rewrite":"y","lang":"js"}`)
	assert.Equal(t, "Error: there are too many matches: narrow the pattern, the path or the glob", r.Content)
}

func TestSearchEndsWithItsContext(t *testing.T) {
	c := folder(t, script(t, "sleep 60"), "a.js", "f(1)\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	h := c.Host
	c.Host = starter(func(cmd proc.Command) (*proc.Process, error) {
		p, err := h.Start(cmd)
		cancel(errors.New("enough"))
		return p, err
	})
	began := time.Now()
	args := json.RawMessage(`{"pattern":"x","lang":"js"}`)
	assert.Equal(t, "Error: enough", c.set()[0].Run(ctx, args).Content)
	assert.Less(t, time.Since(began), 30*time.Second)
	assert.Equal(t, "Error: enough", c.set()[0].Run(ctx, args).Content, "nothing is started")
}

func TestFind(t *testing.T) {
	path := script(t, "echo ast-grep 1.2.3")
	dir := filepath.Dir(path)
	t.Chdir(dir)
	require.NoError(t, os.MkdirAll("folder/ast-grep", 0o700))
	require.NoError(t, os.Mkdir("plain", 0o700))
	require.NoError(t, os.WriteFile("plain/ast-grep", nil, 0o600))
	find := func(path string) (string, error) {
		return Find(func(name string) string { return map[string]string{"PATH": path}[name] })
	}
	got, err := find(strings.Join([]string{".", "", filepath.Join(dir, "folder"), filepath.Join(dir, "plain"),
		"/no/such", dir}, ":"))
	require.NoError(t, err)
	assert.Equal(t, path, got)
	for _, path := range []string{"", ".", filepath.Join(dir, "plain")} {
		_, err = find(path)
		assert.ErrorIs(t, err, errMissing)
	}
}

func TestVersion(t *testing.T) {
	c := Config{Host: host(t), Program: astGrep(t)}
	version, err := Version(t.Context(), c)
	require.NoError(t, err)
	assert.Regexp(t, `^\d+\.\d+\.\d+$`, version)
	c.Program = script(t, "echo Usage: sg group")
	_, err = Version(t.Context(), c)
	assert.EqualError(t, err, c.Program+" is not ast-grep")
	c.Program = script(t, "exit 2")
	_, err = Version(t.Context(), c)
	assert.EqualError(t, err, "ast-grep failed with exit code 2")
}
