package loop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// folder is files and how many lines they have.
type folder map[string]int

func (f folder) Lines(path string) (int, bool) {
	n, ok := f[path]
	return n, ok
}

var project = folder{
	"docs/a.md": 40, "a.go": 20, "Makefile": 5,
	"my docs/über uns.md": 9, "app/[id]/page (old).tsx": 30, "empty": 0, "one": 1,
	"page.go": 3, "_x.go": 7, "x:y.go": 4, "+page.svelte": 8,
}

func found(text string) (s []string) {
	f := refFinder{text: text, files: project, known: map[string]int{}}
	for _, r := range f.find() {
		s = append(s, fmt.Sprintf("%s|%d-%d", r.path, r.first, r.last))
	}
	return s
}

func TestFindReferences(t *testing.T) {
	for text, want := range map[string][]string{
		"a.go:12":                             {"a.go|12-12"},
		"see a.go:12.":                        {"a.go|12-12"},
		"a.go:12-15, a.go:3–4; a.go:7:2":      {"a.go|12-15", "a.go|3-4", "a.go|7-7"},
		"a.go:12:5-14":                        {"a.go|12-12"},
		"a.go:12,docs/a.md:3":                 {"a.go|12-12", "docs/a.md|3-3"},
		"`a.go:12` (docs/a.md:3) \"a.go:4\"":  {"a.go|12-12", "docs/a.md|3-3", "a.go|4-4"},
		"**a.go:12** _docs/a.md:3_ _x.go:1":   {"a.go|12-12", "docs/a.md|3-3", "_x.go|1-1"},
		"[the start](a.go:12)":                {"a.go|12-12"},
		"[a.go:12](docs/a.md:3)":              {"a.go|12-12", "docs/a.md|3-3"},
		"`a.go`:12 and [a.go](a.go):13":       {"a.go|12-12", "a.go|13-13"},
		"<my docs/über uns.md:2>":             {"my docs/über uns.md|2-2"},
		"in `my docs/über uns.md:2`":          {"my docs/über uns.md|2-2"},
		"my docs/über uns.md:2":               {"my docs/über uns.md|2-2"},
		"- my docs/über uns.md:2":             nil,
		"(app/[id]/page (old).tsx:7)":         {"app/[id]/page (old).tsx|7-7"},
		"| a.go:1|Makefile:2 |":               {"a.go|1-1", "Makefile|2-2"},
		"file:a.go:12, see:Makefile:3":        {"a.go|12-12", "Makefile|3-3"},
		"x:y.go:2":                            {"x:y.go|2-2"},
		"+page.svelte:8":                      {"+page.svelte|8-8"},
		"a.go:12:30px := 5":                   {"a.go|12-12"},
		"a.go:12: func main() {":              {"a.go|12-12"},
		"a.go:12\r\ndocs/a.md:1\r":            {"a.go|12-12", "docs/a.md|1-1"},
		"a.go:0 a.go:99999999999999999999999": {"a.go|0-0", "a.go|9223372036854775807-9223372036854775807"},
		"„a.go:12“ “a.go:13” «a.go:14»":       {"a.go|12-12", "a.go|13-13", "a.go|14-14"},
		"{a.go:12}, a=a.go:13 @a.go:14":       {"a.go|12-12", "a.go|13-13", "a.go|14-14"},
		"a.go:L2 a.go:L2-L5, a.go:l3-4.":      {"a.go|2-2", "a.go|2-5", "a.go|3-4"},
		"a.go#L2 [x](docs/a.md#L3-L7)":        {"a.go|2-2", "docs/a.md|3-7"},

		"a.go line 2, docs/a.md, line 3":                      {"a.go|2-2", "docs/a.md|3-3"},
		"`a.go` (lines 2-5) and my docs/über uns.md":          {"a.go|2-5"},
		"my docs/über uns.md, Line 9.":                        {"my docs/über uns.md|9-9"},
		"line 2 of a.go; lines 3 to 5 in the file `Makefile`": {"a.go|2-2", "Makefile|3-5"},
		"a.go differs from line 40 of docs/a.md":              {"docs/a.md|40-40"},
		"In a.go, the port is set in line 2.":                 {"a.go|2-2"},
		"a.go says so in lines 2 and 5":                       {"a.go|2-5"},
		"a.go line 99":                                        {"a.go|99-99"},
		"line 2 of a.go:3":                                    {"a.go|3-3"},
		"a.go has 20 lines: the output broke off at line 99":  nil,
		"a.go#2 a.go#Lx a.go#L2x a.go:Lx a.go:L b.go#L2":      nil,
		"a.go outline 2 a.go line2 a.go line x a.go line 2nd": nil,
		"line 2, line 3 of it\na.go\nline 4":                  nil,
		"https://x/a.go#L2 linear lines line":                 nil,

		"http://host:80 https://x/a.go:12 12:30 foo:bar [::1]:80": nil,
		"a.go: 12, a.go:x, a.go:, :12, a.go:-3":                   nil,
		"a.go:12px a.go:1.5 a.go:12é":                             nil,
		"a.go\n:12":                                               nil,
		"b.go:12 docs/b.md:1 localhost:8080 C:\\x\\a.go:12":       nil,
		"": nil, ":": nil, "::::": nil, ":1": nil,
	} {
		assert.Equal(t, want, found(text), text)
	}
}

