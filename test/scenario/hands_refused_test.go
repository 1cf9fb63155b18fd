package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
)

// guarded is an agent with every kind of hand. With read_only it may use none of
// them.
const guarded = `---
name: guarded
description: writes by tool, by shell and by others
tools: [read_file, write_file, run_pty_cmd, delegate_task]
---
You write files.
`

// writing tries to write wherever an agent could, and fails with the last try.
const writing = "cp notes.txt copy.txt; rm notes.txt; mv notes.txt moved.txt; ln -s notes.txt link; sh -c 'echo x > " +
	"../outside.txt'; " +
	`echo x > "${TMPDIR:-/tmp}/temporary.txt"; echo x > by_shell.txt # [[hand]]`

const writingTries = 7

// refusedModel adds the model of these scenarios: a lead, and a child that tries
// to write by tool, by shell, and through an agent that may write.
func refusedModel(t *testing.T, s *ollamatest.Server) string {
	t.Helper()
	addModel(t, s, "refused",
		say("[[lead]]", use("run_parallel_tasks",
			`{"tasks": [{"agent": "guarded", "task": "Try it. [[tool]]", "read_only": true}]}`)),
		say("[[tool]]", use("write_file", `{"path": "by_tool.txt", "content": "x [[shell]]"}`)),
		say("[[shell]]", use("run_pty_cmd", fmt.Sprintf(`{"command": %q}`, writing))),
		say("[[hand]]", use("delegate_task", `{"agent": "coder", "task": "Write it. [[evil]]"}`)),
		say("[[evil]]", use("create_file", `{"path": "by_coder.txt", "content": "x [[done]]"}`)),
		say("[[done]]", "It is written. [[told]]"),
		say("may not delegate to coder", "None of it worked. [[told]]"),
		say("[[told]]", "That is all."),
	)
	return "refused"
}

// withWriter has the model shown what a read-only agent is not offered.
func withWriter() meddling { return meddling{show: []string{"write_file"}} }

// newGuardedWorld is a world in which the kernel keeps an agent from writing.
func newGuardedWorld(t *testing.T, host, model string) *world {
	t.Helper()
	w := newWorld(t, host, model)
	w.file(".qq/agents/guarded.md", guarded)
	w.file("notes.txt", "one\ntwo\n")
	if doctor := w.qq("doctor"); !strings.Contains(doctor.stdout, "landlock") {
		t.Skip("this kernel cannot keep a command from writing, so a read-only agent has no shell")
	}
	return w
}

// noWriter is why nobody who may only read gets a writer, and refusals is how the
// task ends: the exit code of a command is no refusal.
const (
	noWriter = "guarded may only read and may not delegate to coder, which can change things (with read_only it can " +
		"be asked to look)"
	refusals = "write_file was refused: this agent may only read; delegate_task was refused: " + noWriter
)

// assertRefusals checks the answers to the three tries: each says why.
func assertRefusals(t *testing.T, results []string) {
	t.Helper()
	require.Len(t, results, 3)
	assert.Equal(t, "Error: write_file was refused: this agent may only read", results[0])
	assert.Equal(t, writingTries, strings.Count(results[1], "Permission denied"), "by the kernel: %s", results[1])
	assert.Regexp(t, `\n\[exit code [1-9]\d*\]$`, results[1])
	assert.Contains(t, results[2], noWriter)
}

