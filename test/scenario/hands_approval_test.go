package scenario

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
)

// Agents at depths 1 and 2.
const (
	middle = `---
name: middle
description: passes a task on
tools: [delegate_task]
role: content-modification
---
You pass your task on to another agent.
`
	scribe = `---
name: scribe
description: changes notes
tools: [read_file, edit_file, run_pty_cmd]
---
You change notes.
`
)

const notes = "one\ntwo\n"

// approvalModel adds the model of these scenarios. What an agent does next
// stands in what it just did, also when that was refused.
func approvalModel(t *testing.T, s *ollamatest.Server) string {
	t.Helper()
	shell := func(name string) string {
		return use("run_pty_cmd", fmt.Sprintf(`{"command": "echo %[1]s > %[1]s.txt # [[ran]]"}`, name))
	}
	addModel(t, s, "approval",
		say("[[top]]", call("middle", "Pass it on. [[middle]]")),
		say("[[middle]]", call("scribe", "Change it. [[first]]")),
		say("[[first]]", use("edit_file", `{"path": "notes.txt", "old_text": "one", "new_text": "ONE [[second]]"}`)),
		say("[[second]]", use("edit_file", `{"path": "notes.txt", "old_text": "two", "new_text": "TWO [[edited]]"}`)),
		say("[[edited]]", "So much for that. [[up]]"),
		say("[[shell]]", call("middle", "Pass it on. [[passed]]")),
		say("[[passed]]", call("scribe", "Run it. [[a]]")),
		say("[[fan]]", use("run_parallel_tasks",
			`{"tasks": [{"agent": "scribe", "task": "Run it. [[a]]"}, {"agent": "scribe", "task": "Run it. [[b]]"}, `+
				`{"agent": "summarizer", "task": "Write a line. [[line]]"}]}`)),
		say("[[a]]", shell("a")),
		say("[[b]]", shell("b")),
		say("[[ran]]", "It has run. [[up]]"),
		say("[[line]]", "The sea is wide. [[end]]"),
		say("nobody can be asked", "Nobody allows it. [[up]]"), // as qq says
		say("[[up]]", "Passed on. [[end]]"),
		say("[[end]]", allDone),
	)
	return "approval"
}

// newApprovalWorld is a world with a lead, a middle and a scribe.
func newApprovalWorld(t *testing.T, env ...string) *world {
	t.Helper()
	s := house.server(t, "1")
	// The model is shown a tool also where it is denied.
	recorder := newRecorder(t, s, meddling{show: []string{"edit_file"}})
	w := newWorld(t, recorder.host, approvalModel(t, s), env...)
	w.file(".qq/agents/middle.md", middle)
	w.file(".qq/agents/scribe.md", scribe)
	w.file("notes.txt", notes)
	return w
}

// verdict is a question that was resolved.
type verdict struct{ chain, tool, decision string }

// verdicts are the questions of a run in the order in which they were resolved.
// Each was asked once and then resolved once, and was said in the same words.
func verdicts(t *testing.T, all []happened) []verdict {
	t.Helper()
	open := map[string]happened{}
	var list []verdict
	for _, e := range all {
		switch e.Type {
		case "validation_required":
			assert.NotContains(t, open, e.QuestionID, "asked twice")
			assert.Empty(t, e.Decision)
			assert.Equal(t, e.Chain[len(e.Chain)-1], e.Agent)
			assert.Equal(t, len(e.Chain)-1, e.Depth)
			open[e.QuestionID] = e
		case "validation_resolved":
			require.Contains(t, open, e.QuestionID, "never asked, or resolved twice")
			assert.Equal(t, open[e.QuestionID].Intent, e.Intent)
			assert.Equal(t, open[e.QuestionID].Chain, e.Chain)
			delete(open, e.QuestionID)
			list = append(list, verdict{strings.Join(e.Chain, " › "), e.Intent.Tool, e.Decision})
		}
	}
	assert.Empty(t, open, "never resolved")
	return list
}

// The chains of those who ask.
const (
	chain1 = "default › middle"
	chain2 = "default › middle › scribe"
)

