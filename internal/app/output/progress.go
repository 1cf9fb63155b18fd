package output

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"qq/internal/app/command"
	"qq/pkg/task"
)

// RedrawEvery is how often the progress of a batch is updated on a terminal.
const RedrawEvery = 200 * time.Millisecond

// reportEvery is how often the progress of a batch is printed if there is no terminal.
const reportEvery = 30 * time.Second

// Progress shows a person the progress of a batch: on a terminal one line that is redrawn,
// elsewhere a plain line every 30 seconds. A nil Progress shows nothing.
type Progress struct {
	w     *command.Output
	live  bool
	total int
	batch Batch
	start time.Time

	mu     sync.Mutex
	done   int
	failed int
	cached int

	quit chan struct{}
	wg   sync.WaitGroup
}

// Batch provides what the progress line shows besides the counts of results.
type Batch interface {
	// Outlook returns how many results came from an earlier run, and how long tasks
	// currently wait for the model server. Earlier results do not count for the speed of
	// this run.
	Outlook() (known int, wait time.Duration)
}

// StartProgress shows the progress of b, which has total tasks, until Stop is called.
func StartProgress(w *command.Output, live bool, total int, b Batch) *Progress {
	p := &Progress{w: w, live: live, total: total, batch: b, start: time.Now(), quit: make(chan struct{})}
	every := reportEvery
	if live {
		every = RedrawEvery
	}
	p.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.draw()
			case <-p.quit:
				return
			}
		}
	})
	return p
}

// Count counts a finished task.
func (p *Progress) Count(r task.Result) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if !r.Success {
		p.failed++
	}
	if r.Cached {
		p.cached++
	}
}

// Stop removes the progress line for good.
func (p *Progress) Stop() {
	if p == nil {
		return
	}
	close(p.quit)
	p.wg.Wait()
	if p.live {
		p.w.Status("")
	}
}

// draw shows the progress of now.
func (p *Progress) draw() {
	known, wait := p.batch.Outlook()
	p.mu.Lock()
	line := progressLine(p.done, p.total, p.failed, p.done-p.cached-known, wait, time.Since(p.start))
	p.mu.Unlock() // before the terminal, which may be slow: finished tasks are counted meanwhile
	if p.live {
		p.w.Status(line)
		return
	}
	fmt.Fprintln(p.w, "qq:", line)
}

// progressLine returns the text of the progress line. done counts all finished tasks of
// total, worked only those that ran now: others were taken from an earlier run or the
// cache.
func progressLine(done, total, failed, worked int, wait, elapsed time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d done", done, total)
	if failed > 0 {
		fmt.Fprintf(&b, ", %d failed", failed)
	}
	switch {
	case wait > 0:
		fmt.Fprintf(&b, ", waiting %s for the model server", Roundly(wait))
	case worked > 0 && elapsed > 0:
		rate := float64(worked) / elapsed.Seconds()
		if rate >= 1 {
			fmt.Fprintf(&b, ", %.1f/s", rate)
		} else {
			fmt.Fprintf(&b, ", %.1f/min", rate*60)
		}
		fmt.Fprintf(&b, ", %s left", Roundly(time.Duration(float64(total-done)/rate*float64(time.Second))))
	}
	return b.String()
}

// Roundly formats a duration for people, such as "2.5s", "3m05s" or "1d04h".
func Roundly(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Tokens formats the sum of all tokens of u in few characters, such as "12.3k".
func Tokens(u task.Usage) string {
	n := u.InputTokens + u.OutputTokens
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 999_950:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}
