package page

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/test/chromium"
)

// long is an answer that takes a while.
func long() standin.Script {
	return standin.Script{Start: "[[long]]", Text: strings.Repeat("The sea is wide and the night is long. ", 400),
		Fault: &standin.Fault{Between: 50 * time.Millisecond}}
}

const edits = `Change it. <tool_call>{"name":"edit_file","arguments":{"path":"notes.txt","old_text":"one",` +
	`"new_text":"ONE [[edited]]"}}</tool_call>`

// A person starts a batch in a terminal and follows it in the browser: sees it begin, allows a call, cancels one job,
// reads a transcript, loads the page again in the middle, and is told when the root is killed.
func TestBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, long(), standin.Script{Start: "[[edit]]", Text: edits,
		Fault: &standin.Fault{BeforeFirst: 2 * time.Second}},
		standin.Script{Start: "[[edited]]", Text: "The notes are changed."},
		standin.Script{Start: "[[quick]]", Text: "A quick answer, with <b>markup</b> and \u202ebidi."})
	w.file("notes.txt", "one\ntwo\n")
	b := chromium.Start(t)
	p := b.Page(chromium.View{Width: 1400, Height: 900})
	p.Yes()
	p.Open(w.serve())
	p.Reads("No runs yet")
	shots(p, "empty")

	root := w.start("batch", "-j", "6", w.tasks(
		map[string]any{"task": "Change the notes, please. [[edit]]", "agent": "coder"},
		map[string]any{"task": "Answer at length. [[long]]", "agent": "coder"},
		map[string]any{"task": "Answer at length, too. [[long]]", "agent": "explorer"},
		map[string]any{"task": "Say something quick. [[quick]]", "agent": "explorer"},
		map[string]any{"task": "Answer at length, later. [[long]]", "agent": "explorer"},
		map[string]any{"task": "And this one even later. [[long]]", "agent": "explorer"},
	))
	p.Reads("Batch of 6 tasks") // without loading the page again
	p.Reads("At work")
	p.Reads("edit notes.txt")
	shots(p, "runs-live")
	p.Click(".runs .name")
	p.Until(`location.pathname.includes("/run/")`)
	p.Until(`document.body.dataset.live === "yes"`)
	p.Reads("Answer at length, too.")
	p.Reads("asks you")
	p.Reads("ONE [[edited]]")
	p.Until(`[...document.querySelectorAll(".question .preview")].every(e => e.scrollHeight <= e.clientHeight)`)
	shots(p, "run-live")

	// It answers the question. Nobody else is asked any more, and the file is changed.
	p.Click(".question button.main")
	p.Until(`document.querySelectorAll(".question").length === 0`)
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(filepath.Join(w.work, "notes.txt"))
		return strings.HasPrefix(string(text), "ONE")
	}, 10*time.Second, 10*time.Millisecond)
	p.Until(`[...document.querySelectorAll("#jobs .job")].some(j => j.innerText.includes("Change the notes") && ` +
		`j.innerText.includes("completed"))`)

	// It pauses the run and goes on, and changes how many jobs may be at work.
	p.Click(`form[data-when="on"] button`)
	shown := `[...document.querySelectorAll("[data-when]:not([hidden])")].map(e => e.innerText.trim()).join()`
	p.Until(`document.getElementById("status").textContent === "paused"`)
	p.Until(shown + ` === "Paused: no further job starts.,Go on"`)
	p.Click(`form[data-when="paused"] button`)
	p.Until(`document.getElementById("status").textContent === "at work"`)
	p.Until(shown + ` === "Pause"`)
	p.Value(`document.querySelector("input[name=max]").value = 7`, nil)
	p.Click(`#control form:last-child button, #control form:has(input[name=max]) button`)
	p.Reads("of at most 7")

	// It follows one job, sees the text come, and cancels it.
	p.Until(`[...document.querySelectorAll("#jobs .task a")].some(a => a.textContent.includes("too.") && (a.id = "one"))`)
	p.Click("#one")
	p.Until(`location.pathname.includes("/job/")`)
	p.Until(`document.getElementById("live")?.textContent.includes("The sea is wide")`)
	shots(p, "job-live")
	p.Click("#message")
	p.Type("Be short, please.")
	p.Click("form:has(#message) button")
	p.Reads("Sent.")
	p.Click("button.harm")
	p.Reads("cancelled")

	// The last jobs begin, and the page that is loaded again in the middle is live again.
	p.Click(".trail a:nth-child(2)")
	p.Until(`document.body.dataset.live === "yes"`)
	p.Reads("even later")
	var before string
	require.NoError(t, p.Eval("location.href", &before))
	p.Open(before)
	p.Until(`document.body.dataset.live === "yes"`)
	assert.Contains(t, p.Text(), "cancelled")

	// It reads what one has said and changed.
	p.Until(`[...document.querySelectorAll("#jobs .task a")].some(a => a.textContent.includes("Change") && (a.id = "one"))`)
	p.Click("#one")
	p.Reads("The notes are changed.")
	p.Reads("Changes")
	assert.Contains(t, p.Text(), "+ONE [[edited]]")
	shots(p, "job")
	p.Open(before)
	p.Until(`[...document.querySelectorAll("#jobs .task a")].some(a => a.textContent.includes("quick") && (a.id = "one"))`)
	p.Click("#one")
	p.Reads("A quick answer")
	assert.Contains(t, p.Text(), "<b>markup</b> and <U+202E>bidi", "nothing of a stranger's text counts")
	p.Open(before)
	p.Until(`document.body.dataset.live === "yes"`)

	// It is stopped for some time: the page says so, also when it is loaded meanwhile.
	require.NoError(t, root.Process.Signal(syscall.SIGSTOP))
	p.Reads("does not reply: it may be stopped")
	p.Open(before)
	p.Reads("does not reply: it may be stopped")
	require.NoError(t, root.Process.Signal(syscall.SIGCONT))
	p.Until(`!document.body.innerText.includes("does not reply")`)

	// The root is killed while it is paused, and the page says so, as it does when it is loaded again.
	p.Click(`form[data-when="on"] button`)
	p.Until(shown + ` === "Paused: no further job starts.,Go on"`)
	require.NoError(t, root.Process.Signal(syscall.SIGKILL))
	p.Reads("was killed")
	shots(p, "run-killed")
	facts := `[...document.querySelectorAll("#facts > div")].filter(e => e.checkVisibility()).map(e => ` +
		`e.innerText.replace(/\s+/g, " ")).join("; ")`
	var live, loaded string
	p.Value(facts, &live)
	assert.NotContains(t, p.Text(), "Paused")
	assert.NotContains(t, live, "At work")
	assert.Contains(t, live, "Status interrupted")
	p.Open(before)
	p.Reads("interrupted")
	p.Value(facts, &loaded)
	assert.Equal(t, loaded, live, "the figures are those of the record")
	assert.Contains(t, w.run("runs", "list"), "interrupted")
	for name, title := range map[string]string{"timeline": "At work at once", "plan": "This run had no plan"} {
		p.Open(before + "/" + name)
		p.Reads(title)
		shots(p, name)
	}
	assert.Empty(t, b.Wrong())
}

// A server at which nobody looks changes no run: a call that needs an approval is refused at once.
func TestIdleServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Script{Start: "[[edit]]", Text: edits,
		Fault: &standin.Fault{BeforeFirst: 1300 * time.Millisecond}}) // again and again, until the run ends that
	w.file("notes.txt", "one\ntwo\n")
	w.serve()
	begun := time.Now()
	out := w.run("batch", w.tasks(map[string]any{"task": "Change the notes, please. [[edit]]", "agent": "coder"}))
	assert.Less(t, time.Since(begun), time.Minute, out)
	text, err := os.ReadFile(filepath.Join(w.work, "notes.txt"))
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\n", string(text))
}