// TestReadOnlyChild: whatever a read-only child of a lead does, nothing is
// written, and everybody is told so. All is approved: what stands in its way is
// that it may only read, and the kernel.
func TestReadOnlyChild(t *testing.T) {
	s := house.server(t, "1")
	recorder := newRecorder(t, s, withWriter())
	w := newGuardedWorld(t, recorder.host, refusedModel(t, s))
	check := w.unchanged()
	e := w.qq("Have it tried. [[lead]]", "--auto-approve", "--output-format", "stream-json")
	check()
	assert.Equal(t, []string{"guarded depth=1"}, w.spawned(), "no coder")

	child := recorder.last(t, "Try it. [[tool]]")
	assertRefusals(t, child.of("tool"))
	assert.Equal(t, []string{"delegate_task", "read_file", "run_pty_cmd"}, child.offered())

	all := events(t, e.stdout)
	ends := where(all, "sub_agent_error")
	require.Len(t, ends, 1)
	assert.Equal(t, "refused", ends[0].Status)
	assert.Equal(t, 1, *ends[0].ExitCode)
	assert.Equal(t, refusals, ends[0].Error)
	var failed []string
	for _, end := range where(all, "tool_end") {
		if end.Failed {
			failed = append(failed, end.Agent+" "+end.Tool)
		}
	}
	assert.Equal(t, []string{"guarded write_file", "guarded delegate_task"}, failed, "an exit code is an answer")

	// The lead reads the same, and was itself refused nothing.
	results := w.toolResults()
	require.Len(t, results, 1)
	var list []json.RawMessage
	require.NoError(t, json.Unmarshal(arrayIn(results[0]), &list))
	require.Len(t, list, 1)
	r := parse(t, string(list[0]))
	assert.Equal(t, "refused", r.Status)
	assert.Equal(t, 1, *r.ExitCode)
	assert.Equal(t, refusals, *r.Error)
	assert.Equal(t, "None of it worked. [[told]]", *r.Output)
	assert.Equal(t, 0, e.code, "exit code of the lead")
}

// TestReadOnlyTask is the same for a task of a batch.
func TestReadOnlyTask(t *testing.T) {
	s := house.server(t, "1")
	w := newGuardedWorld(t, newRecorder(t, s, withWriter()).host, refusedModel(t, s))
	tasks := w.file("tasks.json", `[{"agent": "guarded", "task": "Try it. [[tool]]", "read_only": true}]`)
	check := w.unchanged()
	e := w.qq("batch", "--auto-approve", "--no-bar", "--output-format", "jsonl", tasks)
	check()
	assert.Equal(t, 4, e.code, "exit code")
	lines := resultLines(t, e)
	require.Len(t, lines, 1)
	assert.Equal(t, "refused", lines[0].Status)
	assert.Equal(t, refusals, *lines[0].Error)
	assert.Equal(t, []string{"guarded depth=1"}, w.spawned())
}

// TestReadOnlyRun is the same for the root's own agent, whose transcript is kept.
func TestReadOnlyRun(t *testing.T) {
	s := house.server(t, "1")
	w := newGuardedWorld(t, newRecorder(t, s, withWriter()).host, refusedModel(t, s))
	check := w.unchanged()
	e := w.qq("-a", "guarded", "--read-only", "--auto-approve", "--json", "Try it. [[tool]]")
	check()
	r := e.failed(1, "refused")
	assert.Equal(t, refusals, *r.Error)
	assert.Equal(t, "None of it worked. [[told]]", *r.Output)
	assertRefusals(t, w.toolResults())
	assert.Empty(t, w.spawned())
}

// TestWritingChild shows that the same tries do write where they may, so that
// the scenarios above can fail: in the working directory and the temporary
// folder of the child, and still nowhere else.
func TestWritingChild(t *testing.T) {
	s := house.server(t, "1")
	w := newGuardedWorld(t, newRecorder(t, s, withWriter()).host, refusedModel(t, s))
	tasks := w.file("tasks.json", `[{"agent": "guarded", "task": "Try it. [[tool]]"}]`)
	e := w.qq("batch", "--auto-approve", "--no-bar", "--output-format", "jsonl", tasks)
	assert.Equal(t, 0, e.code, "exit code")
	found := w.files("work")
	for _, name := range []string{"by_tool.txt", "by_shell.txt", "by_coder.txt", "copy.txt"} {
		assert.Contains(t, found, name)
	}
	assert.NotContains(t, found, "notes.txt")
	assert.NoFileExists(t, w.dir+"/outside.txt")
	assert.Equal(t, []string{"guarded depth=1", "coder depth=2"}, w.spawned())
}
