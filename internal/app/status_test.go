package app

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/internal/standin"
	"qq/pkg/task"
)

// TestStatus: for each outcome of a task, the exit code, stderr, the JSON document and
// the last line of a stream agree, and the text of the model is kept.
func TestStatus(t *testing.T) {
	again := `Still looking. <tool_call>{"name":"list_files","arguments":{}}</tool_call>`
	w, _ := newServedWorld(t,
		standin.Models(standin.Model{Name: "stand-in"}, standin.Model{Name: "small", Context: 256}),
		standin.Scripts(
			standin.Script{Start: "[[fine]]", Text: "All is well."},
			standin.Script{Start: "[[busy]]", Fault: &standin.Fault{Status: 503, Error: "server busy"}},
			standin.Script{Start: "[[failing]]", Fault: &standin.Fault{Status: 500, Error: "out of memory"}},
			standin.Script{
				Start: "[[cut]]",
				Text:  "one two three four",
				Fault: &standin.Fault{Break: standin.Cut, After: 2},
			},
			standin.Script{
				Start: "[[ended]]",
				Text:  "one two three four",
				Fault: &standin.Fault{Break: standin.End, After: 2},
			},
			standin.Script{Start: "[[empty]]"},
			standin.Script{Start: "[[again]]", Text: again},
			standin.Script{
				Start: "[[stall]]",
				Text:  "one two three",
				Fault: &standin.Fault{Break: standin.Stall, After: 2},
			},
		))
	w.file("integer.json", `{"type":"integer"}`)
	w.file("never.json", `{"type":"integer","const":3,"minimum":4}`)
	for _, c := range []struct {
		args          string
		status        task.Status
		code          int
		output, error string
		env           string
	}{
		{args: "[[fine]]", status: task.Completed, output: "All is well."},
		{args: "--schema integer.json give", status: task.Completed, output: "1"},
		{args: "--schema never.json give", status: task.Failed, code: 1, output: "3",
			error: "the answer does not fit the schema: "},
		{args: "[[failing]]", status: task.Failed, code: 1, error: "answered 500: out of memory"},
		{args: "--model ollama:small " + strings.Repeat("word ", 2000), status: task.Failed, code: 1,
			error: "context overflow: "},
		{args: "[[empty]]", status: task.Empty, code: 1, error: "the agent gave an empty answer"},
		{args: "--max-turns 2 [[again]]", status: task.TurnLimit, code: 1, output: "Still looking.",
			error: "the agent used all its 2 turns"},
		{args: "[[busy]]", status: task.Unavailable, code: 3, error: "answered 503: server busy"},
		{args: "hello", env: "OLLAMA_HOST=127.0.0.1:1", status: task.Unavailable, code: 3,
			error: "no answer from Ollama at 127.0.0.1:1"},
		{args: "hello", env: "QQ_RECURSION_DEPTH=3", status: task.Limit, code: 5, // as in the command of an agent
			error: "Error: Maximum recursion depth (3) exceeded"},
		{args: "[[fine]]", env: "QQ_MAX_DEPTH=1", status: task.Completed, output: "All is well."},
		{args: "[[cut]]", status: task.Broken, code: 3, output: "one two", error: "answer of stand-in broke off"},
		{args: "[[ended]]", status: task.Broken, code: 3, output: "one two", error: "the stream ended early"},
		{args: "--timeout 0.2 [[stall]]", status: task.Timeout, code: 124, output: "one two",
			error: "timed out after 200ms"},
	} {
		t.Run(c.args[:min(len(c.args), 30)], func(t *testing.T) {
			inner := *w
			inner.t = t
			if c.env != "" {
				inner.env = append(w.env[:len(w.env):len(w.env)], c.env)
			}
			args := append(strings.Fields(c.args), "--ephemeral")
			text := inner.run(args...)
			assert.Equal(t, c.code, text.code, text.errors)
			assert.True(t, strings.HasPrefix(text.out, c.output), text.out)

			whole := inner.run(append(args, "--json")...)
			assert.Equal(t, c.code, whole.code)
			assert.Equal(t, text.errors, whole.errors)
			r := whole.document(t)
			assert.Equal(t, c.status, r.Status)
			assert.Equal(t, c.code, r.ExitCode)
			assert.Equal(t, c.code == 0, r.Success)
			assert.True(t, strings.HasPrefix(r.Output, c.output), r.Output)
			if c.code == 0 {
				assert.Empty(t, text.errors)
				assert.Nil(t, r.Error)
				return
			}
			assert.Contains(t, r.Err(), c.error)
			problem, _, _ := strings.Cut(text.errors, "\n")
			assert.Equal(t, "qq: "+r.Err(), problem)

			stream := jsonLines(t, inner.run(append(args, "--output-format", "stream-json")...).out)
			last := stream[len(stream)-1]
			assert.Equal(t, string(c.status), last["status"])
			assert.EqualValues(t, c.code, last["exit_code"])
		})
	}
}

// TestTimeoutBeforeTheModelIsKnown: --timeout also limits the look-up of the model.
func TestTimeoutBeforeTheModelIsKnown(t *testing.T) {
	w, _ := newServedWorld(t, standin.Faulty("/api/show", standin.Fault{BeforeFirst: -1}))
	start := time.Now()
	e := w.run("--json", "--timeout", "0.2", "hello")
	assert.Less(t, time.Since(start), 10*time.Second)
	assert.Equal(t, 124, e.code)
	r := e.document(t)
	assert.Equal(t, task.Timeout, r.Status)
	assert.Equal(t, 124, r.ExitCode)
}

// TestFullDisk: an answer that cannot be written is no success.
func TestFullDisk(t *testing.T) {
	w, _ := newServedWorld(t)
	w.file("tasks.txt", "one\ntwo\n")
	for _, args := range []string{
		"hello", "--json hello", "--output-format stream-json hello", "batch -q tasks.txt",
		"config", "man", "agents --json",
	} {
		cmd := w.command(strings.Fields(args)...)
		var problems strings.Builder
		cmd.Stderr = &problems
		cmd.Stdout = open(t, "/dev/full")
		assert.Error(t, cmd.Run(), args)
		assert.Equal(t, 1, cmd.ProcessState.ExitCode(), args)
		assert.Equal(t, "qq: write the answer: write /dev/stdout: no space left on device\n", problems.String(), args)
	}
	e := w.run("batch", "-q", "-o", "/dev/full", "tasks.txt")
	assert.Equal(t, 1, e.code)
	assert.Contains(t, e.errors, "no space left on device")
}
