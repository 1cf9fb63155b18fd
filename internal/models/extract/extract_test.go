package extract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// desk is an agent with a few files: it runs the loop between the backend and
// its tools, and a child of its own for each task that is handed on.
type desk struct {
	t        *testing.T
	files    map[string]string
	tools    []string
	schema   string
	page     int                 // lines that read_file returns at most
	spoil    func(string) string // changes the result of run_parallel_tasks
	calls    []string            // what was called, in order
	handed   []task.Task
	messages []llm.Message
}

const beeFacts = "Bees carry pollen between flowers of many fields. " +
	"Without bees the orchards of the valley would bear little fruit. " +
	"A keeper of bees looks after about thirty hives in the valley."

func newDesk(t *testing.T) *desk {
	return &desk{t: t, page: 2000, tools: []string{listFiles, readFile, runParallel}, files: map[string]string{
		"docs/bees.md": "# Bees\n\n" + beeFacts + "\n",
		"docs/wax.md": "# Wax\n\nBees build the walls of their comb from wax. The wax of old combs is melted and " +
			"sold as candles. Old wax is dark, and new wax is pale.\n",
		"docs/logo.png": "\x89PNG",
		"docs/mead.txt": "Mead is made of honey and water. The keeper stores mead in barrels of oak. A barrel of " +
			"mead needs a year.",
		"docs/empty.csv": "1,2\n3,4\n",
		"README.md": "# Valley\n\nThe valley is known for its orchards and hives. Farmers rent hives in spring. " +
			"Visitors come to taste the mead.\n",
	}}
}

// ask says text and plays until the backend answers with text.
func (d *desk) ask(text string) (string, error) {
	d.messages = append(d.messages, llm.Message{Role: llm.User, Content: text})
	for range 12 {
		r := llm.Request{System: "You summarize.", Messages: d.messages, Schema: json.RawMessage(d.schema)}
		if d.schema == "" {
			r.Schema = nil
		}
		for _, name := range d.tools {
			r.Tools = append(r.Tools, tool.Spec{Name: name})
		}
		var streamed strings.Builder
		answer, err := New().Chat(context.Background(), r, func(c llm.Chunk) { streamed.WriteString(c.Text) })
		assert.Equal(d.t, answer.Message.Content, streamed.String())
		if err != nil {
			return answer.Message.Content, err
		}
		assert.Equal(d.t, llm.Assistant, answer.Message.Role)
		assert.Positive(d.t, answer.Usage.InputTokens)
		assert.Positive(d.t, answer.Usage.OutputTokens)
		d.messages = append(d.messages, answer.Message)
		if len(answer.Message.Calls) == 0 {
			return answer.Message.Content, nil
		}
		assert.Empty(d.t, answer.Message.Content)
		for _, c := range answer.Message.Calls {
			assert.Contains(d.t, d.tools, c.Name)
			d.messages = append(d.messages, llm.Message{Role: llm.ToolRole, CallID: c.ID, Tool: c.Name,
				Content: d.run(c)})
		}
	}
	d.t.Fatal("no answer after 12 turns")
	return "", nil
}

func (d *desk) run(c tool.Call) string {
	d.calls = append(d.calls, c.Name)
	var args struct {
		Path    string
		Pattern string
		Start   int `json:"start_line"`
		End     int `json:"end_line"`
		Tasks   []task.Task
	}
	require.NoError(d.t, json.Unmarshal(c.Arguments, &args))
	switch c.Name {
	case listFiles:
		return d.list(args.Path, args.Pattern)
	case readFile:
		return d.read(args.Path, args.Start, args.End)
	}
	var results []task.Result
	for _, work := range args.Tasks {
		d.handed = append(d.handed, work)
		child := &desk{t: d.t, files: d.files, tools: []string{readFile}, page: d.page}
		text, err := child.ask(work.Text)
		r := work.Ended(task.Completed, "")
		if err != nil {
			line, _, _ := strings.Cut(err.Error(), "\n")
			r = work.Ended(task.Failed, line)
		}
		r.Output = text
		results = append(results, r)
	}
	out, err := json.Marshal(results)
	require.NoError(d.t, err)
	if d.spoil != nil {
		return d.spoil(string(out))
	}
	return string(out)
}

