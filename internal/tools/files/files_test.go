package files

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/standin"
)

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestReadFile(t *testing.T) {
	long := strings.Repeat("é", 60_000)
	_, set := plant(t, map[string]string{
		"empty":   "",
		"short":   "one\ntwo", // no newline at the end
		"crlf":    "one\r\ntwo\r\n",
		"long":    numbered(1, 4500),
		"exact":   numbered(1, 2000),
		"wide":    strings.Repeat(strings.Repeat("x", 999)+"\n", 60),
		"line":    "first\n" + long + "\nlast\n",
		"only":    long,
		"latin1":  "caf\xe9 \xff\xfe\n",
		"binary":  "text\x00more",
		"nullate": strings.Repeat("x", 9000) + "\x00",
	})
	read := func(path string, more ...any) string {
		return standin.CallTool(t, set, "read_file", standin.Args(append([]any{"path", path}, more...)...)).Content
	}
	assert.Equal(t, "[the file is empty]", read("empty"))
	assert.Equal(t, "one\ntwo", read("short"))
	assert.Equal(t, "one\r\ntwo\r\n", read("crlf"))
	assert.Equal(t, numbered(1, 2000), read("exact"))
	assert.Equal(t, numbered(1, 2000)+"[lines 1-2000 of 4500: read on with start_line=2001]", read("long"))
	assert.Equal(t, numbered(2001, 4000)+"[lines 2001-4000 of 4500: read on with start_line=4001]",
		read("long", "start_line", 2001))
	assert.Equal(t, numbered(4001, 4500), read("long", "start_line", 4001))
	assert.Equal(t, numbered(1, 3000)+"[lines 1-3000 of 4500: read on with start_line=3001]",
		read("long", "end_line", 3000))
	assert.Equal(t, "one\n[lines 1-1 of 2: read on with start_line=2]", read("short", "end_line", 1))

	wide := read("wide")
	assert.True(t, strings.HasSuffix(wide, "\n[lines 1-49 of 60: read on with start_line=50]"), wide[len(wide)-100:])
	assert.Equal(t, "first\n[lines 1-1 of 3: read on with start_line=2]", read("line"))
	cut := read("line", "start_line", 2)
	assert.True(t, strings.HasPrefix(cut, "éé") && strings.HasSuffix(cut,
		"é\n[line 2 is cut after 49700 characters: it has 120001 bytes]\n[lines 2-2 of 3: read on with start_line=3]"),
		cut[len(cut)-150:])
	assert.True(t, strings.HasSuffix(read("only"), "\n[line 1 is cut after 49700 characters: it has 120000 bytes]"))
	for _, text := range []string{wide, cut} {
		assert.LessOrEqual(t, utf8.RuneCountInString(text), maxChars)
	}
	assert.Equal(t, "caf\ufffd \ufffd\ufffd\n[not UTF-8: 3 bytes are shown as U+FFFD]", read("latin1"))
	assert.Equal(t, "Error: binary is a binary file of 9 bytes", read("binary"))
	assert.NotContains(t, read("nullate"), "Error")
}

// Reading on as told gives the whole file, each line once.
func TestReadFileInParts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOfN(rapid.IntRange(0, 30_000), 1, 12).Draw(rt, "lengths")
		var text strings.Builder
		for i, n := range lines {
			text.WriteString(strings.Repeat(string(rune('a'+i)), n) + "\n")
		}
		var got strings.Builder
		for start := 1; ; {
			x := excerpt{start: start, end: start + 4}
			require.NoError(rt, x.read(context.Background(), bufio.NewReader(strings.NewReader(text.String()))))
			part := x.String()
			at := strings.LastIndex(part, "[lines ")
			if at < 0 {
				got.WriteString(part)
				break
			}
			got.WriteString(part[:at])
			var from, to, all, next int
			_, err := fmt.Sscanf(part[at:], "[lines %d-%d of %d: read on with start_line=%d]", &from, &to, &all, &next)
			require.NoError(rt, err)
			require.Equal(rt, []int{start, len(lines), to + 1}, []int{from, all, next})
			require.GreaterOrEqual(rt, to, from)
			start = next
		}
		if got.String() != text.String() {
			rt.Fatal("the parts are not the whole")
		}
	})
}

