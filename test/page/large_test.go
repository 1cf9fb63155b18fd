package page

import (
	"fmt"
	"slices"
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
	firstPaint = 300 * time.Millisecond // until the first rows are there
	anUpdate   = 50.0                   // milliseconds
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

// watches notes when the first rows of a list of jobs, or a drawing, have been painted, and how long each update takes:
// from the arrival of its event to the frame that shows it. idle is the same for a change that costs nothing.
const watches = `
const painted = (f) => requestAnimationFrame(() => {
  const after = new MessageChannel();
  after.port1.onmessage = f;
  after.port2.postMessage(0);
});
window.updates = [];
window.idle = [];
let seen = false;
new MutationObserver(() => {
  if (seen || !document.querySelector("#jobs > li .task, .drawing svg a")) return;
  seen = true;
  painted(() => { window.rows = performance.now(); });
}).observe(document, { childList: true, subtree: true });
const listen = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (name, f) {
  return listen.call(this, name, (e) => {
    f(e);
    painted(() => updates.push(performance.now() - e.timeStamp));
  });
};
setInterval(() => {
  const begun = performance.now();
  document.documentElement.dataset.n = idle.length;
  painted(() => idle.push(performance.now() - begun));
}, 100);
`

// rows opens a page, and returns when its first paint was and when its first rows were there.
func rows(p *chromium.Page, address string) (first, whole time.Duration) {
	p.Open(address)
	p.Until(`window.rows > 0`)
	var ms float64
	p.Value(`window.rows`, &ms)
	return p.FirstPaint(), time.Duration(ms * float64(time.Millisecond))
}

// A run of 10,000 jobs is shown at once with its first rows, and parts of it when they are asked for. On a machine that
// is busy a page may take as long as three times that of a run of one job, which is asked for at the same time.
func TestTenThousandPast(t *testing.T) {
	w := newWorld(t)
	w.run("--model", "extract", "Keywords of: the ships sail over the sea.")
	w.fill()
	address := w.serve()
	p := chromium.Start(t).Page(chromium.View{Width: 1400, Height: 900})
	p.Before(watches)
	p.Open(address)
	p.Reads("Batch of 9,001 tasks")
	var href, small string
	const link = `[...document.querySelectorAll(".runs .name")].find(a => a.textContent.includes(%q)).href`
	p.Value(fmt.Sprintf(link, "Batch"), &href)
	p.Value(fmt.Sprintf(link, "Keywords"), &small)
	painted := func(path string, most time.Duration) {
		t.Helper()
		var why string
		for range 4 {
			_, base := rows(p, small)
			first, whole := rows(p, href+path)
			limit := max(most, 3*base)
			t.Logf("%s: first paint after %v, rows after %v; those of a small run after %v", path, first, whole, base)
			if whole <= limit {
				return
			}
			why = fmt.Sprintf("%s: rows after %v, more than %v", path, whole, limit)
		}
		t.Error(why)
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
	painted("?from=5000", firstPaint)
	for _, view := range []string{"/timeline", "/timeline?from=9900", "/plan"} {
		painted(view, 6*firstPaint) // drawings of all 10,000; the limit is for the run itself
	}
	p.Open(href + "/timeline")
	shots(p, "large-timeline")
}

// A page follows a batch of 10,000 tasks until more than 9,000 are done, and does not get slow. On a machine that is
// busy an update may take as long as three times a change of the page that costs nothing.
func TestTenThousandLive(t *testing.T) {
	w := newWorld(t)
	same := "Keywords of: the ships sail over the sea, and the sea is wide."
	w.file("one.txt", same+"\n")
	batch := []string{"batch", "--model", "extract", "--agent", "explorer", "--cache", "-j", "4", "-m", "{}", "-i"}
	w.run(append(batch, "one.txt")...)
	address := w.serve()
	b := chromium.Start(t)
	p := b.Page(chromium.View{Width: 1400, Height: 900})
	p.Before(watches)
	p.Open(address)
	var lines strings.Builder
	for i := range large { // the answers of most are known, so that this takes seconds
		if i%100 > 0 && i < large-600 {
			fmt.Fprintln(&lines, same)
		} else {
			fmt.Fprintf(&lines, "Keywords of: the %d ships sail over the sea, and the sea is wide.\n", i)
		}
	}
	w.file("lines.txt", lines.String())
	root := w.start(append(batch, "lines.txt")...)
	p.Reads("Batch of 10,000 tasks")
	p.Click(".runs .name")
	p.Until(`document.body.dataset.live === "yes" && document.querySelectorAll("#jobs .job").length >= 100`)
	begun := time.Now()
	done := 0
	var updates, idle []float64
	for done < 9000 && time.Since(begun) < 3*time.Minute {
		time.Sleep(100 * time.Millisecond)
		var now struct {
			Done          string
			Updates, Idle []float64
		}
		p.Value(`({Done: document.getElementById("fact-done")?.textContent, Updates: window.updates, Idle: window.idle})`,
			&now)
		if len(now.Updates) >= len(updates) { // else the run has ended, and the page was loaded again
			updates, idle = now.Updates, now.Idle
		}
		_, _ = fmt.Sscan(strings.ReplaceAll(now.Done, ",", ""), &done)
	}
	assert.GreaterOrEqual(t, done, 9000)
	slices.Sort(updates)
	slices.Sort(idle)
	require.Greater(t, len(updates), 5)
	require.NotEmpty(t, idle)
	at := func(list []float64, part int) float64 { return list[(len(list)-1)*part/100] }
	t.Logf("%d done in %v: %d updates, half of them in %.1f ms, 95 %% in %.1f ms, all in %.1f ms; an empty frame: %.1f, "+
		"%.1f, %.1f ms", done, time.Since(begun), len(updates), at(updates, 50), at(updates, 95), at(updates, 100),
		at(idle, 50), at(idle, 95), at(idle, 100))
	assert.LessOrEqual(t, at(updates, 95), max(anUpdate, 3*at(idle, 95)))
	var rows int
	require.NoError(t, p.Eval(`document.querySelectorAll("li.job").length`, &rows))
	assert.LessOrEqual(t, rows, 300, "the page does not grow with the run")
	shots(p, "large-live")
	_ = root.Process.Signal(syscall.SIGTERM) // it may have ended
	p.Until(`["terminated", "completed"].includes(document.getElementById("status")?.textContent)`)
	assert.Empty(t, b.Wrong())
}