func (d *desk) list(folder, pattern string) string {
	var names []string
	for name := range d.files {
		rest, ok := strings.CutPrefix(name, strings.TrimPrefix(folder+"/", "./"))
		glob := pattern
		if pattern == "**" || strings.HasPrefix(pattern, "**/") {
			rest, glob = path.Base(rest), "*"+strings.TrimPrefix(pattern[2:], "/*")
		}
		glob = strings.ReplaceAll(glob, "{,.*}", "*")
		if match, err := doublestar.Match(glob, rest); name == folder || ok && match && err == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "Error: " + folder + ": no such file or folder"
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}

func (d *desk) read(name string, start, end int) string {
	text, ok := d.files[name]
	if !ok {
		return "Error: " + name + ": no such file"
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	end = min(end, len(lines), start+d.page-1)
	out := strings.Join(lines[start-1:end], "\n") + "\n"
	if end < len(lines) {
		out += fmt.Sprintf("[lines %d-%d of %d: read on with start_line=%d]", start, end, len(lines), end+1)
	}
	return out
}

func TestOneFile(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	text, err := d.ask("Summarize docs/bees.md")
	require.NoError(t, err)
	assert.Equal(t, beeFacts, text)
	assert.Equal(t, []string{readFile}, d.calls)
}

// requireIncomplete asserts that an answer came with the error that says what is
// missing in it.
func requireIncomplete(t *testing.T, err error, want string) {
	t.Helper()
	problem, ok := errors.AsType[*llm.Error](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, llm.Server, problem.Kind)
	assert.Equal(t, want, problem.Problem)
	assert.Empty(t, problem.Hint)
}

func TestSeveralFilesGoToChildren(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	text, err := d.ask("Summarize the documents in docs/ and README.md in 1 sentence.")
	requireIncomplete(t, err, "1 of 5 documents was not summarized: docs/empty.csv")
	assert.Equal(t, []string{listFiles, runParallel}, d.calls)
	require.Len(t, d.handed, 5)
	assert.Equal(t, task.Task{Text: "Summarize the file docs/bees.md in 1 sentence", Agent: "summarizer"}, d.handed[0])
	for _, want := range []string{"## In short\n\n", "## docs/bees.md\n\n", "## docs/wax.md\n\n",
		"## docs/mead.txt\n\n", "## README.md\n\n",
		"\n\nLeft out: 1 file without text of the wanted kind.\nNot summarized: docs/empty.csv: the text has no " +
			"sentences to quote"} {
		assert.Equal(t, 1, strings.Count(text, want), want)
	}
	assert.Less(t, strings.Index(text, "## docs/bees.md"), strings.Index(text, "## docs/mead.txt"))
	assert.Less(t, strings.Index(text, "## docs/wax.md"), strings.Index(text, "## README.md"))
}

func TestLeafReadsItself(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.tools = []string{listFiles, readFile}
	text, err := d.ask("key points of docs/*.md")
	require.NoError(t, err)
	assert.Equal(t, []string{listFiles, readFile, readFile}, d.calls)
	assert.Contains(t, text, "## docs/bees.md\n\n- Bees carry pollen between flowers of many fields.\n- ")
	assert.Contains(t, text, "## docs/wax.md\n\n- Bees build")
	assert.Len(t, d.messages[3].Calls, 2, "both files in one answer")
}

func TestChildrenFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(string) string
		tools []string
		want  string
		calls []string
		fails string
		lacks string // what the error beside the answer says
	}{
		"no children: read it yourself": {
			spoil: func(string) string { return "Error: Maximum recursion depth (3) exceeded" },
			tools: []string{listFiles, readFile, runParallel}, want: "## docs/wax.md\n\nBees build",
			calls: []string{listFiles, runParallel, readFile, readFile},
		},
		"result is cut: read the rest": {
			spoil: func(s string) string { return s[:strings.Index(s, `"success"`)+len(`"success":true`)] },
			tools: []string{listFiles, readFile, runParallel}, want: "## docs/wax.md\n\nBees build",
			calls: []string{listFiles, runParallel, readFile, readFile},
		},
		"no way to read": {
			spoil: func(string) string { return "Error: Maximum recursion depth (3) exceeded" },
			tools: []string{listFiles, runParallel},
			fails: "not summarized: docs/bees.md: Maximum recursion depth (3) exceeded (and 1 file more)",
		},
		"one failed": {
			spoil: func(s string) string {
				var r []task.Result
				_ = json.Unmarshal([]byte(s), &r)
				r[1].End(task.Timeout, "Child agent error: Child process timed out after 300s")
				r[1].Output = ""
				out, _ := json.Marshal(r)
				return string(out)
			},
			tools: []string{listFiles, readFile, runParallel},
			want:  "\n\nNot summarized: docs/wax.md: Child agent error: Child process timed out after 300s",
			calls: []string{listFiles, runParallel},
			lacks: "1 of 2 documents was not summarized: docs/wax.md",
		},
		"one was broken off": {
			spoil: func(s string) string {
				var r []task.Result
				_ = json.Unmarshal([]byte(s), &r)
				r[1].End(task.Timeout, "timed out after 300s")
				out, _ := json.Marshal(r)
				return string(out)
			},
			tools: []string{listFiles, readFile, runParallel},
			want:  "\n\nOnly a part of docs/wax.md was summarized: timed out after 300s",
			calls: []string{listFiles, runParallel},
			lacks: "docs/wax.md: timed out after 300s",
		},
	} {
		d := newDesk(t)
		d.spoil, d.tools = c.spoil, c.tools
		text, err := d.ask("Summarize docs/*.md")
		if c.fails != "" {
			var problem *llm.Error
			require.ErrorAs(t, err, &problem, name)
			assert.Equal(t, llm.Server, problem.Kind, name)
			assert.Equal(t, c.fails, problem.Problem, name)
			continue
		}
		if c.lacks == "" {
			require.NoError(t, err, name)
		} else {
			requireIncomplete(t, err, c.lacks)
		}
		assert.Contains(t, text, c.want, name)
		assert.Equal(t, c.calls, d.calls, name)
	}
}

func TestLongFileIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{9, 10, 11, 25, 199} {
		d := newDesk(t)
		d.page = 10
		var want []string
		for i := range lines {
			want = append(want, fmt.Sprintf("The keeper number %d walks to the hive.", i))
		}
		d.files["long.txt"] = strings.Join(want, "\n\n")
		talk := newTalk(llm.Request{}, 0)
		talk.offered[readFile] = true
		p := part{path: "long.txt"}
		turns := 0
		for text := talk.read(&p); ; text = talk.read(&p) {
			if len(talk.wanted) == 0 {
				assert.Equal(t, d.files["long.txt"]+"\n", text)
				assert.Empty(t, p.problem)
				break
			}
			for _, c := range talk.wanted {
				talk.results[callKey(c.Name, c.Arguments)] = d.run(c)
			}
			talk.wanted = nil
			turns++
		}
		assert.LessOrEqual(t, turns, 2)
	}
}

func TestReadingIsBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.page = 1
	d.files["long.txt"] = strings.Repeat("Bees carry pollen between the flowers.\n", 200)
	text, err := d.ask("Summarize long.txt")
	requireIncomplete(t, err, "long.txt: only the first 50 of 200 lines were read")
	assert.Contains(t, text, "Bees carry pollen")
	assert.Contains(t, text, "Only a part of long.txt was summarized: only the first 50 of 200 lines were read")
	assert.LessOrEqual(t, len(d.calls), mostReads)
}

