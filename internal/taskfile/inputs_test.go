package taskfile

import (
	"cmp"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

func lists(template string, all ...List) Source { return Source{Template: template, Lists: all} }

func list1(values ...string) List { return List{Values: values} }

func linked(values ...string) List { return List{Values: values, Linked: true} }

// names of every kind, as placeholders take them apart.
var paths = []string{"/a/b.c.d", ".bashrc", "dir/", "noslash", "a/.bashrc", "dir.d/f", "a.", "a.b/", "/", "./x.y",
	"a//b.c",
	"a/b/", "//", "/x", "..", "a/..", "x y/z w.tar.gz", "ä/ö.ü"}

func TestPlaceholdersOfPaths(t *testing.T) {
	want := map[string][]string{
		"{}": slices.Clone(paths),
		"{/}": {"b.c.d", ".bashrc", "", "noslash", ".bashrc", "f", "a.", "", "", "x.y", "b.c", "", "", "x", "..",
			"..", "z w.tar.gz", "ö.ü"},
		"{//}": {"/a", ".", ".", ".", "a", "dir.d", ".", ".", "/", ".", "a", "a", "/", "/", ".", "a", "x y", "ä"},
		"{.}": {"/a/b.c", "", "dir/", "noslash", "a/", "dir.d/f", "a", "a.b/", "/", "./x", "a//b", "a/b/", "//",
			"/x", ".",
			"a/.", "x y/z w.tar", "ä/ö"},
		"{/.}": {"b.c", "", "", "noslash", "", "f", "a", "", "", "x", "b", "", "", "x", ".", ".", "z w.tar", "ö"},
	}
	for place, values := range want {
		for i, v := range values {
			values[i] = "[" + v + "]"
		}
		forms := map[string]Source{
			"list": lists("["+place+"]", list1(paths...)), "lines": with(stdin(strings.Join(paths, "\n")),
				"["+place+"]"),
			"position": lists("["+strings.Replace(place, "{", "{1", 1)+"]", list1(paths...)),
			"column": with(file("x.csv", "name\n"+strings.Join(paths, "\n")),
				"["+strings.Replace(place, "{", "{name", 1)+"]"),
		}
		for name, in := range forms {
			all, err := tasks(t, in)
			require.NoError(t, err, name)
			assert.Equal(t, values, texts(all), "%s %s", name, place)
		}
	}
}

func TestInputs(t *testing.T) {
	dir := t.TempDir()
	two := filepath.Join(dir, "two")
	require.NoError(t, os.WriteFile(two, []byte("1\n\n2\n"), 0o600))
	byFile := List{File: two}
	stdinList := List{File: "stdin", Input: strings.NewReader("s\nt")}
	comma := regexp.MustCompile(" *, *")
	tests := []struct {
		name string
		in   Source
		want []string
	}{
		{"all combinations, the last list first", lists("{1}{2}", list1("a", "b"), list1("c", "d")),
			[]string{"ac", "ad", "bc", "bd"}},
		{"columns of values", Source{Template: "{2}{1}{3} [{}]", Columns: comma,
			Lists: []List{list1("a,b", "c,d"), list1("e,f")}}, []string{"bae [a b e f]", "dce [c d e f]"}},
		{"{} is all values", lists("do {}: {1}", list1("a", "b"), list1("c")), []string{"do a c: a", "do b c: b"}},
		{"no placeholder", lists("do", list1("a"), list1("c", "d")), []string{"do a c", "do a d"}},
		{"linked lists end with the shorter", lists("{1}{2}", list1("a", "b", "c"), linked("x", "y")),
			[]string{"ax", "by"}},
		{"linked and not", lists("{1}{2}{3}", list1("a", "b"), linked("x", "y"), list1("1", "2")),
			[]string{"ax1", "ax2", "by1", "by2"}},
		{"linked to the second", lists("{1}{2}{3}", list1("a", "b"), list1("1", "2"), linked("x", "y")),
			[]string{"a1x", "a2y", "b1x", "b2y"}},
		{"values without a template are tasks", lists("", list1("say a", "say b")), []string{"say a", "say b"}},
		{"a file of values", lists("{1}{2}", byFile, list1("z")), []string{"1z", "2z"}},
		{"files and stdin", lists("{1}{2}{3}", byFile, byFile, stdinList),
			[]string{"11s", "11t", "12s", "12t", "21s", "21t", "22s", "22t"}},
		{"a number may be that of a regular expression", with(stdin("a"), `\d{4} {}`), []string{`\d{4} a`}},
		{"and that of a shell", with(stdin("a"), `[a-z]{1} (ab){2} .{3} ${1} 5{1} {12} {0} {-1} {##} {}`),
			[]string{`[a-z]{1} (ab){2} .{3} ${1} 5{1} {12} {0} {-1} {##} a`}},
		{"a number is no header", with(stdin("1\n2\n3"), "x {1}"), []string{"x 1", "x 2", "x 3"}},
		{"a number is no header of two columns", with(stdin("1,2\n3,4"), "x {1}"), []string{"x 1,2", "x 3,4"}},
		{"a number is no key", with(stdin(`{"1":2}`), "x {1}"), []string{`x {"1":2}`}},
		{"a column with a number for a name", with(stdin("name,2\na,b"), "{name} {2}"), []string{"a b"}},
		{"a line is the first input", with(stdin("a/b.c"), "{1} {1/} {1.}"), []string{"a/b.c b.c a/b"}},
		{"columns of CSV by number", with(file("x.csv", "name,city\nAda,x/y"), `{1} "{2/}" (\d{2})`),
			[]string{`Ada "y" (\d{2})`}},
		{"keys by number", with(file("x.jsonl", `{"name":"Ada","n":1}`), "{1} {2}"), []string{"Ada 1"}},
		{"NUL", Source{Input: strings.NewReader("a\nb\x00c\x00"), Null: true, Template: "x {}"},
			[]string{"x a\nb", "x c"}},
		{"NUL without a template", Source{Input: strings.NewReader("a\nb\x00\x00c"), Null: true}, []string{"a\nb",
			"c"}},
		{"columns of lines", Source{Input: strings.NewReader("a , b\nc,d,e"), Columns: comma, Template: "{2}{1} {}"},
			[]string{"ba a b", "dc c d e"}},
		{"groups", Source{Input: strings.NewReader("a\nx/b\nc"), Group: 2, Template: "{} {1/} {/}"},
			[]string{"a x/b a a b", "c c c"}},
		{"groups of one", Source{Input: strings.NewReader("a\nb"), Group: 1, Template: "{1}"}, []string{"a", "b"}},
		{"groups of a list", Source{Lists: []List{list1("a", "b", "c", "d")}, Group: 2, Template: "{2}{1} {#}"},
			[]string{"ba 1", "dc 2"}},
		{"code stays", with(stdin("a"), `{{.Name}} {{x}} {{}} ${{ y }} {"a": 1} { b } {a b} {{{}}} {} }}`),
			[]string{`{{.Name}} {{x}} {{}} ${{ y }} {"a": 1} { b } {a b} {{{}}} a }}`}},
		{"a dash is text", lists("{-} {--}", list1("a")), []string{"{-} {--} a"}},
		{"a value is no placeholder", lists("{1} {2}", list1("{2}"), list1("{1}{x}")), []string{"{2} {1}{x}"}},
		{"JSON Lines", with(file("x.jsonl", "{\"name\":\"Ada\",\"more\":{\"a\": [1, 2]},\"n\":1.50}\n\n"+
			`{"n":true,"name":null,"more":"x"}`), "{name}: {more} {n}"), []string{`Ada: {"a":[1,2]} 1.50`, ": x true"}},
		{"JSON Lines from a pipe", with(stdin(`{"name":"Ada"}`+"\n"+`{"name":"Bob","x":1}`), "to {name}"),
			[]string{"to Ada", "to Bob"}},
		{"JSON from a pipe as lines", with(stdin("{\"name\":\"Ada\"}\nno JSON"), "read {}"),
			[]string{`read {"name":"Ada"}`, "read no JSON"}},
		{"an array of objects", with(stdin(" [\n{\"a b\": \"x\",\n \"c\": 1}, {\"a b\": 2, \"c\": \"/y/z\"}]"),
			"{a b} {c/} {#}"), []string{"x 1 1", "2 z 2"}},
		{"a row is data", with(file("x.json", `[{"task":"no task","agent":"nobody"}]`), "{agent}: {task}"),
			[]string{"nobody: no task"}},
		{"CSV from a pipe", with(stdin("name, City of birth\nAda,\"London, UK\"\n"), "{name} {City of birth}"),
			[]string{"Ada London, UK"}},
		{"one column from a pipe", with(stdin("name\nAda\nBob\n"), "to {name}"), []string{"to Ada", "to Bob"}},
		{"TSV from a pipe", with(stdin("name\tx\nAda\t1\n"), "to {name}"), []string{"to Ada"}},
		{"lines with commas", with(stdin("name, city\nAda, London"), "to {}"), []string{"to name, city",
			"to Ada, London"}},
		{"a table of tasks from a pipe", stdin("task,agent\nfoo,coder\n"), []string{"foo"}},
		{"a task with a comma", stdin("task, and more\nfoo,coder\n"), []string{"task, and more", "foo,coder"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := tasks(t, tt.in)
			require.NoError(t, err)
			assert.Equal(t, tt.want, texts(all))
		})
	}
}

func TestInputErrors(t *testing.T) {
	comma := regexp.MustCompile(",")
	tests := []struct {
		name string
		in   Source
		want string
	}{
		{"a word", with(stdin("a"), "to {nmae}"),
			"the template names {nmae}, and the input has no columns\nhint: known are {} {#}"},
		{"a word of a list", lists("{x}", list1("a")), "the template names {x}, and the input has no columns"},
		{"a word with files", Source{Template: "{x}", Files: []string{"."}}, "the template names {x}"},
		{"a word before the input is looked at", Source{Template: "{x}", Files: []string{"/nowhere"}}, "names {x}"},
		{"nearly a column of a pipe", with(stdin("name,city\nAda,London"), "to {nmae} in {city}"),
			"the template names {nmae}, which is no column\nhint: did you mean {name}? the columns are name, city"},
		{"nearly a key of a pipe", with(stdin(`{"name":"a","x":1}`), "to {nam}"), "did you mean {name}?"},
		{"a key that a row has not", with(file("x.jsonl", "{\"name\":1}\n{\"x\":1}"), "to {name}"),
			"task 2 (x.jsonl line 2): the template names {name}, which is no column\nhint: the columns are x"},
		{"no object", with(file("x.jsonl", "{\"a\":1}\n[1]"), "to {a}"),
			"task 2 (x.jsonl line 2): must be a JSON object"},
		{"broken object", with(file("x.jsonl", `{"a":1`), "to {a}"), "not a JSON object on one line"},
		{"two objects", with(file("x.jsonl", `{"a":1}{"a":2}`), "to {a}"), "not a JSON object on one line"},
		{"an input too many", lists("{3}", list1("a"), list1("b")),
			"the template names {3}, and a task has 2 inputs\nhint: "},
		{"an input 0", lists("{0}", list1("a")), "the template names {0}, and a task has one input\nhint: "},
		{"the last input", lists("{-1}", list1("a")), "the template names {-1}, and a task has one input\nhint: "},
		{"the number of tasks", lists("{##}", list1("a")), "the template names {##}, and a task has one input\nhint: "},
		{"a column 0", Source{Input: strings.NewReader("a,b"), Columns: comma, Template: "{0}"},
			"the template names {0}, and columns are numbered from 1"},
		{"a second input of a line", with(stdin("1\n2\n3"), "x {2}"), "the template names {2}, and a task has one " +
			"input\nhint: {} stands for it; --colsep makes columns of a line, and -n, ::: A ::: B or CSV"},
		{"a second input of a file", Source{Template: "x {2}", Files: []string{"."}}, "and a task has one input"},
		{"a column that a row has not", with(file("x.csv", "a,b\n1,2"), "{3}"),
			"the template names {3}, and a row has 2 columns\nhint: the columns are a, b; braces"},
		{"a column of a narrow row", with(file("x.csv", "a\n1"), "{3}"), "and a row has one column\nhint: it is a; "},
		{"a huge input", lists("{99999999999999999999}", list1("a")), "and a task has one input\nhint: "},
		{"a column too many", Source{Input: strings.NewReader("a,b\nc"), Columns: comma, Template: "{2}"},
			"task 2 (stdin line 2): the template names {2}, and the task has only 1 of them\nhint: "},
		{"a group too small", Source{Input: strings.NewReader("a\nb\nc"), Group: 2, Template: "{2}"},
			"task 2 (stdin line 3): the template names {2}, and the task has only 1 of them"},
		{"groups of rows", Source{Name: "x.csv", Input: strings.NewReader("a"), Group: 2, Template: "{}"},
			"-n does not go with rows: x.csv is csv"},
		{"groups without a template", Source{Input: strings.NewReader("a"), Group: 2}, "-n without a template\nhint: "},
		{"columns without a template", Source{Input: strings.NewReader("a"), Columns: comma},
			"--colsep without a template"},
		{"no file of values", lists("{}", List{File: "/nowhere/x"}), "no such file: /nowhere/x"},
		{"a broken file of values", lists("{}", List{File: "stdin", Input: io.MultiReader(strings.NewReader("a\nb"),
			failing{})}),
			"read tasks: stdin: no more"},
		{"too much in the second list", lists("{}", list1("a"), List{Values: []string{strings.Repeat("x",
			maxLists+1)}}),
			"the lists after the first one have more than 64 MiB"},
		{"NUL", with(stdin("a\x00b"), "{}"), "task contains a NUL character\nhint: inputs that end with a NUL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tasks(t, tt.in)
			require.ErrorContains(t, err, tt.want)
			assert.LessOrEqual(t, strings.Count(err.Error(), "\n"), 1, err.Error())
		})
	}
	_, err := tasks(t, lists("{}", List{File: "stdin", Input: strings.NewReader("\n")}))
	require.ErrorIs(t, err, ErrNoTasks)
}

