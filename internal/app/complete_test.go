package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/command"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// TestCompletion: the scripts ask the program, and bash can read its one.
func TestCompletion(t *testing.T) {
	w := newWorld(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		e := w.run("completion", shell)
		assert.Zero(t, e.code)
		assert.Contains(t, e.out, "command qq __complete -- ", shell)
		if shell == "bash" {
			check := exec.Command("bash", "-n")
			check.Stdin = strings.NewReader(e.out)
			out, err := check.CombinedOutput()
			assert.NoError(t, err, string(out))
		}
	}
	assert.Equal(t, 2, w.run("completion", "tcsh").code)
	assert.NotContains(t, w.run("man").out+w.run("--help").out, "__complete", "nobody else calls it")
}

// completed returns the first line, and the words of the others, of what is offered for the last of args.
func (w *world) completed(args ...string) (kind string, words []string) {
	w.t.Helper()
	e := w.run(append([]string{"__complete", "--"}, args...)...)
	assert.Zero(w.t, e.code)
	assert.Empty(w.t, e.errors)
	kind, rest, _ := strings.Cut(e.out, "\n")
	for line := range strings.Lines(rest) {
		word, _, found := strings.Cut(line, "\t")
		assert.True(w.t, found, line)
		words = append(words, word)
	}
	return kind, words
}