func TestNames(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	text, err := d.ask("Summarize the readme")
	require.NoError(t, err)
	assert.Contains(t, text, "The valley is known")

	text, err = newDesk(t).ask("Summarize docs/bees.md and missing.md")
	requireIncomplete(t, err, "1 of 2 documents was not summarized: missing.md")
	assert.Equal(t, "## docs/bees.md\n\n"+beeFacts+"\n\nNot summarized: missing.md: no such file", text)

	d = newDesk(t)
	text, err = d.ask("Summarize docs")
	requireIncomplete(t, err, "1 of 4 documents was not summarized: docs/empty.csv")
	assert.Contains(t, text, "## docs/wax.md")

	for text, kind := range map[string]llm.Kind{
		"Summarize nowhere/":         llm.Rejected,
		"Summarize missing.md":       llm.Server,
		"Summarize a.md b.md":        llm.Server,
		"Summarize elves":            llm.Unsupported,
		"Summarize docs/logo.png":    llm.Rejected,
		"Summarize docs/empty.csv":   llm.Unsupported,
		"Summarize bees\ndocs/b.md":  llm.Unsupported,
		"Write a poem about the bee": llm.Unsupported,
	} {
		_, err := newDesk(t).ask(text)
		var problem *llm.Error
		require.ErrorAs(t, err, &problem, text)
		assert.Equal(t, kind, problem.Kind, text)
		assert.NotContains(t, problem.Problem, "\n")
	}
}

// A file that is left out, or not found, is an error beside the answer.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for i := range mostFiles + 3 {
		d.files[fmt.Sprintf("many/%03d.txt", i)] = beeFacts
	}
	text, err := d.ask("Summarize many/")
	requireIncomplete(t, err, "3 documents left out: at most 100 are read at once")
	assert.Len(t, d.handed, mostFiles)
	assert.Contains(t, text, "\n\n3 documents left out: at most 100 are read at once")

	text, err = newDesk(t).ask("Summarize docs/bees.md and nowhere/")
	requireIncomplete(t, err, "not found: nowhere/: nowhere: no such file or folder")
	assert.Contains(t, text, beeFacts)

	d = newDesk(t)
	d.files["blank.txt"] = "\n"
	_, err = d.ask("Summarize blank.txt")
	problem, ok := errors.AsType[*llm.Error](err)
	require.True(t, ok)
	assert.Equal(t, "blank.txt: the file is empty", problem.Problem)
	assert.Empty(t, problem.Hint)
	_, err = newDesk(t).ask("Summarize docs/empty.csv")
	require.ErrorContains(t, err, "docs/empty.csv: the text has no sentences to quote")
}

// A name with spaces stands in quotes. Without them no other file is read.
func TestNamesWithSpaces(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]bool{
		"Summarize with space.md in one sentence": true,
		"Summarize the final report.md":           true,
		"Summarize `with space.md`":               false,
		`Summarize "final report.md" in 2 words`:  false,
	} {
		d := newDesk(t)
		const moon = "The moon is far away from all of us."
		d.files["space.md"], d.files["report.md"] = moon, moon
		d.files["with space.md"], d.files["final report.md"] = beeFacts, beeFacts
		answer, err := d.ask(text)
		assert.NotContains(t, answer, "moon", text)
		if wrong {
			require.ErrorContains(t, err, "is neither a word it knows nor a file or folder", text)
			continue
		}
		require.NoError(t, err, text)
		assert.Contains(t, answer, "carry pollen", text)
	}
	for _, text := range []string{"Summarize docs/\nbees.md in one sentence", "Summarize docs/bees.md\ndocs/wax.md",
		"Summarize a\ndocs/wax.md", "Summarize line\nbreak docs/wax.md in one sentence", "Summarize docs/\n\nbees.md"} {
		_, err := newDesk(t).ask(text)
		require.Error(t, err, text)
	}
}