// {%} stays in the text: it is filled in when the task starts.
func TestSlots(t *testing.T) {
	all, err := tasks(t, lists("{%} {} port 80{%}", list1("{%}", "b")))
	require.NoError(t, err)
	require.Equal(t, []string{"{%} {%} port 80{%}", "{%} b port 80{%}"}, texts(all))
	assert.Equal(t, []int{0, 15}, all[0].Slots, "not the one that is a value")
	assert.Equal(t, []int{0, 13}, all[1].Slots)
	all, err = tasks(t, with(stdin("a"), "{%}"))
	require.NoError(t, err)
	assert.Equal(t, []string{"{%} a"}, texts(all))
}

// An input that is not UTF-8 fails its own task, and no other.
func TestBroken(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b\xff", "c"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for name, in := range map[string]Source{
		"files": {Files: []string{"a", "b\xff", "c"}, Dir: dir, Template: "{}"}, "lines": stdin("a\nb\xff\nc"),
		"template": with(stdin("a\nb\xff\nc"), "{}"), "list": lists("{}", list1("a", "b\xff", "c")),
		"CSV":       with(file("x.csv", "x\na\nb\xff\nc"), "{x}"),
		"CSV tasks": file("x.csv", "task\na\nb\xff\nc"), "shuffled": {Input: strings.NewReader("b\xff\na\nc"),
			Shuffle: true},
		"columns": {Input: strings.NewReader("a\nb\xff\nc"), Columns: regexp.MustCompile(","), Template: "{1}"},
	} {
		all, err := tasks(t, in)
		require.NoError(t, err, name)
		require.Len(t, all, 3, name)
		broken := 0
		for _, made := range all {
			if made.Broken != "" {
				broken++
				assert.Equal(t, `b\xff`, made.Text, name)
				assert.Contains(t, made.Broken, "not valid UTF-8\nhint: ", name)
			}
		}
		assert.Equal(t, 1, broken, name)
	}
	all, err := tasks(t, file("x.jsonl", "{\"task\":\"a\"}\n{\"task\":\"\xff\"}"))
	require.NoError(t, err)
	assert.NotEmpty(t, all[1].Broken)
	all, err = tasks(t, with(stdin("b\xff"), "{}"))
	require.NoError(t, err, "one name alone")
	assert.NotEmpty(t, all[0].Broken)
	_, err = tasks(t, stdin("\n\xe4\n\xf6"))
	require.ErrorContains(t, err, "task 1 (stdin line 2): not valid UTF-8\nhint: save the file as UTF-8",
		"all lines: the file has another encoding")
}

