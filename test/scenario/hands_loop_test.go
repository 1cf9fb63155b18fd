package scenario

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
	"qq/test/tinymodel"
)

// What the worker is, as the model writes it.
const written = "You are an expert for lines. Write one."

// loopModel adds the model of these scenarios. Some of its scripts start with
// what qq says to an agent.
func loopModel(t *testing.T, s *ollamatest.Server) string {
	t.Helper()
	addModel(t, s, "loop",
		say("[[again]]", "I look. "+use("list_files", `{"path": "."}`)),
		say("Answer now, without tools", "There are notes."),

		say("[[cite]]", "It is in the notes."),
		say("needs references to lines of files", "It is in notes.txt:99."),
		say("does not exist: the file has", "It is in notes.txt:2. [[cited]]"),
		say("[[cited]]", "The second line."),
		say("[[ask]]", use("delegate_task",
			`{"agent": "analyzer", "require_file_references": true, "task": "Where is it? [[cite]]"}`)),
		say("stubborn.txt", "It is in stubborn.txt:1."), // which qq repeats when it sends that back

		say("[[lead]]", use("delegate_task",
			`{"agent": "worker", "context": "About the sea. [[write]]", "task": "Write a line. [[line]]"}`)),
		say("[[write]]", written),
		say("[[silent]]", ""),
		tinymodel.Script{Start: "[[long]]", Text: "and so on", Loop: true},
		say("[[line]]", "The sea is wide. [[end]]"),
		say("[[end]]", "The line is written."),

		say("[[keep]]", use("read_file", `{"path": "notes.txt", "start_line": 2, "end_line": 2}`)),
		say("[[two]]", use("grep_file", `{"pattern": "three"}`)),
		say("[[three]]", use("write_file", `{"path": "kept.txt", "content": "kept [[kept]]"}`)),
		say("[[kept]]", use("run_pty_cmd", `{"command": "cat kept.txt; echo [[told]]"}`)),
		say("[[told]]", "All four tools work."),
	)
	return "loop"
}

// TestIdenticalCalls: an agent that makes the same call again and again is
// warned, refused and ended. What it says at the end is kept.
func TestIdenticalCalls(t *testing.T) {
	s := house.server(t, "1")
	w := newWorld(t, s.URL.Host, loopModel(t, s))
	w.file("notes.txt", notes)
	r := w.qq("Look. [[again]]", "--json").failed(1, "failed")
	assert.Equal(t, "the agent repeated the same call 10 times in a row (list_files)", *r.Error)
	assert.Equal(t, "There are notes.", *r.Output)

	results := w.toolResults()
	require.Len(t, results, 10)
	for i, result := range results {
		switch n := i + 1; {
		case n < 3:
			assert.Equal(t, results[0], result)
			assert.Contains(t, result, "notes.txt")
		case n < 6:
			ordinal := []string{"3rd", "4th", "5th"}[n-3]
			assert.Equal(t,
				results[0]+"\n[warning: this is the "+ordinal+" identical call in a row; change the arguments, use "+
					"another tool, or answer]", result)
		default:
			assert.Equal(t,
				fmt.Sprintf("Error: refused: the same call %d times in a row: change the arguments, use another tool,"+
					" or answer", n), result)
		}
	}
}

// TestIdenticalCallsWithoutLastWord: what the agent said before is kept when the
// server fails at the end.
func TestIdenticalCallsWithoutLastWord(t *testing.T) {
	s := house.server(t, "1")
	recorder := newRecorder(t, s, meddling{fail: func(nth int) int {
		if nth > 10 {
			return http.StatusBadRequest
		}
		return 0
	}})
	w := newWorld(t, recorder.host, loopModel(t, s))
	e := w.qq("Look. [[again]]", "--json")
	assert.NotZero(t, e.code, "exit code")
	r := e.json()
	assert.Equal(t, "I look.", *r.Output)
	assert.Len(t, recorder.all(), 11)
}