// endless is a line of size bytes.
type endless struct{ size int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.size <= 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), e.size))
	for i := range n {
		p[i] = 'x'
	}
	e.size -= int64(n)
	return n, nil
}

func TestReadFileBoundsMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	x := excerpt{start: 1, end: maxLines}
	require.NoError(t, x.read(context.Background(), bufio.NewReader(&endless{100 << 20})))
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	assert.Contains(t, x.String(), "it has 104857600 bytes")
}

func TestReadFileEndsWithContext(t *testing.T) {
	_, set := plant(t, map[string]string{"a": "x\n"})
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	for name, args := range map[string]string{"read_file": `{"path":"a"}`, "list_files": `{}`, "list_directory": `{}`,
		"grep_file": `{"pattern":"x"}`} {
		f, _ := set.Lookup(name)
		r := f.Run(ctx, json.RawMessage(args))
		assert.True(t, r.Failed && strings.Contains(r.Content, "enough"), "%s: %s", name, r.Content)
	}
}

func TestReadFileRefusesPipes(t *testing.T) {
	dir, set := plant(t, nil)
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, name := range []string{"read_file", "grep_file"} {
		args := standin.Args("path", "pipe")
		if name == "grep_file" {
			args = standin.Args("path", "pipe", "pattern", "x")
		}
		assert.Equal(t, "Error: pipe is not a regular file", standin.CallTool(t, set, name, args).Content)
	}
	assert.Equal(t, "[no matches]", standin.CallTool(t, set, "grep_file", standin.Args("pattern", "x")).Content)
	assert.Equal(t, "pipe (not a regular file)", standin.CallTool(t, set, "list_directory", "{}").Content)
}