// TestCompletedWords: what is offered is what the command takes there.
func TestCompletedWords(t *testing.T) {
	w := newWorld(t)
	w.set("QQ_ALIAS_big=ollama:qwen3:32b")
	w.file("tasks.txt", "Outline a.md\n")
	w.file("a.md", "# A\n\nBoats float.\n")
	w.file(".qq/agents/mine.md", "---\nname: mine\ndescription: is mine\n---\nBe mine.\n")
	for _, odd := range []string{"--help", "-x", "mine\n--help", "mіne"} { // the last one has a Cyrillic letter
		w.file(".qq/agents/"+odd+".md", "---\ndescription: is odd\n---\nBe odd.\n")
	}
	for _, c := range []struct {
		line, kind string
		want       []string
	}{
		{"", "words", []string{"batch", "plan", "agents", "trust", "permissions", "runs", "models", "setup", "sessions",
			"doctor", "config",
			"completion", "man", "version", "help"}},
		{"ru", "words", []string{"runs"}}, {"help ru", "words", []string{"runs"}},
		{"help runs sh", "words", []string{"show"}}, {"runs sh", "words", []string{"show"}},
		{"--mess", "words", []string{"--message", "--message-file"}},
		{"runs list --li", "words", []string{"--live", "--limit"}},
		{"batch --hal", "words", []string{"--halt"}}, {"--hal", "words", nil}, {"Read this f", "files", nil},
		{"-a mi", "words", []string{"mine"}}, {"--agent=mi", "words", []string{"--agent=mine"}},
		{"batch --agent mi", "words", []string{"mine"}}, {"agents show mi", "words", []string{"mine"}},
		{"agents show mine mi", "words", nil}, {"agents check mi", "files", []string{"mine"}},
		{"--approve ", "words", []string{"ask", "auto", "deny"}}, {"--approve=d", "words", []string{"--approve=deny"}},
		{"--output-format s", "words", []string{"stream-json"}},
		{"batch --output-format m", "words", []string{"markdown", "mermaid"}},
		{"batch --halt so", "words", []string{"soon", "soon,fail=1", "soon,fail=10%",
			"soon,success=1", "soon,done=1"}},
		{"runs --status fa", "words", []string{"failed"}},
		{"--model ", "words", []string{"auto", "extract", "big", "ollama:", "llamacpp:", "vllm:", "lmstudio:"}},
		{"models test o", "words", []string{"ollama:"}}, {"setup v", "words", []string{"vllm:"}},
		{"models test a b", "words", nil}, {"models --server v", "words", []string{"vllm"}},
		{"--allow edit", "words", []string{"edit_file"}}, {"completion ", "words", []string{"bash", "fish", "zsh"}},
		{"batch ", "files", nil}, {"batch -o ", "files", nil}, {"-C ", "folders", nil}, {"trust ", "folders", nil},
		{"batch --results=x", "folders", nil}, {"runs show ", "words", nil}, {"-m a", "words", nil},
		{"-- ", "files", nil},
		{"-C gone -a mi", "words", nil}, {"--frobnicate x", "words", nil}, {"config ", "words", nil},
	} {
		kind, words := w.completed(strings.Split(c.line, " ")...)
		assert.Equal(t, c.kind, kind, c.line)
		assert.Equal(t, c.want, words, c.line)
	}
	_, err := os.Stat(filepath.Join(w.home, "qq", "ledger"))
	assert.ErrorIs(t, err, os.ErrNotExist, "nothing is written")

	require.Zero(t, w.run("batch", "-q", "tasks.txt").code)
	require.Zero(t, w.run("-q", "Outline a.md").code)
	_, runs := w.completed("runs", "show", "")
	assert.Len(t, runs, 3, "a batch with its task, and a prompt")
	for _, id := range runs {
		assert.Zero(t, w.run("runs", "show", id).code)
	}
	assert.Contains(t, w.run("runs", "show", runs[0]).out, "Outline a.md")
	assert.NotContains(t, w.run("runs", "show", runs[0]).out, "batch", "the prompt is the newest")
	_, batches := w.completed("runs", "--batch=")
	assert.Len(t, batches, 1)
	_, batches = w.completed("batch", "--resume=")
	assert.Empty(t, batches, "it is complete")
	_, atWork := w.completed("runs", "cancel", "")
	assert.Empty(t, atWork, "all have ended")
	w.file("more.txt", "Outline a.md\nOutline gone.md\n")
	w.run("batch", "-q", "more.txt")
	_, batches = w.completed("batch", "--resume=")
	require.Len(t, batches, 1)
	assert.NotEqual(t, 2, w.run("batch", "-q", "more.txt", batches[0]).code)

	// A root at work, with a batch and more runs than are offered.
	home := command.Environment(w.env).Get("QQ_HOME")
	root := ledger.Root{ID: task.NewID(), Started: time.Now(), Dir: w.dir, Command: "batch"}
	rec := ledger.NewRecorder(home, root, ledger.Options{})
	defer rec.Close()
	batch := ledger.Batch{ID: task.NewID(), Root: root.ID, Dir: w.dir, Started: time.Now()}
	require.NoError(t, rec.Begin(batch))
	_, atWork = w.completed("runs", "cancel", "")
	assert.Equal(t, []string{task.ShortID(batch.ID)}, atWork)
	_, batches = w.completed("batch", "--resume=")
	assert.Len(t, batches, 1, "not what is at work")
	var newest string
	for range 60 {
		newest = task.NewID()
		require.NoError(t, rec.Claim(ledger.Execution{ID: newest, Root: root.ID, Agent: "default", Dir: w.dir}))
	}
	_, atWork = w.completed("runs", "cancel", "")
	require.Len(t, atWork, 50)
	assert.Equal(t, task.ShortID(newest), atWork[0])

	_, sessions := w.completed("sessions", "show", "")
	require.Len(t, sessions, 1)
	assert.Zero(t, w.run("sessions", "show", sessions[0]).code)

	w.file(".env", "QQ_ broken\n")
	kind, words := w.completed("-a", "mi")
	assert.Equal(t, "words", kind)
	assert.Equal(t, []string{"mine"}, words, "a broken file is quiet")
}

// TestCompletedValues: each value that is offered is accepted, and each flag with a value says what it takes.
func TestCompletedValues(t *testing.T) {
	long(t)
	w := newWorld(t)
	w.file("tasks.txt", "Outline a.md\n")
	w.dead()
	for _, args := range [][]string{
		{"--output-format"}, {"--approve"}, {"--allow"}, {"--deny"}, {"--model"},
		{"batch", "--output-format"}, {"batch", "--halt"}, {"runs", "--status"},
	} {
		_, words := w.completed(append(args, "")...)
		require.NotEmpty(t, words, args)
		for _, word := range words {
			if strings.HasSuffix(word, ":") {
				word += "small" // after the name of a server, that of a model follows
			}
			line := append(slices.Clone(args), word)
			switch args[0] {
			case "batch":
				line = append(line, "--dry-run", "tasks.txt")
			case "runs":
			default:
				line = append(line, "--dry-run", "hello there")
			}
			assert.NotEqual(t, 2, w.run(line...).code, line)
		}
	}
}
