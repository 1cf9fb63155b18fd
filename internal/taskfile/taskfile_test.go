package taskfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/taskfile/parts"
	"qq/pkg/task"
)

// tasks checks a source and returns what it holds.
func tasks(t *testing.T, in Source) ([]task.Task, error) {
	t.Helper()
	s, err := Check(t.Context(), in, t.TempDir(), nil)
	if err != nil {
		assert.Nil(t, s)
		return nil, err
	}
	var all []task.Task
	for made, err := range s.Tasks() {
		require.NoError(t, err)
		all = append(all, made)
	}
	assert.Len(t, all, s.Len())
	require.NoError(t, s.Close())
	return all, nil
}

func texts(all []task.Task) []string {
	var s []string
	for _, t := range all {
		s = append(s, t.Text)
	}
	return s
}

func stdin(s string) Source { return Source{Input: strings.NewReader(s)} }

// file is an input that has a name.
func file(name, s string) Source { return Source{Name: name, Input: strings.NewReader(s)} }

func with(s Source, template string) Source {
	s.Template = template
	return s
}

func TestForms(t *testing.T) {
	big := strings.Repeat("x", 900<<10)
	tests := []struct {
		name string
		in   Source
		want []string
	}{
		{"array", stdin(" \n[{\"task\":\"a\"},\n{\"task\":\"b\"} ]\n"), []string{"a", "b"}},
		{"array with mark", stdin("\xef\xbb\xbf[{\"task\":\"a\"}]"), []string{"a"}},
		{"array of large elements", stdin(`[{"task":"` + big + `"},{"task":"` + big + `"},{"task":"b"}]`),
			[]string{big, big, "b"}},
		{"JSON Lines", stdin("{\"task\":\"a\"}\r\n\r\n  {\"task\":\"b\"}  "), []string{"a", "b"}},
		{"one object in .json", file("x.json", `{"task":"a"}`), []string{"a"}},
		{"by extension", file("x.NDJSON", `{"task":"a"}`), []string{"a"}},
		{"lines", stdin("a\r\n\n  \n# b\n - {c}\nlast"), []string{"a", "# b", " - {c}", "last"}},
		{"lines that look like JSON", file("x.txt", "[1] a\n{b}"), []string{"[1] a", "{b}"}},
		{"forced", Source{Input: strings.NewReader("[1] a"), Form: Lines}, []string{"[1] a"}},
		{"CSV", file("x.csv", "id, task\n1,\"a, \"\"b\"\"\r\nc\"\n\n,\n2,d"), []string{"a, \"b\"\nc", "d"}},
		{"TSV", file("x.tsv", "task\tid\na, b\t1"), []string{"a, b"}},
		{"template", with(stdin("a\nb"), "do {} as {#}: {} {{c}} {\"d\": {}}"), []string{
			`do a as 1: a {{c}} {"d": a}`, `do b as 2: b {{c}} {"d": b}`}},
		{"template without a place", with(stdin("a\n\n{}\n{#}"), "do"), []string{"do a", "do {}", "do {#}"}},
		{"template with only a number", with(stdin("a"), "do {#}:"), []string{"do 1: a"}},
		{"template with lines of JSON", with(stdin(`{"x":1}`), "do {}"), []string{`do {"x":1}`}},
		{"template with CSV", with(file("x.csv", "name, City of birth\n{},\"b, c\"\nd,e"),
			"{#} {name} of {City of birth} { {}"), []string{
			`1 {} of b, c { {},"b, c"`, "2 d of e { d,e"}},
		{"template with CSV and no place", with(file("x.csv", "a,b\n1,2"), `say {"x": 1}`),
			[]string{`say {"x": 1} 1,2`}},
		{"template with one column is not added to", with(file("x.csv", "a,b\n1,2"), "say {b}"), []string{"say 2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := tasks(t, tt.in)
			require.NoError(t, err)
			assert.Equal(t, tt.want, texts(all))
		})
	}
}