// TestReferencesRepaired: an answer without references, or with wrong ones, goes
// back to the agent of a batch or of a delegation, and the right one comes out.
func TestReferencesRepaired(t *testing.T) {
	const right = "It is in notes.txt:2. [[cited]]"
	s := house.server(t, "1")
	asked := func(t *testing.T, r *recorder) {
		t.Helper()
		users := r.last(t, "Where is it?").of("user")
		require.Len(t, users, 3, "sent back twice")
		assert.Contains(t, users[1], "What is wrong: no reference: give path:line for each claim")
		assert.Contains(t, users[2], "What is wrong: notes.txt:99 does not exist: the file has 2 lines")
	}
	t.Run("batch", func(t *testing.T) {
		recorder := newRecorder(t, s, meddling{})
		w := newWorld(t, recorder.host, loopModel(t, s))
		w.file("notes.txt", notes)
		tasks := w.file("tasks.json", `[{"agent": "analyzer", "task": "Where is it? [[cite]]", "require_file_references": true},
			{"agent": "analyzer", "task": "And stubborn.txt?", "require_file_references": true},
			{"agent": "analyzer", "task": "Anywhere? [[cite]]"}]`)
		e := w.qq("batch", "--no-bar", "--output-format", "jsonl", tasks)
		assert.Equal(t, 0, e.code, "exit code")
		lines := resultLines(t, e)
		require.Len(t, lines, 3)
		assert.Equal(t, right, *lines[0].Output)
		asked(t, recorder)
		assert.Equal(t, "It is in stubborn.txt:1.", *lines[1].Output)
		assert.Len(t, recorder.last(t, "And stubborn.txt?").of("user"), 3, "sent back twice, and then taken")
		assert.Contains(t, strings.Split(e.stdout, "\n")[1],
			`"warnings":["references to lines of files: no reference: `)
		assert.NotContains(t, strings.Split(e.stdout, "\n")[0], `"warnings"`)
		assert.Equal(t, "It is in the notes.", *lines[2].Output)
		assert.Len(t, recorder.last(t, "Anywhere?").of("user"), 1, "nobody asked for references")
	})
	t.Run("delegation", func(t *testing.T) {
		recorder := newRecorder(t, s, meddling{})
		w := newWorld(t, recorder.host, loopModel(t, s))
		w.file("notes.txt", notes)
		w.qq("Ask. [[ask]]").answered("The second line.")
		asked(t, recorder)
		results := w.toolResults()
		require.Len(t, results, 1)
		answer, _, _ := strings.Cut(results[0], "\n")
		assert.Equal(t, right, answer)
	})
}

// fixed is the beginning of the worker's own prompt.
const fixed = "Do the whole task with the tools that it needs."

// TestWorkerPrompt: the system prompt of a worker is written by a short call of
// the model, from a template with the task and its context.
func TestWorkerPrompt(t *testing.T) {
	s := house.server(t, "1")
	recorder := newRecorder(t, s, meddling{})
	w := newWorld(t, recorder.host, loopModel(t, s))
	w.qq("Have it written. [[lead]]", "--allow", "delegate_task").answered("The line is written.")
	assert.Equal(t, []string{"worker depth=1"}, w.spawned())
	all := recorder.all()
	require.Len(t, all, 4, "the lead, the prompt, the worker, the lead")

	prompt := all[1]
	require.Len(t, prompt.Messages, 1)
	assert.Equal(t, "user", prompt.Messages[0].Role)
	assert.Contains(t, prompt.Messages[0].Content,
		"<task>\nWrite a line. [[line]]\n</task>\n<context>\nAbout the sea. [[write]]\n</context>")
	assert.Empty(t, prompt.Tools)
	assert.EqualValues(t, 512, prompt.Options["num_predict"])
	assert.EqualValues(t, 0.2, prompt.Options["temperature"])

	worker := all[2]
	system := worker.of("system")
	require.Len(t, system, 1)
	assert.True(t, strings.HasPrefix(system[0], written+"\n\nWorking directory: "), system[0])
	assert.NotContains(t, system[0], fixed)
	assert.Contains(t, worker.offered(), "run_pty_cmd")
	assert.Less(t, worker.Options["num_predict"], worker.Options["num_ctx"], "the room in the context")
	assert.Contains(t, worker.of("user")[0], "Write a line. [[line]]")
}