func TestFileReferences(t *testing.T) {
	const none = "no reference: give path:line for each claim"
	for text, want := range map[string]string{
		"a.go:20":                                "",
		"a.go:20 and b.go:1 at 12:30":            "",
		"":                                       "",
		" \n":                                    "",
		"it is so":                               none,
		"at 12:30 on http://x.y:80 with foo:bar": none,
		"see docs/b.md:3, `b.go:1`":              none + "; docs/b.md:3 names no file; b.go:1 names no file",
		"a.md:1 b.md:1 c.md:1 d.md:1": none +
			"; a.md:1 names no file; b.md:1 names no file; c.md:1 names no file",
		"docs/a.md:900":                      "docs/a.md:900 does not exist: the file has 40 lines",
		"a.go:1, docs/a.md:41, docs/a.md:41": "docs/a.md:41 does not exist: the file has 40 lines",
		"a.go:0; a.go:0-3; a.go:3-0; a.go:19-21": "a.go:0 does not exist: the file has 20 lines; " +
			"a.go:0-3 does not exist: the file has 20 lines; " +
			"a.go:3-0 does not exist: the file has 20 lines; a.go:19-21 does not exist: the file has 20 lines",
		"empty:1":  "empty:1 does not exist: the file has 0 lines",
		"one:2":    "one:2 does not exist: the file has 1 line",
		"a.go:7-3": "",
		"a.go#L2":  "", "a.go:L2": "", "line 2 of a.go": "", "in a.go the loop is at line 2": "",
		"docs/a.md:L900, docs/a.md#L901": "docs/a.md:L900 does not exist: the file has 40 lines; " +
			"docs/a.md#L901 does not exist: the file has 40 lines",
		"a.go, line 21":           "a.go line 21 does not exist: the file has 20 lines",
		"see b.go#L2":             none + "; b.go#L2 names no file",
		"line 2 says all":         none,
		"a.go:1 and line 99 of x": "",
	} {
		f := newFileRefs(project)
		assert.Equal(t, want == "", f.accept(text), text)
		assert.Equal(t, want, f.problem, text)
	}
	var many strings.Builder
	for i := range 50 {
		fmt.Fprintf(&many, "a.go:%d ", 100+i)
	}
	f := newFileRefs(project)
	f.accept(many.String())
	assert.Contains(t, f.problem, "; a.go:109 does not exist: the file has 20 lines; and 40 more")
	f.accept("a.go:" + strings.Repeat("9", 1<<20))
	assert.Less(t, len(f.problem), 400)
	assert.True(t, newFileRefs(nil).accept("anything"))
}