func TestFilesOutside(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "work")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	for _, name := range []string{"outside", "work/sub/inside"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
	require.NoError(t, os.Symlink("../outside", filepath.Join(dir, "out")))
	require.NoError(t, os.Symlink("sub/inside", filepath.Join(dir, "in")))
	require.NoError(t, os.Symlink(dir, filepath.Join(root, "link")))
	for _, base := range []string{dir, filepath.Join(root, "link")} {
		in := Source{Template: "{}", Dir: base, Files: []string{"in", "sub/inside", "sub", ".",
			filepath.Join(dir, "sub/inside"), filepath.Join(root, "link", "in")}}
		_, err := tasks(t, in)
		require.NoError(t, err, base)
		for _, name := range []string{"out", "../outside", filepath.Join(root, "outside"), "..", "/",
			"/proc/self/fd/0"} {
			in.Files = []string{"in", name}
			_, err := tasks(t, in)
			require.ErrorContains(t, err, "task 2 ("+name+"): the file is outside of the working directory "+dir)
			require.ErrorContains(t, err, "\nhint: -C ")
		}
	}
}

// A file that a value, a line or a column names counts for --resume, as one of FILES does.
func TestFilesOfValues(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.md", "b.md"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	a, b := filepath.Join(dir, "a.md"), filepath.Join(dir, "b.md")
	long := strings.Repeat("y", 1<<20)
	comma := regexp.MustCompile(",")
	for name, in := range map[string]Source{
		"lists":               {Lists: []List{list1("a.md", b), list1("x", "b.md", "sub", "/etc/hostname", long)}},
		"lines":               {Input: strings.NewReader("a.md\nx\nsub\nb.md")},
		"columns":             {Input: strings.NewReader("a.md,b.md"), Columns: comma},
		"values with columns": {Lists: []List{list1("a.md,b.md,c.md", "a.md\xff")}, Columns: comma},
		"groups":              {Lists: []List{list1("a.md", "c.md", "b.md")}, Group: 3},
	} {
		in.Template, in.Dir = "Read {}", dir
		all, err := tasks(t, in)
		require.NoError(t, err, name)
		found := map[string]bool{}
		for _, made := range all {
			for _, path := range append(made.OtherFiles, made.File) {
				found[path] = true
			}
		}
		delete(found, "")
		assert.Equal(t, map[string]bool{a: true, b: true}, found, name)
	}
	all, err := tasks(t, Source{Template: "{}", Dir: dir, Lists: []List{list1("a.md"), list1("x", "b.md")}})
	require.NoError(t, err)
	assert.Equal(t, []string{a, a}, []string{all[0].File, all[1].File})
	assert.Equal(t, [][]string{nil, {b}}, [][]string{all[0].OtherFiles, all[1].OtherFiles})
}