// Where the output of a child was cut, the marks of the cut are no sentences.
func TestCutMarksAreNotQuoted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.spoil = func(s string) string {
		var r []task.Result
		require.NoError(t, json.Unmarshal([]byte(s), &r))
		for i := range r {
			r[i].Output += "\n[Output truncated at 4000 chars]\n[12345 characters left out; full output: " +
				"/tmp/x/output.txt]\nthe end of the text."
		}
		out, err := json.Marshal(r)
		require.NoError(t, err)
		return string(out)
	}
	text, err := d.ask("Summarize docs/*.md")
	require.NoError(t, err)
	short, _, ok := strings.Cut(strings.TrimPrefix(text, "## In short\n\n"), "\n\n## ")
	require.True(t, ok)
	assert.NotContains(t, short, "truncated")
	assert.NotContains(t, short, "left out")
	assert.Contains(t, short, "Bees")
}

func TestSeveralFilesOtherProducts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	text, err := d.ask("5 keywords of docs/*.md")
	require.NoError(t, err)
	short, rest, ok := strings.Cut(strings.TrimPrefix(text, "## In short\n\n"), "\n\n## docs/bees.md\n\n")
	require.True(t, ok, text)
	assert.True(t, strings.HasPrefix(short, "bees, ") || strings.HasPrefix(short, "comb"),
		"what both files share comes first: %s", short)
	assert.Len(t, strings.Split(short, ", "), 5)
	assert.Contains(t, rest, "\n\n## docs/wax.md\n\n")

	text, err = newDesk(t).ask("Outline docs/bees.md and README.md")
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(text, "## docs/bees.md\n\n- Bees carry"), text)
}

func TestContext(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Summarize", "Summarize notes.md", "Summarize this text"} {
		d := newDesk(t)
		d.tools = nil
		got, err := d.ask(llm.WithContext(text, beeFacts))
		require.NoError(t, err)
		assert.Equal(t, beeFacts, got)
	}
}

func TestFollowUpUsesWhatWasRead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := d.ask("Summarize docs/wax.md")
	require.NoError(t, err)
	text, err := d.ask("And the keywords?")
	require.NoError(t, err)
	assert.Contains(t, text, "wax")
	assert.Equal(t, []string{readFile}, d.calls)
	_, err = d.ask("Summarize docs/wax.md")
	require.NoError(t, err)
	assert.Equal(t, []string{readFile, readFile}, d.calls, "a new request reads anew")
	ids := map[string]bool{}
	for _, m := range d.messages {
		for _, c := range m.Calls {
			assert.False(t, ids[c.ID], c.ID)
			ids[c.ID] = true
		}
	}
}

func TestLastTurnWithoutTools(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	answer, err := New().Chat(context.Background(), llm.Request{
		Messages: []llm.Message{{Role: llm.User, Content: "Summarize docs/bees.md and docs/wax.md"}},
		Tools:    []tool.Spec{{Name: readFile}},
	}, func(llm.Chunk) {})
	require.NoError(t, err)
	calls := answer.Message.Calls
	require.Len(t, calls, 2)
	assert.Equal(t, "call_1", calls[0].ID)
	assert.JSONEq(t, `{"path":"docs/bees.md","start_line":1,"end_line":2000}`, string(calls[0].Arguments))
	answer, err = New().Chat(context.Background(), llm.Request{Messages: []llm.Message{
		{Role: llm.User, Content: "Summarize docs/bees.md and docs/wax.md"},
		answer.Message,
		{Role: llm.ToolRole, CallID: "call_1", Content: d.run(calls[0])},
		{Role: llm.User, Content: "The turns are used up: answer now with what there is."},
	}}, func(llm.Chunk) {})
	requireIncomplete(t, err, "1 of 2 documents was not summarized: docs/wax.md")
	assert.Contains(t, answer.Message.Content, "## docs/bees.md\n\nBees carry")
	assert.Contains(t, answer.Message.Content, "Not summarized: docs/wax.md: ")
}

