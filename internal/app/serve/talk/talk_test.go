package talk

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// called is a call with its result.
func called(id, name, args string, failed bool) []llm.Entry {
	return []llm.Entry{
		{Message: llm.Message{Role: llm.Assistant, Calls: []tool.Call{{ID: id, Name: name,
			Arguments: json.RawMessage(args)}}}},
		{Message: llm.Message{Role: llm.ToolRole, CallID: id, Tool: name, Content: "said"}, Failed: failed},
	}
}

// Only what was done counts as a change: no call that failed, none without a result, and none that only reads.
func TestChanges(t *testing.T) {
	var all []llm.Entry
	for _, one := range [][]llm.Entry{
		called("1", "edit_file", `{"path":"a.go","old_text":"x","new_text":"y"}`, false),
		called("2", "edit_file", `{"path":"b.go","old_text":"x","new_text":"y"}`, true),
		called("3", "read_file", `{"path":"c.go"}`, false),
		called("4", "create_file", `{"path":"d.go","content":"one\ntwo\n"}`, false),
		called("5", "delete_file", `{"path":"e.go"}`, false),
		called("6", "edit_file", `no JSON`, false),
		called("7", "write_file", `{"path":"f.go","content":"z"}`, false)[:1],
	} {
		all = append(all, one...)
	}
	files := Changes([]string{"a.go", "made.txt"}, all)
	var names []string
	for _, f := range files {
		names = append(names, f.Name.String())
	}
	require.Equal(t, []string{"a.go", "d.go", "e.go", "made.txt"}, names)
	assert.Equal(t, "-x", files[0].Lines[1].Text.String())
	assert.Equal(t, "del", files[0].Lines[1].Class)
	assert.Equal(t, "add", files[0].Lines[2].Class)
	assert.Len(t, files[0].Lines, 3)
	assert.Equal(t, "created", files[1].Note)
	assert.Contains(t, files[3].Note, "by a command")
}

func TestEntries(t *testing.T) {
	long := called("1", "read_file", `{"path":"a"}`, true)
	long[1].Content = string(make([]byte, 2*maxText))
	views := Entries(long)
	require.Len(t, views, 2)
	assert.Equal(t, "Agent", views[0].Who.String())
	assert.Equal(t, "read_file", views[0].Calls[0].Tool.String())
	assert.NotEmpty(t, views[1].Folded)
	assert.True(t, views[1].Failed)
	assert.Contains(t, views[1].Text.String(), "[20000 more bytes are not shown]")
}

// FuzzEntries: whatever a transcript has, its page can be made.
func FuzzEntries(f *testing.F) {
	f.Add("edit_file", `{"path":"a.go","old_text":"x","new_text":"y"}`, "said")
	f.Add("write_file", `{"path":"\u202e"}`, "\x1b[31m")
	f.Fuzz(func(t *testing.T, name, args, content string) {
		all := called("1", name, args, false)
		all[1].Content = content
		assert.Len(t, Entries(all), 2)
		for _, file := range Changes(nil, all) {
			for _, r := range file.Name.String() {
				assert.False(t, tool.Obeyed(r), "%q", file.Name)
			}
		}
	})
}

// A file is there once, in whatever way a call names it.
func TestChangesNameAFileOnce(t *testing.T) {
	var all []llm.Entry
	for i, path := range []string{"/work/abs.txt", "/work/sub/both.txt", "./dot.txt", "x/../up.txt"} {
		all = append(all, called(fmt.Sprint(i), "write_file", `{"path":"`+path+`","content":"z"}`, false)...)
	}
	files := Changes([]string{"abs.txt", "both.txt", "dot.txt", "sub/both.txt", "up.txt"}, all)
	require.Len(t, files, 5)
	assert.Equal(t, "both.txt", files[4].Name.String(), "another file with the same last name")
	assert.Contains(t, files[4].Note, "by a command")
}

// said is a call that has succeeded with that result.
func said(name, args, result string) []llm.Entry {
	all := called(name+args, name, args, false)
	all[1].Content = result
	return all
}

// shown is what a page shows of changes.
func shown(entries ...[]llm.Entry) (text string) {
	for _, f := range Changes([]string{"made.txt"}, slices.Concat(entries...)) {
		text += f.Name.String() + ": " + f.Note + "\n"
		for _, l := range f.Lines {
			text += l.Text.String() + "\n"
		}
	}
	return text
}

// A file is one entry, with all its changes. What a file had before it was overwritten is shown if the job has read or
// written it; what a command or a rewrite of code has changed has no diff, and that is said.
func TestChangesSayWhatIsNotKnown(t *testing.T) {
	read := said("read_file", `{"path":"a.txt"}`, "one\ntwo\n")
	written := said("write_file", `{"path":"./a.txt","content":"one\n2\n"}`, "wrote a.txt: 2 lines")
	edited := said("edit_file", `{"path":"a.txt","old_text":"one","new_text":"ONE"}`, "edited a.txt, line 1")
	rest := "made.txt: changed by a command, or by a job below: there is no diff\n"
	both := "@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -1,2 +1,2 @@\n-one\n+ONE\n 2\n"
	assert.Equal(t, "./a.txt: overwritten, then edited\n"+both+rest, shown(read, written, edited))
	unknown := "./a.txt: written whole: what was there before is not recorded\n@@ -0,0 +1,2 @@\n+one\n+2\n" + rest
	assert.Equal(t, unknown, shown(written))
	part := said("read_file", `{"path":"a.txt"}`, "one\n[lines 1-1 of 2: read on with start_line=2]")
	assert.Equal(t, unknown, shown(part, written), "only a part was read")
	assert.Equal(t, unknown, shown(read, said("run_pty_cmd", `{"command":"date > a.txt"}`, ""), written))
	assert.Equal(t, "./a.txt: created\n@@ -0,0 +1,2 @@\n+one\n+2\n"+rest,
		shown(said("write_file", `{"path":"./a.txt","content":"one\n2\n"}`, "created a.txt: 2 lines")))
	assert.Equal(t, "x.go: 2 places replaced by ast_grep_replace, there is no diff: foo($A) → bar($A)\n"+
		"made.txt: 1 place replaced by ast_grep_replace, there is no diff: foo($A) → bar($A)\n",
		shown(said("ast_grep_replace", `{"pattern":"foo($A)","rewrite":"bar($A)","lang":"go"}`,
			"x.go: 2 replaced\nmade.txt: 1 replaced")))
}