func TestListFiles(t *testing.T) {
	dir, set := plant(t, map[string]string{
		".gitignore": "*.log\n", "a.go": "", "b.log": "", "src/x.go": "", "src/deep/y.go": "", "src/z.txt": "",
		".git/HEAD": "", "new\nline": "",
	})
	require.NoError(t, os.Symlink("a.go", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("src", filepath.Join(dir, "folder")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	for args, want := range map[string]string{
		`{}`: ".gitignore\na.go\nlink\n\"new\\nline\"\nsrc/deep/y.go\nsrc/x.go\n" +
			"src/z.txt",
		`{"path":"src"}`:                      "src/deep/y.go\nsrc/x.go\nsrc/z.txt",
		`{"path":"src","pattern":"*.go"}`:     "src/x.go",
		`{"path":"src/","pattern":"**/*.go"}`: "src/deep/y.go\nsrc/x.go",
		`{"pattern":"./**/*.{go,txt}"}`:       "a.go\nsrc/deep/y.go\nsrc/x.go\nsrc/z.txt",
		`{"path":"src/x.go"}`:                 "src/x.go",
		`{"path":"b.log"}`:                    "b.log",
		`{"pattern":"**/*.go","limit":"2"}`:   "a.go\nsrc/deep/y.go\n[1 more files: narrow the pattern]",
		`{"pattern":"*.txt"}`: "[no files in . match *.txt: use **/*.txt to look in the folders " +
			"below as well]",
		`{"pattern":"**/*.rs"}`:               "[no files in . match **/*.rs]",
		`{"pattern":"[a"}`:                    `Error: "[a" is not a glob: use for example **/*.go`,
		`{"pattern":"{a}{b}{c}{d}{e}{f}{g}"}`: "Error: glob is too long: at most 500 characters and 6 braces",
	} {
		assert.Equal(t, want, standin.CallTool(t, set, "list_files", args).Content, args)
	}
}

func TestListFilesLimit(t *testing.T) {
	files := map[string]string{}
	for i := range 1200 {
		files[fmt.Sprintf("f%04d", i)] = ""
	}
	_, set := plant(t, files)
	lines := strings.Split(standin.CallTool(t, set, "list_files", "{}").Content, "\n")
	assert.Len(t, lines, 1001)
	assert.Equal(t, "[200 more files: narrow the pattern]", lines[1000])
	lines = strings.Split(standin.CallTool(t, set, "list_directory", "{}").Content, "\n")
	assert.Len(t, lines, 1001)
	assert.Equal(t, "[200 more entries: use list_files with a pattern]", lines[1000])
}

// Folders of any depth in a glob do not multiply.
func TestGlobsAreBounded(t *testing.T) {
	deep := strings.Repeat("a/", 60)
	_, set := plant(t, map[string]string{deep + "b": ""})
	start := time.Now()
	standin.CallTool(t, set, "list_files", standin.Args("pattern", strings.Repeat("**/a/", 50)+"x"))
	standin.CallTool(t, set, "list_files", standin.Args("pattern", strings.Repeat("{a,a/a,**}/", 6)+"x"))
	assert.Less(t, time.Since(start), 20*time.Second)
}

func TestListDirectory(t *testing.T) {
	dir, set := plant(t, map[string]string{"b.txt": "12345", "a/x": "", ".hid": "", "c": "1", "a-b": ""})
	require.NoError(t, os.Symlink("b.txt", filepath.Join(dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "void"), 0o700))
	assert.Equal(t, ".hid 0\na/\na-b 0\nb.txt 5\nc 1\nlink -> b.txt\nvoid/",
		standin.CallTool(t, set, "list_directory", "{}").Content)
	assert.Equal(t, "x 0", standin.CallTool(t, set, "list_directory", `{"path":"a"}`).Content)
	assert.Equal(t, "[the folder is empty]", standin.CallTool(t, set, "list_directory", `{"path":"void"}`).Content)
	assert.Equal(t, "Error: b.txt is a file: use read_file",
		standin.CallTool(t, set, "list_directory", `{"path":"b.txt"}`).Content)
}

func TestGrepFile(t *testing.T) {
	wide := strings.Repeat("é", 500) + "needle" + strings.Repeat("x", 500)
	_, set := plant(t, map[string]string{
		"a.go": "package a\r\n\r\nfunc Main() {}\r\n", "src/b.go": "func b() {}\nfunc c() {}\n", "src/b.txt": "func\n",
		"bin": "func\x00", "ig.log": "func", ".gitignore": "*.log", "wide": wide, "bad": "caf\xe9 au lait\n",
	})
	for args, want := range map[string]string{
		`{"pattern":"func [A-Z]"}`:                   "a.go:3: func Main() {}",
		`{"pattern":"FUNC MAIN","ignore_case":true}`: "a.go:3: func Main() {}",
		`{"pattern":"^func","glob":"*.go"}`: "a.go:3: func Main() {}\nsrc/b.go:1: func b() {}\n" +
			"src/b.go:2: func c() {}",
		`{"pattern":"^func","glob":"src/*.go"}`:           "src/b.go:1: func b() {}\nsrc/b.go:2: func c() {}",
		`{"pattern":"^func","path":"src","glob":"*.txt"}`: "src/b.txt:1: func",
		`{"pattern":"^func$"}`:                            "src/b.txt:1: func",
		`{"pattern":"func","path":"src/b.go","limit":1}`: "src/b.go:1: func b() {}\n[1 more matches: narrow the " +
			"pattern, the path or the glob]",
		`{"pattern":"func","path":"ig.log"}`: "ig.log:1: func",
		`{"pattern":"func","path":"bin"}`:    "Error: bin is a binary file of 5 bytes",
		`{"pattern":"nowhere"}`:              "[no matches]",
		`{"pattern":"au lait"}`:              "bad:1: caf\ufffd au lait",
		`{"pattern":"c\\(","context":1}`:     "src/b.go-1- func b() {}\nsrc/b.go:2: func c() {}",
		`{"pattern":"func [Mb]","glob":"*.go","context":1}`: "a.go-2- \na.go:3: func Main() {}\n--\n" +
			"src/b.go:1: func b() {}\nsrc/b.go-2- func c() {}",
		`{"pattern":"("}`: "Error: pattern is no RE2 expression (no look-around, " +
			"no back-references): missing closing ): (",
		`{"path":"src"}`: `Error: argument "pattern" is missing`,
		`{"pattern":"needle"}`: "wide:1: …" + strings.Repeat("é", 100) + "needle" +
			strings.Repeat("x", 194) + "…",
		`{"pattern":"x$","path":"wide"}`: "wide:1: …" + strings.Repeat("x", 300),
		`{"pattern":"^é","path":"wide"}`: "wide:1: " + strings.Repeat("é", 300) + "…",
	} {
		assert.Equal(t, want, standin.CallTool(t, set, "grep_file", args).Content, args)
	}
}

func TestGrepFileLimit(t *testing.T) {
	_, set := plant(t, map[string]string{"a": numbered(1, 150), "b": numbered(1, 150)})
	lines := strings.Split(standin.CallTool(t, set, "grep_file", `{"pattern":"line"}`).Content, "\n")
	assert.Len(t, lines, 201)
	assert.Equal(t, "b:50: line 50", lines[199])
	assert.Equal(t, "[100 more matches: narrow the pattern, the path or the glob]", lines[200])
}

// No path leads out of the working directory, whatever links are in it.
func TestNoPathLeadsOut(t *testing.T) {
	const secret = "OUTSIDE-THE-ROOT"
	dir, set := plant(t, map[string]string{"a/b/in": "inside\n", "in": "inside\n", "c/in": "inside\n"})
	top := filepath.Dir(dir)
	require.NoError(t, os.MkdirAll(filepath.Join(top, "out", "a"), 0o700))
	for _, f := range []string{"out/in", "out/a/in", "in"} {
		require.NoError(t, os.WriteFile(filepath.Join(top, f), []byte(secret+"\n"), 0o600))
	}
	names := []string{"a", "b", "in", "c", "out", "l1", "l2", "l3", "..", "..", ".", "", "work"}
	targets := []string{"..", "../out", "a", "../work/a", "/", top, top + "/out", dir, dir + "/a", "l2", "a/l1",
		"../../..", "l3/out", "b/../../out"}
	links := []string{"l1", "l2", "l3", "a/l1", "a/b/l2", "c/l3"}
	for _, l := range links {
		require.NoError(t, os.Symlink("a", filepath.Join(dir, l)))
	}
	rapid.Check(t, func(rt *rapid.T) {
		for _, l := range links {
			p := filepath.Join(dir, l)
			require.NoError(rt, os.Remove(p))
			require.NoError(rt, os.Symlink(rapid.SampledFrom(targets).Draw(rt, l), p))
		}
		path := strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 0, 6).Draw(rt, "path"), "/")
		path = rapid.SampledFrom([]string{"", "", "/", top + "/", dir + "/", dir + "/../"}).Draw(rt, "prefix") + path
		for _, c := range []struct{ name, args string }{
			{"read_file", standin.Args("path", path)},
			{"list_files", standin.Args("path", path)},
			{"list_directory", standin.Args("path", path)},
			{"grep_file", standin.Args("path", path, "pattern", "OUTSIDE|inside")},
		} {
			r := standin.CallTool(t, set, c.name, c.args)
			if strings.Contains(r.Content, secret) {
				rt.Fatalf("%s %s: %s", c.name, c.args, r.Content)
			}
			if r.Failed || c.name == "read_file" {
				continue
			}
			// The names outside are not told either: "out" is only there.
			lines := strings.Split(r.Content, "\n")
			if slices.Contains(lines, "out/") || slices.Contains(lines, "work/") ||
				strings.Contains(r.Content, "out/a/in") {
				rt.Fatalf("%s %s: %s", c.name, c.args, r.Content)
			}
		}
	})
}