// TestApprovalAtDepth2: a grandchild wants to edit a file, and somebody at the
// terminal of the root reads who asks, through whom, and what would change.
func TestApprovalAtDepth2(t *testing.T) {
	diff1, diff2 := "  │ -one\n  │ +ONE [[second]]\n", "  │ -two\n  │ +TWO [[edited]]\n"
	for _, tt := range []struct {
		name     string
		answers  []string // to edits
		verdicts []verdict
		status   string // of the scribe
		notes    string
	}{
		{"once", []string{"o", "once"}, []verdict{{chain2, "edit_file", "once"}, {chain2, "edit_file", "once"}},
			"completed", "ONE [[second]]\nTWO [[edited]]\n"},
		{"session", []string{"s"}, []verdict{{chain2, "edit_file", "session"}}, "completed",
			"ONE [[second]]\nTWO [[edited]]\n"},
		{"no", []string{"n", "n"}, []verdict{{chain2, "edit_file", "no"}, {chain2, "edit_file", "no"}}, "refused",
			notes},
		{"no, then once", []string{"no", "o"}, []verdict{{chain2, "edit_file", "no"}, {chain2, "edit_file", "once"}},
			"completed", "one\nTWO [[edited]]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newApprovalWorld(t)
			q := w.onTerminal("Go down. [[top]]", "--output-format", "stream-json")
			first := q.answer(1, "o") // the scribe may be asked at all
			assert.Regexp(t, `\n`+chain1+` [0-9a-f]{8} asks: delegate_task \(delegates, medium risk\)\n`, first)
			assert.Regexp(t, `(?s)\n  │ scribe\b.*Change it\. \[\[first\]\]\n`, first, "which agent gets which task")
			for i, a := range tt.answers {
				asked := q.answer(2+i, a)
				assert.Regexp(t, `\n`+chain2+` [0-9a-f]{8} asks: edit_file \(writes, medium risk\)\n`, asked)
				assert.Contains(t, asked, []string{diff1, diff2}[i])
				assert.Contains(t, asked+choice, "[o]nce, for this [s]ession (every edit_file, any file, any agent),\n"+
					"always in this [f]older (edit_file(notes.txt)), [n]o: ")
			}
			e := q.wait()
			assert.Equal(t, 0, e.code, "exit code")
			assert.Len(t, q.questions(), 1+len(tt.answers), "nothing more is asked")
			all := events(t, e.stdout)
			assert.Equal(t, append([]verdict{{chain1, "delegate_task", "once"}}, tt.verdicts...), verdicts(t, all))
			assert.Equal(t, tt.status, ends(all)["scribe"].Status)
			assert.Equal(t, tt.notes, w.files("work")["notes.txt"])
			if tt.status == "refused" {
				assert.Equal(t, "edit_file was refused: the user said no", ends(all)["scribe"].Error)
			}
		})
	}
}

// ends are how the children ended, by agent.
func ends(all []happened) map[string]happened {
	found := map[string]happened{}
	for _, e := range append(where(all, "sub_agent_complete"), where(all, "sub_agent_error")...) {
		found[e.Agent] = e
	}
	return found
}

// TestApprovalOfShell: the preview of a command is the command, and where it runs.
func TestApprovalOfShell(t *testing.T) {
	w := newApprovalWorld(t)
	q := w.onTerminal("Go down. [[shell]]", "--output-format", "stream-json", "--allow", "delegate_task")
	asked := q.answer(1, "perhaps")
	assert.Regexp(t, `\n`+chain2+` [0-9a-f]{8} asks: run_pty_cmd \(executes, high risk\)\n`, asked)
	assert.Contains(t, asked, "  │ echo a > a.txt # [[ran]]\n")
	assert.Contains(t, asked, "  │ in ")
	assert.NotContains(t, q.answer(2, "o"), "asks:", "the choice stands there again, and not the question")
	e := q.wait()
	assert.Equal(t, 0, e.code, "exit code")
	assert.Equal(t, []verdict{{chain2, "run_pty_cmd", "once"}}, verdicts(t, events(t, e.stdout)))
	assert.Equal(t, "a\n", w.files("work")["a.txt"])
}

// TestApprovalQueue: two children ask at once. The terminal lists both, and the second one is
// answered first. A third child comes to its end meanwhile: also
// where only one may be at work, since who waits for a person is not.
func TestApprovalQueue(t *testing.T) {
	for _, slots := range []string{"QQ_MAX_PARALLEL=5", "QQ_MAX_PARALLEL=1"} {
		t.Run(slots, func(t *testing.T) { approvalQueue(t, newApprovalWorld(t, slots)) })
	}
}