func TestFields(t *testing.T) {
	want := task.Task{Text: "a", Agent: "coder", ID: "x1", Timeout: 1.5, ReadOnly: true,
		Schema: []byte(`{"type":"object"}`), WorkingDir: "/w"}
	object := `{"task":"a","agent":"coder","id":"x1","timeout":1.5,"read_only":true,"schema":{"type":"object"},` +
		`"working_dir":"/w"}`
	row := "task,agent,id,timeout,read_only,schema,working_dir,model\n" +
		"a,coder,x1, 1.5 ,TRUE,\"{\"\"type\"\":\"\"object\"\"}\",/w,\n"
	for name, in := range map[string]Source{"array": stdin("[" + object + "]"), "lines": stdin(object),
		"csv": file("x.csv", row)} {
		all, err := tasks(t, in)
		require.NoError(t, err, name)
		assert.Equal(t, []task.Task{want}, all, name)
	}
}

func TestErrors(t *testing.T) {
	long(t)
	long := strings.Repeat("x", maxItem+10)
	tests := []struct {
		name string
		in   Source
		want string
	}{
		{"unknown key", stdin("[{\"task\":\"a\"},\n\n {\"tsk\":\"b\"}]"), `task 2 (stdin line 3): unknown key "tsk"`},
		{"element over lines", stdin("[\n{\n\"task\": 1\n}]"), `task 1 (stdin line 2): "task" must be text`},
		{"unknown key in a line", file("x.jsonl", "{\"task\":\"a\"}\n\n{\"tsk\":\"b\"}"),
			`task 2 (x.jsonl line 3): unknown key "tsk"`},
		{"number in an array", stdin("[1]"), "task 1 (stdin line 1): must be a JSON object"},
		{"empty task", stdin(`[{"task":"  "}]`), "task 1 (stdin line 1): task is empty"},
		{"no task", stdin(`{"agent":"a"}`), `task 1 (stdin line 1): "task" is missing`},
		{"syntax", stdin("[{\"task\":\"a\"},\n\n{task}]"),
			"task 2 (stdin line 3): not valid JSON: invalid character 't'"},
		{"no comma", stdin("[{\"task\":\"a\"}\n{\"task\":\"a\"}]"), "task 2 (stdin line 2): not valid JSON: "},
		{"comma at the end", stdin(`[{"task":"a"},]`), "task 2 (stdin line 1): not valid JSON: "},
		{"not closed", stdin("[{\"task\":\"a\"}\n"), "task 2 (stdin line 2): not valid JSON: the array is not closed"},
		{"not closed within", stdin("[{\"task\":\"a\"},\n{\"ta"),
			"task 2 (stdin line 2): not valid JSON: the array is not closed"},
		{"closed by another", stdin("[{\"task\":\"a\"}}"), "task 2 (stdin line 1): not valid JSON: "},
		{"something follows", stdin("[{\"task\":\"a\"}]\n[]"), "something follows the end of the array"},
		{"forced array", Source{Input: strings.NewReader("{}"), Form: Array}, "it does not begin with ["},
		{"object over lines", stdin("{\n\"task\":\"a\"}"),
			"task 1 (stdin line 1): not a JSON object on one line: unexpected end of JSON input\nhint: "},
		{"long line", stdin("a\n" + long), "task 2 (stdin line 2): longer than 16 MiB"},
		{"long line of JSON", stdin("{\"task\":\"" + long), "task 1 (stdin line 1): longer than 16 MiB"},
		{"long element", stdin("[{\"task\":\"a\"},\n{\"task\":\"" + long + long + "\"}]"),
			"task 2 (stdin line 2): longer than 16 MiB"},
		{"element that is a little long", stdin("[{\"task\":\"a\"},\n{\"task\":\"" + long + "\"}]"),
			"task 2 (stdin line 2): longer than 16 MiB"},
		{"long cell", file("x.csv", "task\na\n\""+long+long), "task 2 (after x.csv line 2): longer than 16 MiB"},
		{"not UTF-8 in an array", stdin("[{\"task\":\"\xff\"}]"), "task 1 (stdin line 1): not valid UTF-8"},
		{"not UTF-8 in a header", file("x.csv", "task,\xff\na,b"), "x.csv line 1: the header is not valid UTF-8"},
		{"UTF-16", stdin("\xff\xfea\x00"), "stdin is UTF-16\nhint: save it as UTF-8"},
		{"NUL", stdin("a\x00"), "task 1 (stdin line 1): task contains a NUL"},
		{"ragged", file("x.csv", "task,id\na,1\nb\n"), "task 2 (x.csv line 3): the row has 1 cells, the header has 2"},
		{"quotes", file("x.csv", "task,id\na,1\n\nb \"c\",2\n"), "task 2 (x.csv line 4): not valid CSV: bare \""},
		{"quotes that are not closed", file("x.csv", "task,id\na,\"1\n\n"), "task 1 (x.csv line 2): not valid CSV: "},
		{"row after a cell over lines", file("x.csv", "task,idd\n\"a\n\nb\",\nc,1\n"),
			`task 2 (x.csv line 5): unknown key "idd"`},
		{"no column for the task", file("x.csv", "name,city\na,b\n"),
			"x.csv line 1: no column is called \"task\"; the columns are name, city\nhint: "},
		{"a column twice", file("x.csv", "task, task\na,b\n"), `the column "task" is there twice`},
		{"wrong type in a cell", file("x.csv", "task,timeout\na,soon\n"),
			`task 1 (x.csv line 2): "timeout" must be a number`},
		{"no such column", with(file("x.csv", "name,city,\na,b,\n"), "{nmae} {city}"),
			"the template names {nmae}, which is no column\nhint: did you mean {name}? the columns are name, city; "},
		{"template that grows", with(stdin(strings.Repeat("x", 10_000)), strings.Repeat("{}", 2000)),
			"task 1 (stdin line 1): longer than 16 MiB"},
		{"form", Source{Input: strings.NewReader(""), Form: "xml"}, `"xml" is no form of a batch`},
		{"files without a template", Source{Files: []string{"x"}}, "files without a prompt\nhint: "},
		{"no such file", Source{Name: "/nowhere/x.json"}, "no such file: /nowhere/x.json\nhint: "},
		{"a folder", Source{Name: os.TempDir()}, "is a folder\nhint: "},
		{"broken input", Source{Input: io.MultiReader(strings.NewReader("abc\nd"), failing{})},
			"read tasks: stdin: no more"},
		{"broken array", Source{Input: io.MultiReader(strings.NewReader(`[{"task":"a"},{"ta`), failing{})},
			"read tasks: stdin: no more"},
		{"broken CSV", Source{Input: io.MultiReader(strings.NewReader("task\na\n\"b"), failing{}), Form: CSV},
			"read tasks: stdin: no more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tasks(t, tt.in)
			require.ErrorContains(t, err, tt.want)
			assert.LessOrEqual(t, strings.Count(err.Error(), "\n"), 1, err.Error())
			require.NotErrorIs(t, err, ErrNoTasks)
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no more") }

func TestNoTasks(t *testing.T) {
	for name, in := range map[string]Source{
		"nothing": stdin(""), "blank": stdin(" \n\n"), "mark": stdin("\xef\xbb\xbf"), "array": stdin("[ ]"),
		"header": file("x.csv", "task\n"),
		"commas": file("x.csv", "task,id\n,\n"), "empty CSV": file("x.csv", ""), "empty JSON": file("x.json", ""),
		"forced array": {Input: strings.NewReader(""), Form: Array}, "template": with(stdin("\n"), "do {}"),
		"no input": {},
	} {
		_, err := tasks(t, in)
		require.ErrorIs(t, err, ErrNoTasks, name)
		assert.Contains(t, err.Error(), "no tasks: ", name)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.txt", "b c.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600))
	}
	in := Source{Files: []string{"a.txt", "b c.txt", dir}, Dir: dir, Template: "Summarize {} ({#})"}
	all, err := tasks(t, in)
	require.NoError(t, err)
	assert.Equal(t, []string{"Summarize a.txt (1)", "Summarize b c.txt (2)", "Summarize " + dir + " (3)"}, texts(all))

	in.Files = append(in.Files, "*.md")
	_, err = tasks(t, in)
	require.EqualError(t, err, "task 4 (*.md): no such file")
	in.Files = []string{"a.txt/b"}
	_, err = tasks(t, in)
	require.ErrorContains(t, err, "task 1 (a.txt/b): not a directory")
}

func TestFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"task":"a"}`), 0o600))
	all, err := tasks(t, Source{Name: path})
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, texts(all))
}

func TestCheckAsksTheCaller(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	var asked []string
	s, err := Check(t.Context(), stdin("a\nb\nc"), dir, func(i int, made task.Task) error {
		asked = append(asked, fmt.Sprint(i, made.Text))
		if made.Text == "b" {
			return errors.New("no such agent")
		}
		return nil
	})
	require.EqualError(t, err, "task 2 (stdin line 2): no such agent")
	assert.Nil(t, s)
	assert.Equal(t, []string{"0a", "1b"}, asked)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestSpool(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	s, err := Check(t.Context(), stdin("a\nb\nc"), dir, nil)
	require.NoError(t, err)
	assert.Equal(t, 3, s.Len())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left, "the file has no name, so a crash leaves nothing")
	for range 2 {
		for first, err := range s.Tasks() {
			require.NoError(t, err)
			assert.Equal(t, "a", first.Text)
			break
		}
	}
	require.NoError(t, s.Close())
	for _, err := range s.Tasks() {
		require.ErrorContains(t, err, "read task 1 again")
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Check(t.Context(), stdin("a"), file, nil)
	require.ErrorIs(t, err, ErrKeep, "the input is not to blame")
	assert.Contains(t, err.Error(), file)
	_, err = Check(t.Context(), stdin("a\n\x00"), t.TempDir(), nil)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrKeep)
	_, err = Check(t.Context(), stdin("a"), filepath.Join(os.DevNull, "x"), nil)
	require.ErrorContains(t, err, "keep tasks: ")
}

// repeated yields head, n times body, and tail.
func repeated(head, body string, n int, tail string) io.Reader {
	return io.MultiReader(strings.NewReader(head), &repeater{body: body, n: n}, strings.NewReader(tail))
}

type repeater struct {
	body string
	n    int
	rest string
}

func (r *repeater) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.n == 0 {
			return 0, io.EOF
		}
		r.n--
		r.rest = r.body
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Memory stays the same however many tasks there are.
func TestMemory(t *testing.T) {
	long(t)
	const n = 8_000 // about 4 MB
	body := strings.Repeat("x", 500)
	for name, in := range map[string]Source{
		"array": {Input: repeated(`[{"task":"0"}`, `,{"task":"`+body+`"}`, n, "]")},
		"lines": {Input: repeated("0\n", body+"\n", n, "")},
		"csv":   {Input: repeated("task\n0\n", body+"\n", n, ""), Form: CSV},
	} {
		t.Run(name, func(t *testing.T) {
			heap := func() int64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc)
			}
			before, most := heap(), int64(0)
			s, err := Check(t.Context(), in, t.TempDir(), func(i int, _ task.Task) error {
				if i%2_000 == 1_999 {
					most = max(most, heap()-before)
				}
				return nil
			})
			require.NoError(t, err)
			i := 0
			for _, err := range s.Tasks() {
				require.NoError(t, err)
				if i++; i%2_000 == 1_999 {
					most = max(most, heap()-before)
				}
			}
			assert.Equal(t, n+1, i)
			t.Logf("%d KiB", most>>10)
			assert.Less(t, most, int64(1<<20))
			require.NoError(t, s.Close())
		})
	}
}

// fuzz checks what must hold of any input of a form: it ends, an error is of at
// most two lines, and what is accepted is valid and comes back as it was.
func fuzz(f *testing.F, form Form, template string, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data string) {
		var want []task.Task
		s, err := Check(t.Context(), Source{Input: strings.NewReader(data), Form: form, Template: template}, dir,
			func(i int, made task.Task) error {
				assert.Len(t, want, i)
				require.NoError(t, made.Validate())
				want = append(want, made)
				return nil
			})
		if err != nil {
			assert.True(t, utf8.ValidString(err.Error()), "%q", err)
			return
		}
		defer s.Close()
		require.Equal(t, len(want), s.Len())
		i := 0
		for made, err := range s.Tasks() {
			require.NoError(t, err)
			assert.Equal(t, want[i].Text, made.Text)
			assert.Equal(t, want[i].Agent, made.Agent)
			i++
		}
		assert.Equal(t, len(want), i)
	})
}

func FuzzArray(f *testing.F) {
	fuzz(f, Array, "", `[{"task":"a"},{"task":"b","agent":"c"}]`, "[", "[[]", `[{"task":"a"}`, `[{"task":"a"},]`, "[]x",
		"\n[1\n,2]", "[{\"task\":\"\xff\"}]")
}

func FuzzJSONLines(f *testing.F) {
	fuzz(f, JSONL, "", "{\"task\":\"a\"}\n{\"task\":\"b\",\"schema\":{}}", "{", "\r\n\n", "\xef\xbb\xbf{}",
		"{\"task\":\"\\u0000\"}", "null", "{\"task\":\"\x00\xff\"}")
}

func FuzzLines(f *testing.F) {
	fuzz(f, Lines, "", "a\r\nb", "\x00", "\xff\xfe", "\xef\xbb\xbf", "a\rb")
}

func FuzzCSV(f *testing.F) {
	fuzz(f, CSV, "", "task,id\na,1\n", "task\n\"a\nb\"\n", "task\n\"", "task,schema\na,{}\n", "task,timeout\na,1e9\n",
		"task,task\n", ",\n,", "task\n\x00\xff\n")
}

func FuzzCSVTemplate(f *testing.F) {
	fuzz(f, CSV, "{} {#} {a} {\"b\"}", "a,b\n1,2\n", "a\n\"x\ny\"\n", "b\n1\n", "a,\n1,\n",
		"a,b\n\x00,\xff\n")
}

// FuzzTemplate compares the parser with a reading of the rules by a regular expression.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"", "do", "{}", "{#}{}", "{{}}", "{a} {", "{a{b}", "{ä}", "{}}{", "{/}{//}{.}{/.}",
		"{1} {2/.}", "{%}{a/}", "{{a}}", "{{{}}}", "{{.Name}}", "{\"a\": 1}", "{#/}", "{b//}{b.}",
		"{-1}", "{3}"} {
		f.Add(s, "{a}{}{#}")
		f.Add(s, "/x.y/z.tar.gz")
	}
	place := regexp.MustCompile(`\{([^{}]*)\}`)
	f.Fuzz(func(t *testing.T, text, value string) {
		known := names{columns: []string{"a", "b"}, inputs: 2}
		tmpl, err := parseTemplate(text, known)
		if err != nil {
			assert.Regexp(t, `\{[^{}]+\}`, text)
			return
		}
		in := row{Text: value, Columns: known.columns, Cells: []string{value, value}}
		made, err := tmpl.task(in, 7)
		if err != nil {
			return
		}
		var want strings.Builder
		placed, last := false, 0
		for _, at := range place.FindAllStringSubmatchIndex(text, -1) {
			name := text[at[2]:at[3]]
			stem, how := name, ""
			for _, form := range []string{"//", "/.", "/", "."} {
				if how == "" && strings.HasSuffix(name, form) {
					stem, how = strings.TrimSuffix(name, form), form
				}
			}
			path := map[string]string{"": value, "/": value[strings.LastIndex(value, "/")+1:],
				"//": parts.Of(value, "//"),
				".":  stemOf(value), "/.": stemOf(value[strings.LastIndex(value, "/")+1:])}
			filled := text[at[0]:at[1]]
			zeroes := strings.TrimLeft(stem, "0")
			switch {
			case at[0] > 0 && text[at[0]-1] == '{':
			case name == "#":
				filled = "7"
			case stem == "" || stem == "a" || stem == "b" || zeroes == "1" || zeroes == "2":
				filled, placed = path[how], true
			}
			want.WriteString(text[last:at[0]] + filled)
			last = at[1]
		}
		want.WriteString(text[last:])
		if !placed {
			want.WriteString(" " + value)
		}
		assert.Equal(t, want.String(), made.Text)
		for _, at := range made.Slots {
			assert.Equal(t, "{%}", made.Text[at:at+3])
		}
	})
}

func stemOf(s string) string { return regexp.MustCompile(`\.[^/.]*$`).ReplaceAllString(s, "") }
