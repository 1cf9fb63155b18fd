package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/internal/standin"
	"qq/test/chromium"
)

// A job that waits for a person has no slot: the timeline of the run says so afterwards, and so does its file. Another
// one works meanwhile, and the cap of one was never exceeded.
func TestTimelineOfAWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Script{Start: "[[edit]]", Text: edits,
		Fault: &standin.Fault{BeforeFirst: 2 * time.Second}}, // the page knows the run then
		standin.Script{Start: "[[edited]]", Text: "The notes are changed."},
		standin.Script{Start: "[[quick]]", Text: "A quick answer."})
	w.file("notes.txt", "one\ntwo\n")
	b := chromium.Start(t)
	p := b.Page(chromium.View{Width: 1400, Height: 900})
	p.Open(w.serve())
	p.Until(`document.body.dataset.live === "yes"`)
	root := w.start("batch", "-j", "1", w.tasks(
		map[string]any{"task": "Change the notes, please. [[edit]]", "agent": "coder"},
		map[string]any{"task": "Say something quick. [[quick]]", "agent": "explorer"},
		map[string]any{"task": "Say something quick, too. [[quick]]", "agent": "explorer"},
	))
	p.Reads("edit notes.txt")
	p.Reads("2 of 3 done")
	p.Click(".question button.main")
	assert.NoError(t, root.Wait())
	p.Reads("3 of 3 done")
	p.Click(".runs .name")
	p.Click(`.tabs a[href$="timeline"]`)
	p.Reads("at most 1 at work, the cap")
	var titles []string
	p.Value(`[...document.querySelectorAll("svg a title")].map(e => e.textContent)`, &titles)
	assert.Regexp(t, `waiting without a slot, [0-9.]+ (ms|s) at work`, titles[0])
	shots(p, "wait-timeline")
	assert.Empty(t, b.Wrong())
}