// TestWorkerPromptFallsBack: a worker whose prompt cannot be written, or is cut,
// works with its fixed one.
func TestWorkerPromptFallsBack(t *testing.T) {
	s := house.server(t, "1")
	first := func(status int) func(int) int {
		return func(nth int) int {
			if nth == 1 {
				return status
			}
			return 0
		}
	}
	for _, tt := range []struct {
		name, context string
		meddling      meddling
		reason        string // in the answer of the server
	}{
		{"the call fails", "[[write]]", meddling{fail: first(http.StatusInternalServerError)}, ""},
		{"the call is wrong", "[[write]]", meddling{fail: first(http.StatusBadRequest)}, ""},
		{"cut at the limit", "[[long]]", meddling{}, `"done_reason":"length"`},
		{"an empty prompt", "[[silent]]", meddling{}, `"done_reason":"stop"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			recorder := newRecorder(t, s, tt.meddling)
			w := newWorld(t, recorder.host, loopModel(t, s))
			w.start("About the sea. "+tt.context, "-a", "worker",
				"Write a line. [[line]]").wait().answered("The sea is wide. [[end]]")
			all := recorder.all()
			require.Len(t, all, 2)
			assert.EqualValues(t, 512, all[0].Options["num_predict"])
			assert.Contains(t, all[0].answer.String(), tt.reason)
			assert.True(t, strings.HasPrefix(all[1].of("system")[0], fixed), all[1].of("system")[0])
		})
	}
}

// TestSpecialistsKeepTheirPrompts: nobody but the worker has a prompt written.
func TestSpecialistsKeepTheirPrompts(t *testing.T) {
	s := house.server(t, "1")
	for _, agent := range []string{"default", "coder", "executor", "researcher"} {
		recorder := newRecorder(t, s, meddling{})
		w := newWorld(t, recorder.host, loopModel(t, s))
		w.qq("-a", agent, "Write a line. [[line]]").answered("The sea is wide. [[end]]")
		assert.Len(t, recorder.all(), 1, agent)
	}
}

// keeper is a definition as another agent program has it.
const keeper = `---
name: notes-keeper
description: "Use this agent when notes have to be kept. Examples:\n\n<example>\nuser: \"Keep this.\"\nassistant: \"I'll use the Task tool to start the notes-keeper agent.\"\n</example>"
tools: Read, Grep, Write, Bash
model: sonnet
color: blue
---

You keep notes.
`

// TestClaudeAgent: a file in .claude/agents is used unchanged: by its name, in
// the spelling of whoever asks, with the tools that its tools are called here.
func TestClaudeAgent(t *testing.T) {
	s := house.server(t, "1")
	recorder := newRecorder(t, s, meddling{})
	w := newWorld(t, recorder.host, loopModel(t, s))
	w.file(".claude/agents/notes-keeper.md", keeper)
	w.file("notes.txt", "one\n[[two]]\nthe [[three]]\n")
	e := w.qq("-a", "Notes_Keeper", "--auto-approve", "--json", "Keep notes. [[keep]]")
	r := e.json()
	assert.Equal(t, 0, e.code, "exit code")
	assert.Equal(t, "All four tools work.", *r.Output)
	c := recorder.last(t, "Keep notes.")
	assert.Equal(t, []string{"grep_file", "read_file", "run_pty_cmd", "write_file"}, c.offered())
	assert.True(t, strings.HasPrefix(c.of("system")[0], "You keep notes.\n"), c.of("system")[0])
	results := w.toolResults()
	require.Len(t, results, 4)
	assert.Equal(t, "kept [[kept]]", strings.Split(results[3], "[[told]]")[0])
	kept, err := os.ReadFile(w.work + "/kept.txt")
	require.NoError(t, err)
	assert.Equal(t, "kept [[kept]]", string(kept))
}