// An answer without references is sent back with the problem. That costs no turn, and the
// agent keeps its tools.
func TestReferencesRepaired(t *testing.T) {
	model := &script{steps: []step{says("it is so"), says("docs/a.md:900 says so"), says("docs/a.md:9 says so")}}
	out, rec := start(t, t.Context(), Config{
		Backend: model, Tools: working("look"), MaxTurns: 1, References: project,
	}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, "docs/a.md:9 says so", out.Output)
	assert.Empty(t, out.Warnings)
	assert.Equal(t, []bool{false, false, true}, rec.ends)
	assert.Equal(
		t,
		"Your answer needs references to lines of files, written path:line. What is wrong: "+
			"no reference: give path:line for each claim. "+
			"Answer again, as a whole, with lines that you have seen.",
		rec.messages[2].Content,
	)
	assert.Contains(t, rec.messages[4].Content, "docs/a.md:900 does not exist: the file has 40 lines")
	assert.Equal(t, []string{"free, tools", "free, tools", "free, tools"}, bound(model.asked))
}

// After two attempts the answer is accepted, with a warning.
func TestReferencesSentBackAtMostTwice(t *testing.T) {
	for _, turns := range []int{1, 9} {
		model := &script{steps: []step{says("one"), says("two"), says("docs/a.md:900")}}
		out, _ := start(t, t.Context(), Config{Backend: model, MaxTurns: turns, References: project}, nil)
		assert.Equal(t, task.Completed, out.Status)
		assert.Equal(t, "docs/a.md:900", out.Output)
		assert.Equal(
			t,
			[]string{"references to lines of files: docs/a.md:900 does not exist: the file has 40 lines"},
			out.Warnings,
		)
	}
}

func TestReferencesOfOtherEnds(t *testing.T) {
	for name, c := range map[string]struct {
		steps    []step
		status   task.Status
		warnings int
	}{
		"empty": {[]step{says(" ")}, task.Empty, 0},
		"cut":   {[]step{cut("no refer")}, task.Limit, 0},
		"broken": {[]step{says("none"), breaks("hal", &llm.Error{Kind: llm.BrokenStream})},
			task.Broken, 0},
		"last word":                 {[]step{says("", calling("look")), says("none")}, task.TurnLimit, 1},
		"last word with references": {[]step{says("", calling("look")), says("a.go:1")}, task.TurnLimit, 0},
		"a remark needs none":       {[]step{says("let me look", calling("look")), says("a.go:1")}, task.TurnLimit, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := start(t, t.Context(), Config{
				Backend: &script{steps: c.steps}, Tools: working("look"), MaxTurns: 1, References: project,
			}, nil)
			assert.Equal(t, c.status, out.Status)
			assert.Len(t, out.Warnings, c.warnings)
		})
	}
}

// With a schema both checks must pass, the schema first. References are searched in the
// strings of the JSON.
func TestReferencesWithSchema(t *testing.T) {
	const schema = `{"type":"object","properties":{"at":{"type":"array"}},"required":["at"]}`
	model := &script{steps: []step{says("a.go:1"), says(`{"at":["none"]}`), says(`{"at":[{"x":"see:\na.go:1\tand"}]}`)}}
	out, rec := start(t, t.Context(), Config{
		Backend: model, Tools: working("look"), MaxTurns: 1, Schema: json.RawMessage(schema), References: project,
	}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.NotNil(t, out.Structured)
	assert.Empty(t, out.Warnings)
	assert.Contains(t, rec.messages[2].Content, "does not fit the JSON Schema")
	assert.Contains(t, rec.messages[4].Content, "no reference")

	// What does not fit has failed; references are not asked for any more.
	model = &script{steps: []step{says("x"), says("x"), says("x")}}
	out, _ = start(t, t.Context(), Config{
		Backend: model, MaxTurns: 1, Schema: json.RawMessage(schema), References: project,
	}, nil)
	assert.Equal(t, task.Failed, out.Status)
	assert.Empty(t, out.Warnings)

	// Each has its own two tries.
	good, bad := says(`{"at":["none"]}`), says("x")
	model = &script{steps: []step{good, bad, good, bad, good}}
	out, _ = start(t, t.Context(), Config{
		Backend: model, Tools: tool.Set{}, MaxTurns: 1, Schema: json.RawMessage(schema), References: project,
	}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Len(t, out.Warnings, 1)
}

// A reference is found whatever blanks or marks surround it, and nothing else is taken
// for one.
func TestAnyReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.StringMatching(`([a-zé_.+-]{1,8}/){0,3}[a-z][a-zA-Z0-9_+-]{0,8}(\.[a-z]{1,3})?`).Draw(t, "path")
		files := folder{path: 50}
		line := rapid.IntRange(1, 50).Draw(t, "line")
		where := rapid.SampledFrom([]string{"%d", "%d-50", "%d:7", "%d–50", "%d:7-9"}).Draw(t, "where")
		marks := rapid.SampledFrom([][2]string{{"", ""}, {"`", "`"}, {"(", ")"}, {"[x](", ")"}, {"**", "**"},
			{"\"", "\","}, {"<", ">"}, {"- ", "."}, {"|", "|"}}).
			Draw(t, "marks")
		noise := rapid.SampledFrom(
			[]string{"", "at 12:30 ", "http://host:80 ", "foo:bar ", "über: ", "(see\n", "x.y:1 ", ":1:2 ", "` \" "},
		)
		text := noise.Draw(
			t,
			"before",
		) + marks[0] + path + ":" + fmt.Sprintf(
			where,
			line,
		) + marks[1] + " " + noise.Draw(
			t,
			"after",
		)
		f := refFinder{text: text, files: files, known: map[string]int{}}
		refs := f.find()
		require.Len(t, refs, 1, text)
		assert.Equal(t, path, refs[0].path)
		assert.Equal(t, line, refs[0].first)
		assert.Empty(t, refs[0].fault())
	})
}