// Lists that make more tasks than anybody wants are refused before a task is kept.
func TestTooManyCombinations(t *testing.T) {
	many := List{Values: make([]string, 300)}
	for i := range many.Values {
		many.Values[i] = "x"
	}
	file := filepath.Join(t.TempDir(), "values")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("x\n", 300)), 0o600))
	pipe := List{File: "stdin", Input: strings.NewReader(strings.Repeat("x\n", 300))}
	for _, first := range []List{many, {File: file}} {
		err := Source{Template: "{}", Lists: []List{first, many, many, many}}.each(t.Context(), func(item) error {
			t.Fatal("a task is made")
			return nil
		})
		require.ErrorContains(t, err, "the lists make 8100000000 tasks, and a batch has at most 10000000\nhint: ")
	}
	made := 0
	count := func(item) error { made++; return nil }
	err := Source{Template: "{}", Lists: []List{pipe, many, many, many}}.each(t.Context(), count)
	require.ErrorContains(t, err, "the lists make more than 10000000 tasks")
	assert.Zero(t, made)
	more := []List{many, linked(many.Values...), linked(many.Values...), many}
	err = Source{Template: "{}", Lists: more}.each(t.Context(), count)
	require.NoError(t, err)
	assert.Equal(t, 90_000, made)
}

func TestGroupsOfFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	all, err := tasks(t, Source{Template: "{}", Dir: dir, Files: []string{"a", "b", "c"}, Group: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"a b", "c"}, texts(all))
	assert.Equal(t, filepath.Join(dir, "a"), all[0].File)
	assert.Equal(t, []string{filepath.Join(dir, "b")}, all[0].OtherFiles)
	assert.Empty(t, all[1].OtherFiles)
}

func TestShuffle(t *testing.T) {
	var lines []string
	for i := range 200 {
		lines = append(lines, strings.Repeat("x", i+1))
	}
	read := func(template, input string) []string {
		all, err := tasks(t, Source{Input: strings.NewReader(input), Template: template, Shuffle: true})
		require.NoError(t, err)
		return texts(all)
	}
	input := strings.Join(lines, "\n")
	got := read("", input)
	assert.ElementsMatch(t, lines, got)
	assert.NotEqual(t, lines, got)
	assert.Equal(t, got, read("", input), "a batch that is resumed has the same order")
	assert.NotEqual(t, got, read("", input+"\ny")[:200])
	numbered := read("{#}", strings.Join(lines[:3], "\n"))
	assert.Equal(t, "1", numbered[0][:1], "{#} counts as the tasks are run")
	_, err := tasks(t, Source{Input: strings.NewReader("{\"task\":\"a\"}\n{}"), Form: JSONL, Shuffle: true})
	require.ErrorContains(t, err, "task 2 (stdin line 2): ")
}