func TestSchema(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.schema = `{"type":"object","properties":{"title":{"type":"string"},"summary":{"type":"string"},
		"key_points":{"type":"array","items":{"type":"string"},"maxItems":2},"keywords":{"type":"array","items":{"type":"string"}},
		"mood":{"type":"string"}},"required":["summary","title"],"additionalProperties":false}`
	text, err := d.ask("Summarize docs/bees.md")
	require.NoError(t, err)
	var got struct {
		Title, Summary, Mood string
		KeyPoints            []string `json:"key_points"`
		Keywords             []string
	}
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	assert.Equal(t, "Bees", got.Title)
	assert.Equal(t, beeFacts, got.Summary)
	assert.Len(t, got.KeyPoints, 2)
	assert.Contains(t, got.Keywords, "bees")
	assert.Empty(t, got.Mood)

	d = newDesk(t)
	d.schema = `{"type":"object","properties":{"summary":{"type":"string"}}}`
	text, err = d.ask("Summarize docs/bees.md and docs/wax.md in 2 sentences")
	require.NoError(t, err)
	assert.NotContains(t, d.calls, runParallel)
	assert.True(t, json.Valid([]byte(text)))

	for _, schema := range []string{
		`{"type":"array","items":{"type":"string"}}`,
		`{"type":"object","properties":{"mood":{"type":"string"}},"required":["mood"]}`,
		`{"type":"object","properties":{"summary":{"type":"integer"}},"required":["summary"]}`,
		`{"$ref":"#/x","type":"object"}`,
	} {
		d := newDesk(t)
		d.schema = schema
		_, err := d.ask("Summarize docs/bees.md")
		var problem *llm.Error
		require.ErrorAs(t, err, &problem, schema)
		assert.Equal(t, llm.Unsupported, problem.Kind, schema)
	}
}

// An agent with tools meets its schema only when its first answer did not fit.
func TestSchemaAfterTheFirstAnswer(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Summarize docs/bees.md", "Summarize docs/*.md"} {
		d := newDesk(t)
		_, err := d.ask(text)
		require.NoError(t, err)
		calls := len(d.calls)
		d.tools, d.schema = nil, `{"type":"object","properties":{"summary":{"type":"string"}},"required":["summary"]}`
		for range 2 {
			answer, err := d.ask("Your answer does not fit the JSON Schema: it is not JSON. " +
				"Answer again with the JSON document alone.")
			require.NoError(t, err)
			var got struct{ Summary string }
			require.NoError(t, json.Unmarshal([]byte(answer), &got))
			assert.Contains(t, got.Summary, "Bees carry pollen")
		}
		assert.Len(t, d.calls, calls)
	}
}

func TestNotesOfReadFile(t *testing.T) {
	t.Parallel()
	type result struct {
		text        string
		next, total int
	}
	for text, want := range map[string]result{
		"a\nb": {"a\nb", 0, 0},
		"a\n[lines 1-1 of 3: read on with start_line=2]":                                           {"a\n", 2, 3},
		"a\n[not UTF-8: 2 bytes are shown as U+FFFD]\n[lines 1-1 of 3: read on with start_line=2]": {"a\n", 2, 3},
		"a\n[line 1 is cut after 9 characters: it has 90 bytes]":                                   {"a\n", 0, 0},
		"[the file is empty]":     {"", 0, 0},
		"see\n[lines of code]":    {"see\n[lines of code]", 0, 0},
		"[line 1] is a line\n[x]": {"[line 1] is a line\n[x]", 0, 0},
		"":                        {"", 0, 0},
	} {
		var got result
		got.text, got.next, got.total = cutNotes(text)
		assert.Equal(t, want, got, text)
	}
}

func TestMaxTokensAndCancel(t *testing.T) {
	t.Parallel()
	r := llm.Request{MaxTokens: 10,
		Messages: []llm.Message{{Role: llm.User, Content: llm.WithContext("Summarize", beeFacts)}}}
	answer, err := New().Chat(context.Background(), r, func(llm.Chunk) {})
	require.NoError(t, err)
	assert.Equal(t, llm.StopLength, answer.Stop)
	assert.True(t, strings.HasPrefix(beeFacts, answer.Message.Content))
	assert.LessOrEqual(t, tokens(answer.Message.Content), 10)

	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	_, err = New().Chat(ctx, r, func(llm.Chunk) { t.Error("a word after the cancel") })
	require.ErrorIs(t, err, context.Canceled)
}