// A text full of colons and marks causes only a limited number of look-ups.
func TestHostileAnswer(t *testing.T) {
	nothing := &nowhere{}
	f := newFileRefs(nothing)
	var b strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&b, "(a%x:1", i)
	}
	assert.False(t, f.accept(b.String()))
	assert.Equal(t, maxLookups, nothing.looked)

	*nothing = nowhere{}
	assert.False(t, f.accept(strings.Repeat("a b c d e f g h i j k l m line 1 of x ", 100_000)))
	assert.LessOrEqual(t, nothing.looked, maxLookups)
}

// nowhere has no files, and counts who looks for one.
type nowhere struct{ looked int }

func (n *nowhere) Lines(string) (int, bool) {
	n.looked++
	return 0, false
}

// For any answer: each reference found is part of the answer, names a file, and is judged
// by the number of lines of that file.
func FuzzFileReferences(f *testing.F) {
	for _, seed := range []string{
		"a.go:12", "`my docs/über uns.md:2`-[a](a.go:1-2)", "http://host:80 12:30 foo:bar",
		"a.go:12:30px x:y.go:99999999999999999999", "(((a.go:0–9:3\r\n:1\xff:2",
		`{"a":"b.go:1\na.go:3"}`, "a.go#L2-L5 a.go:L3", "In a.go, lines 2 to 5 of docs/a.md; Line 99 line 3",
		"\"\u2000....00䓓::!:0", strings.Repeat("ü", maxRefPath) + ".é:1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		finder := refFinder{text: text, files: project, known: map[string]int{}}
		rest := text
		right, wrong := false, false
		for _, r := range finder.find() {
			n, ok := project[r.path]
			if !ok || n != r.lines {
				t.Fatalf("%q: %+v names no file", text, r)
			}
			_, behind, ok := strings.Cut(rest, strings.TrimPrefix(r.where, " "))
			if !ok {
				t.Fatalf("%q: %+v does not stand there", text, r)
			}
			if !strings.Contains(text, r.path) || r.first < 0 || r.last < 0 {
				t.Fatalf("%q: %+v", text, r)
			}
			rest = behind
			right = right || r.fault() == ""
			wrong = wrong || r.fault() != ""
		}
		check := newFileRefs(project)
		if got, want := check.accept(text), right && !wrong || strings.TrimSpace(text) == ""; got != want {
			t.Fatalf("%q: accepted %v, want %v: %s", text, got, want, check.problem)
		}
		if utf8.ValidString(text) != utf8.ValidString(text+check.problem) {
			t.Fatalf("%q: %q cuts a character", text, check.problem)
		}
		wording(text, json.RawMessage(text))
	})
}