const readme = `# A title

This is some text which somebody has written and then
wrapped at a width so that it goes over several lines of
the file.

## More

- one
- two
`

const letter = `Dear reader, this is some text which somebody has written and
then wrapped at a width so that it goes over several lines of the
file. Nobody would want a task of each of its lines, as you see.

The second paragraph is of the same kind: its lines are as long
as the width allows, and so the sentences begin and end anywhere
within them.
`

const prompts = `Summarize the file docs/control.md in three sentences for a manager
Summarize the file docs/endurance.md in three sentences for a manager
review the code of internal/box and list what a stranger could attack

# the second day
explain how internal/models/gate decides when a request has to wait
Explain why.
- [ ] write a test for pkg/session
`

const sentences = `Where is the station, and when does the next train leave from there?
I would like to have a room for two nights with a view of the sea.
Could you tell me how much this costs?
My brother lives in a small house near the river, with his two dogs.
The museum opens at nine o'clock, but the garden stays closed until May
You can pay with a card, or in cash, as you like it best, at the desk
`

func TestProse(t *testing.T) {
	page := "<!DOCTYPE html>\n<html>\n"
	refused := []struct {
		in   Source
		saw  string
		hint string
	}{
		{file("README.md", readme), `README.md is a text, and no list of tasks: line 1 is the heading "# A title"`,
			"qq 'Summarize README.md', or qq batch -m 'Summarize {}' README.md; " +
				"for one task a line: --input-format lines"},
		{file("x.rst", "Title\n=====\n\nText.\n"), `line 1 is the heading "Title"`, "qq 'Summarize x.rst'"},
		{file("x.MD", letter), "line 1 begins a paragraph of several lines", "x.MD"},
		{file("x.txt", letter), "line 1 begins a paragraph of several lines", "x.txt"},
		{file("x.txt", readme+"\n## Last\n\ntext\n"), `line 1 is the heading "# A title"`, "x.txt"},
		{stdin(letter), "stdin looks like a text", "… | qq 'Summarize it'"},
		{stdin(page), "stdin looks like a text, and no list of tasks: it begins with <!doctype", ""},
		{stdin("see:\n```\ncode\n```\n"), "blocks of code", ""},
		{file("x.html", "a"), "x.html is a web page", ""},
		{file("main.go", "a"), "main.go is source code", ""},
		{file("tasks.yaml", "- task: a"), "tasks.yaml is YAML, which is not read as tasks", ""},
		{with(file("README.md", readme), "Translate {}"), `README.md is a text, and no list of tasks: line 1 is `,
			"leave --input out: qq batch -m '…' README.md; for one task a line: --input-format lines"},
		{with(file("x.txt", letter), "Translate {}"), "line 1 begins a paragraph of several lines", "x.txt"},
	}
	for _, tt := range refused {
		in := tt.in
		_, err := tasks(t, in)
		require.ErrorContains(t, err, tt.saw)
		require.ErrorContains(t, err, tt.hint)
		assert.Equal(t, 1, strings.Count(err.Error(), "\n"), err)
	}
	for _, in := range []Source{
		file("tasks.txt", prompts), stdin(prompts), file("tasks.txt", "# a\n# b\n\n# c\n"), file("tasks", prompts),
		file("tasks.md", "- one\n- two\n- three\n"), file("tasks.md", "Write a poem.\nWrite a letter.\n"),
		stdin(strings.Repeat("summarize the file with the long name that fills a line of text\n", 50)),
		{Name: "README.md", Input: strings.NewReader(readme), Form: Lines},
		{Name: "README.md", Input: strings.NewReader(readme), Form: Lines, Template: "Translate {}"},
		{Name: "README.md", Input: strings.NewReader(readme), Group: 9, Template: "Translate {}"},
		with(stdin(letter), "Translate {}"), with(file("tasks.txt", prompts), "Do {}"),
		with(file("names.md", "- one\n- two\n- three\n"), "Do {}"), with(file("names.txt", sentences), "Translate {}"),
		with(file("names.txt", sentences+"\n"+sentences), "Translate {}"),
	} {
		_, err := tasks(t, in)
		require.NoError(t, err)
	}
}

