package page

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger"
	"qq/pkg/task"
	"qq/test/chromium"
)

// What is measured here runs alone: only the other tests are parallel, which begin after these.
const (
	large      = 10_000
	firstPaint = 300 * time.Millisecond
	anUpdate   = 50 // milliseconds
)

// fill records a batch of 10,000 jobs that has ended: 9,000 tasks, of which the first has started 999 jobs.
func (w *world) fill() {
	w.t.Helper()
	rec := ledger.NewRecorder(w.home, ledger.Root{ID: "root-large", Dir: w.work, Command: "batch"}, ledger.Options{})
	begun := time.Now().Add(-time.Hour)
	require.NoError(w.t, rec.Begin(ledger.Batch{ID: "batch-large", Root: "root-large", Dir: w.work, Count: large - 999,
		Started: begun}))
	var work sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := range large {
		e := ledger.Execution{ID: fmt.Sprintf("job-%05d", i), Batch: "batch-large", Root: "root-large", Agent: "coder",
			Model: "m", Key: fmt.Sprint(i), Index: i, Task: fmt.Sprintf("Summarize file %d of all of them.", i), Queued: begun}
		if i >= large-999 {
			e.Parent, e.Depth, e.Batch, e.Key = "job-00000", 1, "", ""
		}
		require.NoError(w.t, rec.Claim(e))
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			status, msg := task.Completed, ""
			if i%97 == 0 {
				status, msg = task.Failed, "no luck with this one"
			}
			r := task.Task{}.Ended(status, msg)
			r.Output, r.Attempts, r.Usage, r.DurationMS = "An answer of some length, such as they are.", 1,
				task.Usage{InputTokens: 1000, OutputTokens: 100}, 20
			assert.NoError(w.t, rec.Finish("", e.ID, r))
		})
	}
	work.Wait()
	require.NoError(w.t, rec.Close())
}

// A run of 10,000 jobs is shown at once, and parts of it when they are asked for.
func TestTenThousandPast(t *testing.T) {
	w := newWorld(t)
	w.fill()
	address := w.serve()
	p := chromium.Start(t).Page(chromium.View{Width: 1400, Height: 900})
	p.Open(address)
	p.Reads("Batch of 9,001 tasks")
	var href string
	require.NoError(t, p.Eval(`document.querySelector(".runs .name").href`, &href))
	painted := func(path string, most time.Duration) {
		t.Helper()
		var best time.Duration
		for try := range 3 { // the machine may be busy with something else
			p.Open(href + path)
			paint := p.FirstPaint()
			if try == 0 || paint < best {
				best = paint
			}
			t.Logf("%s: first paint after %v", path, paint)
			if best <= most {
				return
			}
		}
		assert.LessOrEqual(t, best, most, path)
	}
	painted("", firstPaint)
	p.Reads("10,000 jobs")
	p.Reads("1 to 100 of 9,001")
	shots(p, "large")

	// What a job has started comes when it is opened.
	p.Click("#jobs > li:first-child summary")
	p.Until(`document.querySelectorAll("#jobs > li:first-child li.job").length === 100`)
	p.Reads("899 more jobs")
	p.Click("#jobs .more a")
	p.Until(`document.querySelectorAll("#jobs > li:first-child li.job").length === 200`)
	for _, view := range []string{"?from=5000", "/timeline", "/timeline?from=9900", "/plan"} {
		painted(view, 4*firstPaint) // drawings of all 10,000; the limit is for the run itself
	}
	p.Open(href + "/timeline")
	shots(p, "large-timeline")
}

// A page follows a batch of 10,000 tasks while it runs, and does not get slow.
func TestTenThousandLive(t *testing.T) {
	w := newWorld(t)
	address := w.serve()
	b := chromium.Start(t)
	p := b.Page(chromium.View{Width: 1400, Height: 900})
	p.Open(address)
	var lines strings.Builder
	for i := range large {
		fmt.Fprintf(&lines, "Keywords of: the %d ships sail over the sea, and the sea is wide.\n", i)
	}
	w.file("lines.txt", lines.String())
	root := w.start("batch", "--model", "extract", "-j", "8", "-i", "lines.txt", "-m", "{}")
	p.Reads("Batch of 10,000 tasks")
	p.Click(".runs .name")
	p.Until(`document.body.dataset.live === "yes" && document.querySelectorAll("#jobs .job").length >= 100`)
	p.Until(`parseInt(document.getElementById("fact-done").textContent.replace(",", "")) > 500`)
	var slowest float64
	require.NoError(t, p.Eval("window.slowest", &slowest))
	t.Logf("the slowest update took %.1f ms", slowest)
	assert.LessOrEqual(t, slowest, float64(anUpdate))
	var rows int
	require.NoError(t, p.Eval(`document.querySelectorAll("li.job").length`, &rows))
	assert.LessOrEqual(t, rows, 300, "the page does not grow with the run")
	shots(p, "large-live")
	require.NoError(t, root.Process.Signal(syscall.SIGTERM))
	p.Reads("terminated")
	assert.Empty(t, b.Wrong())
}