func approvalQueue(t *testing.T, w *world) {
	t.Helper()
	q := w.onTerminal("Do it all. [[fan]]", "--output-format", "stream-json", "--allow", "run_parallel_tasks")
	q.until("two wait and the third is done", func() bool {
		all := q.events()
		return len(where(all, "validation_required")) == 2 && ends(all)["summarizer"].Status == "completed"
	})
	assert.Empty(t, where(q.events(), "validation_resolved"))
	assert.Empty(t, ends(q.events())["scribe"])
	listed := q.list(2)
	q.press("2")
	q.until("the second one is chosen", func() bool { return strings.Contains(q.text(), "\n› 2 scribe ") })
	q.press("n")
	q.until("it is answered", func() bool { return strings.Contains(q.text(), " → no\n") })
	q.until("the first one stands alone", func() bool {
		text := q.text()
		return strings.HasSuffix(text, choice) && !strings.Contains(text[strings.LastIndex(text, " → no\n"):], "arrows")
	})
	q.press("o\n")
	e := q.wait()
	assert.Equal(t, 0, e.code, "exit code")
	const chain = "default › scribe"
	assert.Equal(t, []verdict{{chain, "run_pty_cmd", "no"}, {chain, "run_pty_cmd", "once"}},
		verdicts(t, events(t, e.stdout)))
	wrote := w.files("work")
	first, second := "a", "b"
	if strings.Contains(listed[0], "echo b > b.txt") {
		first, second = second, first
	}
	assert.Contains(t, listed[1], "echo "+second+" > "+second+".txt")
	assert.Equal(t, first+"\n", wrote[first+".txt"])
	assert.Empty(t, wrote[second+".txt"], "only the first one may run")
}

// listing are the rows of a list of questions, one for each.
var listing = regexp.MustCompile(`(?m)^(?:› |  )\d+ \w+ [0-9a-f]{8} asks: .*$`)

// list waits for a list of n questions, until keys count there, and returns its rows.
func (s *screen) list(n int) (rows []string) {
	s.t.Helper()
	head := fmt.Sprintf("%d questions wait for an answer:\n", n)
	s.until("the list", func() bool {
		_, rest, _ := strings.Cut(s.text(), head)
		rows = listing.FindAllString(rest, -1)
		return len(rows) >= n
	})
	time.Sleep(1500 * time.Millisecond) // the keyboard must be quiet for a second
	return rows[:n]
}

// TestApprovalForSession: what is allowed for the session settles the question
// that waits behind.
func TestApprovalForSession(t *testing.T) {
	w := newApprovalWorld(t)
	q := w.onTerminal("Do it all. [[fan]]", "--output-format", "stream-json", "--allow", "run_parallel_tasks")
	q.until("two wait", func() bool { return len(where(q.events(), "validation_required")) == 2 })
	q.list(2)
	q.press("s\r")
	e := q.wait()
	assert.Equal(t, 0, e.code, "exit code")
	got := verdicts(t, events(t, e.stdout))
	assert.Len(t, got, 2)
	assert.Equal(t, "session", got[0].decision)
	wrote := w.files("work")
	assert.Equal(t, "a\n", wrote["a.txt"])
	assert.Equal(t, "b\n", wrote["b.txt"])
}