// The documents of this project are texts, and are seen as such even without their names.
func TestProseOfDocuments(t *testing.T) {
	names, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, name := range append(names, "../../README.md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		_, err = tasks(t, file(name, string(text)))
		require.ErrorContains(t, err, "no list of tasks", name)
		_, err = tasks(t, stdin(string(text)))
		require.ErrorContains(t, err, "no list of tasks", name)
	}
}

func TestLargeTask(t *testing.T) {
	long(t)
	large := strings.Repeat("x", 2_000_000)
	for _, in := range []Source{stdin(large), with(stdin(large), "do {}"), stdin(`{"task":"` + large + `"}`),
		stdin(`[{"task":"` + large + `"}]`), {Input: strings.NewReader("task\n" + large), Form: CSV}} {
		all, err := tasks(t, in)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, len(all[0].Text), len(large))
	}
}

// TestAsParallel compares with GNU parallel itself: that of QQ_PARALLEL, or of PATH.
func TestAsParallel(t *testing.T) {
	long(t)
	program, err := exec.LookPath(cmp.Or(os.Getenv("QQ_PARALLEL"), "parallel"))
	if err != nil && os.Getenv("QQ_PARALLEL_REQUIRED") == "1" {
		t.Fatal("no GNU parallel: set QQ_PARALLEL to what test/parallel/tools.sh prints")
	}
	if err != nil {
		t.Skip("no GNU parallel: set QQ_PARALLEL to what test/parallel/tools.sh prints")
	}
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, "will-cite"), nil, 0o600))
	dir := t.TempDir()
	values, rows := filepath.Join(dir, "values"), filepath.Join(dir, "rows")
	require.NoError(t, os.WriteFile(values, []byte("f1\nf2\n"), 0o600))
	require.NoError(t, os.WriteFile(rows, []byte("a,b\nc,d\n"), 0o600))
	const all = "[{}] [{/}] [{//}] [{.}] [{/.}] {#}"
	valuesOf := func(name string) List { return List{File: name} }
	fileList := func(linked bool) List { return List{File: values, Linked: linked} }
	cases := []struct {
		args []string // after the template
		in   Source
	}{
		{append([]string{all, ":::"}, paths...), lists(all, list1(paths...))},
		{[]string{"[{1}] [{2/}] {}", ":::", "a", "b", ":::", "x/c", "d"},
			lists("[{1}] [{2/}] {}", list1("a", "b"), list1("x/c", "d"))},
		{[]string{all, ":::", "a/x.y", "b", ":::", "x/c", "d"}, lists(all, list1("a/x.y", "b"), list1("x/c", "d"))},
		{[]string{"do", ":::", "a", "b", ":::", "c", "d"}, lists("do", list1("a", "b"), list1("c", "d"))},
		{[]string{"{2}", ":::", "a", "b", ":::", "c", "d"}, lists("{2}", list1("a", "b"), list1("c", "d"))},
		{[]string{"{1}{2}{3}", ":::", "a", "b", ":::+", "x", "y", "z", ":::", "1", "2"},
			lists("{1}{2}{3}", list1("a", "b"), linked("x", "y", "z"), list1("1", "2"))},
		{[]string{"{1}{2}", ":::", "a", "b", "c", ":::+", "x", "y"}, lists("{1}{2}", list1("a", "b", "c"),
			linked("x", "y"))},
		{[]string{"{1}{2}", "::::", values, ":::", "x", "y"}, lists("{1}{2}", fileList(false), list1("x", "y"))},
		{[]string{"{1}{2}", "::::", values, values}, lists("{1}{2}", fileList(false), fileList(false))},
		{[]string{"{1}{2}", "::::", values, "::::+", values}, lists("{1}{2}", fileList(false), fileList(true))},
		{[]string{"-n2", "[{}] [{1}] [{1/}] [{/.}]", ":::", "a", "x/b.c", "c", "d"},
			Source{Template: "[{}] [{1}] [{1/}] [{/.}]", Group: 2, Lists: []List{list1("a", "x/b.c", "c", "d")}}},
		{[]string{"-n2", "[{}]", ":::", "a", "b", "c"}, Source{Template: "[{}]", Group: 2, Lists: []List{list1("a",
			"b", "c")}}},
		{[]string{"--colsep", ",", "{2}{1} [{}]", "::::", rows},
			Source{Template: "{2}{1} [{}]", Columns: regexp.MustCompile(","), Name: rows}},
		{[]string{"--colsep", ",", "{1}{2}{3}{4} [{}]", "::::", rows, ":::", "x,y", "z,w"},
			Source{Template: "{1}{2}{3}{4} [{}]", Columns: regexp.MustCompile(","),
				Lists: []List{valuesOf(rows), list1("x,y", "z,w")}}},
		{[]string{"--colsep", ",", "{2/} [{}]", ":::", "a,b", "c,x/d"}, Source{Template: "{2/} [{}]",
			Columns: regexp.MustCompile(","), Lists: []List{list1("a,b", "c,x/d")}}},
		{[]string{"{1} {1/}", ":::", "a/b", "c"}, with(stdin("a/b\nc"), "{1} {1/}")},
		{[]string{"{}", ":::", "--x", "-j4"}, lists("{}", list1("--x", "-j4"))},
		{[]string{"--header", ":", "--colsep", ",", "{a} {b/}", "::::", rows}, with(stdin("a,b\nc,d\n"), "{a} {b/}")},
	}
	for _, tt := range cases {
		args := []string{"-k", "-j1", "-q"}
		rest := tt.args
		for strings.HasPrefix(rest[0], "-") {
			n := 2
			if strings.HasPrefix(rest[0], "-n") {
				n = 1
			}
			args, rest = append(args, rest[:n]...), rest[n:]
		}
		args = append(append(args, "echo", rest[0]), rest[1:]...)
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "PARALLEL_HOME="+home)
		want, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", tt.args, want)
		made, err := tasks(t, tt.in)
		require.NoError(t, err, tt.args)
		assert.Equal(t, strings.Split(strings.TrimSuffix(string(want), "\n"), "\n"), texts(made), "%v", tt.args)
	}
}

// FuzzInputs: whatever values there are, a list gives them back, and no value is read as a placeholder.
func FuzzInputs(f *testing.F) {
	f.Add("a\nb", "{1} {2} {#}", "x")
	f.Add("{1}\n\xff", "{2/}{1.} {{1}} {%}", "{1}")
	f.Add("", "{3}", "")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, values, template, second string) {
		in := Source{Template: template, Lists: []List{list1(strings.Split(values, "\n")...), list1(second)}}
		s, err := Check(t.Context(), in, dir, func(_ int, made task.Task) error {
			require.NoError(t, made.Validate())
			for _, at := range made.Slots {
				require.Equal(t, "{%}", made.Text[at:at+3])
			}
			return nil
		})
		if err == nil {
			require.NoError(t, s.Close())
		}
	})
}

// A column that is called like the number or the slot of a task does not take its place.
func TestColumnsCalledAsNumbers(t *testing.T) {
	all, err := tasks(t, with(file("x.csv", "#,%,name\nx,y,z\nx,y,z\n"), "{#} {name} {2}"))
	require.NoError(t, err)
	assert.Equal(t, []string{"1 z y", "2 z y"}, texts(all))
}
