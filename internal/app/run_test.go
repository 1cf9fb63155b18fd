package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/command"
	"qq/internal/standin"
)

// TestRunInputs: every way to give a task, with flags on both sides of it.
func TestRunInputs(t *testing.T) {
	w, server := newServedWorld(t, standin.Scripts(standin.Script{Start: "[[pirate]]", Text: "Arr."}))
	w.file("task.txt", "\xef\xbb\xbffrom a file\n")
	for args, want := range map[string]string{
		"a few words":               "a few words\n",
		"-m words":                  "words\n",
		"--prompt words":            "words\n",
		"--model=ollama:stand-in x": "x\n",
		"x --model ollama:stand-in": "x\n",
		"-f task.txt":               "from a file\n",
		"-q words -a coder":         "words\n",
		"-- --json":                 "--json\n",
		"-q -- batch":               "batch\n",
		"--system [[pirate]] go":    "Arr.\n",
		"-C .. where":               "where\n",
	} {
		assert.Equal(t, ended{out: want}, w.run(strings.Fields(args)...), args)
	}
	for _, args := range []string{"", "-m -", "-f -"} {
		assert.Equal(t, ended{out: "piped\n"}, w.pipe("piped", strings.Fields(args)...), args)
	}
	assert.Equal(t, ended{out: "explain\n"}, w.pipe("a text", "explain"))
	chats := server.Requests("/api/chat")
	assert.Contains(t, string(chats[len(chats)-1].Body), `a text\n`, "what is piped to a prompt is its context")
}

// TestRunStream: the stream has the events, then the result.
func TestRunStream(t *testing.T) {
	w, _ := newServedWorld(t, delegationScripts())
	lines := jsonLines(t, w.run("--output-format", "stream-json", "[[lead]]").out)
	seen := map[any]bool{}
	for i, l := range lines[:len(lines)-1] {
		seen[l["type"]] = true
		assert.EqualValues(t, i+1, l["seq"])
	}
	for _, kind := range []string{"tool_start", "tool_end", "sub_agent_start", "sub_agent_complete", "token"} {
		assert.True(t, seen[kind], kind)
	}
	last := lines[len(lines)-1]
	assert.Equal(t, "result", last["type"])
	assert.Equal(t, "first and second", last["output"])
}

// sessionID runs qq and returns which session it used.
func (w *world) sessionID(args ...string) string {
	w.t.Helper()
	e := w.run(append(args, "--json")...)
	require.Zero(w.t, e.code, e.errors)
	var r struct {
		SessionID string `json:"session_id"`
	}
	require.NoError(w.t, json.Unmarshal([]byte(e.out), &r))
	return r.SessionID
}

// TestSessions: which transcript a run continues, and what can be done with one.
func TestSessions(t *testing.T) {
	w, server := newServedWorld(t)
	first := w.sessionID("remember the number 4711")
	assert.Equal(t, first, w.sessionID("--continue", "which number?"))
	chats := server.Requests("/api/chat")
	assert.Contains(t, string(chats[len(chats)-1].Body), "4711")
	assert.Equal(t, first, w.sessionID("-s", first[:len(first)-1], "again"), "by its beginning")
	assert.NotEqual(t, first, w.sessionID("--new-session", "hello"))
	assert.Empty(t, w.sessionID("--ephemeral", "hello"))
	assert.Contains(t, w.run("sessions").out, "remember the number 4711")
	assert.Contains(t, w.run("sessions", "show", first).out, "── user, ")

	path := filepath.Join(command.Environment(w.env).Get("QQ_HOME"), "sessions", first+".jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, `{"role":"user","cont`...), 0o600))
	assert.Equal(t, first, w.sessionID("-s", first, "after a crash"), "a torn last line is no obstacle")

	transcript := filepath.Join(filepath.Dir(filepath.Dir(path)), "transcripts", "root", "01a2067b-child.jsonl")
	require.NoError(t, os.MkdirAll(filepath.Dir(transcript), 0o700))
	require.NoError(t, os.WriteFile(transcript, nil, 0o600))
	for _, words := range []string{"d few of the old ones", first + " hild few", first + " nobody"} {
		e := w.run(append([]string{"sessions", "rm"}, strings.Fields(words)...)...)
		assert.Equal(t, 2, e.code)
		assert.Empty(t, e.out)
		assert.FileExists(t, path, words)
		assert.FileExists(t, transcript, words)
	}
	e := w.run("sessions", "rm", first, "hild", first)
	assert.Equal(t, ended{out: first + "\n01a2067b-child\n"}, e)
	assert.NoFileExists(t, path)
	assert.NoFileExists(t, transcript)
	old := w.sessionID("hello")
	path = filepath.Join(filepath.Dir(path), old+".jsonl")
	long := time.Now().Add(-40 * 24 * time.Hour)
	require.NoError(t, os.Chtimes(path, long, long))
	assert.Equal(t, ended{out: old + "\n"}, w.run("sessions", "prune"))
}

// TestSessionInUse: two processes do not write one transcript.
func TestSessionInUse(t *testing.T) {
	w, _ := newServedWorld(t)
	id := w.sessionID("hello")
	f := open(t, filepath.Join(command.Environment(w.env).Get("QQ_HOME"), "sessions", id+".jsonl"))
	lockFile(t, f)
	for _, args := range [][]string{{"-s", id, "more"}, {"sessions", "rm", id}} {
		e := w.run(args...)
		assert.Equal(t, 2, e.code)
		assert.Contains(t, e.errors, "in use by another qq\n  hint: ")
	}
}