// TestNobodyToAsk: without a terminal a call is refused at once, and the refusal
// names the flag that would allow it. Nobody is asked.
func TestNobodyToAsk(t *testing.T) {
	const why = "it needs an approval and nobody can be asked here: allow it with --allow edit_file, or everything " +
		"with --auto-approve"
	t.Run("root", func(t *testing.T) {
		w := newApprovalWorld(t)
		r := w.qq("-a", "scribe", "Change it. [[first]]", "--json").failed(1, "refused")
		assert.Equal(t, "edit_file was refused: "+why, *r.Error)
		assert.Equal(t, []string{"Error: edit_file was refused: " + why}, w.toolResults())
		assert.Equal(t, notes, w.files("work")["notes.txt"])
	})
	t.Run("depth 2", func(t *testing.T) {
		w := newApprovalWorld(t)
		e := w.qq("Go down. [[top]]", "--allow", "delegate_task", "--output-format", "stream-json")
		all := events(t, e.stdout)
		assert.Equal(t, []verdict{{"default › middle › scribe", "edit_file", "unanswered"}}, verdicts(t, all))
		refused := 0
		for _, end := range where(all, "tool_end") {
			if end.Tool == "edit_file" {
				refused++
				assert.True(t, end.Failed)
				assert.Less(t, end.DurationMS, int64(1000), "at once")
			}
		}
		assert.Equal(t, 1, refused)
		assert.Equal(t, "refused", ends(all)["scribe"].Status)
		assert.Equal(t, 1, *ends(all)["scribe"].ExitCode)
		assert.Equal(t, "edit_file was refused: "+why, ends(all)["scribe"].Error)
		assert.Equal(t, notes, w.files("work")["notes.txt"])
	})
	t.Run("delegation", func(t *testing.T) {
		w := newApprovalWorld(t)
		r := w.qq("-a", "middle", "Pass it on. [[middle]]", "--json").failed(1, "refused")
		assert.Contains(t, *r.Error,
			"nobody can be asked here: allow it with --allow delegate_task, or everything with --auto-approve")
		assert.Empty(t, w.spawned())
	})
	t.Run("batch", func(t *testing.T) {
		w := newApprovalWorld(t)
		tasks := w.file("tasks.json", `[{"agent": "scribe", "task": "Change it. [[first]]"}]`)
		e := w.qq("batch", tasks, "--no-bar", "--output-format", "jsonl")
		assert.Equal(t, 4, e.code, "exit code")
		lines := resultLines(t, e)
		require.Len(t, lines, 1)
		assert.Equal(t, "refused", lines[0].Status)
		assert.Equal(t, "edit_file was refused: "+why, *lines[0].Error)
	})
}

// TestTrustRefusedCall: a person reads which call was refused, and a flag that is enough for it. With this
// flag, as a shell takes it, the call works.
func TestTrustRefusedCall(t *testing.T) {
	w := newApprovalWorld(t)
	const flag = "--allow 'edit_file(notes.txt)'"
	const hint = "hint: " + flag + " is enough for this call: \"edit notes.txt\"\n"
	e := w.qq("-a", "scribe", "Change it. [[first]]")
	assert.Equal(t, 1, e.code)
	assert.Contains(t, e.stderr, "or everything with --auto-approve\n  "+hint)
	tasks := w.file("tasks.json", `[{"agent": "scribe", "task": "Change it. [[first]]"}]`)
	e = w.qq("batch", tasks, "--no-bar")
	assert.Contains(t, e.stderr, "or everything with --auto-approve\n  "+hint)
	e = w.qq("-a", "middle", "Pass it on. [[middle]]", "--json")
	assert.Contains(t, e.stderr, "\n  hint: the call was \"delegate to ", "no rule allows only that")
	assert.Equal(t, notes, w.files("work")["notes.txt"])

	r := w.prepared("")
	r.cmd.Path = "/bin/sh"
	r.cmd.Args = []string{"sh", "-c", `exec "$0" -a scribe ` + flag + " 'Change it. [[first]]'", w.bin}
	require.NoError(t, r.cmd.Start())
	assert.Equal(t, 0, r.wait().code)
	assert.NotEqual(t, notes, w.files("work")["notes.txt"])
}

// TestPolicy: what flags decide beforehand, at any depth, and without a terminal.
func TestPolicy(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flags []string
		want  string // the error of the scribe
	}{
		{"all allowed", []string{"--auto-approve"}, ""},
		{"tools allowed", []string{"--allow", "delegate_task", "--allow", "edit_file"}, ""},
		{"tool denied", []string{"--auto-approve", "--deny", "edit_file"},
			"edit_file was refused: it is denied in this run"},
		{"allowed and denied", []string{"--auto-approve", "--allow", "edit_file", "--deny", "edit_file"},
			"edit_file was refused: it is denied in this run"},
		{"refuse all", []string{"--approve", "deny", "--allow", "delegate_task"},
			"edit_file was refused: it needs an approval, and this run refuses what needs one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newApprovalWorld(t)
			e := w.qq(append(tt.flags, "Go down. [[top]]", "--output-format", "stream-json")...)
			all := events(t, e.stdout)
			assert.Empty(t, verdicts(t, all))
			assert.Equal(t, tt.want, ends(all)["scribe"].Error)
			want, status := notes, "refused"
			if tt.want == "" {
				want, status = "ONE [[second]]\nTWO [[edited]]\n", "completed"
			}
			assert.Equal(t, status, ends(all)["scribe"].Status)
			assert.Equal(t, want, w.files("work")["notes.txt"])
		})
	}
}
