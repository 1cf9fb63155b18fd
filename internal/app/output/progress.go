package output

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"qq/pkg/task"
)

// RedrawEvery is the time between two looks at a batch on a terminal.
const RedrawEvery = 200 * time.Millisecond

// reportEvery is the same elsewhere.
const reportEvery = 30 * time.Second

// Progress tells a person how far a batch is: one line that is redrawn on a
// terminal, and elsewhere a plain line every 30 seconds. A nil Progress shows
// nothing.
type Progress struct {
	w     io.Writer
	live  bool
	total int
	batch Batch
	start time.Time

	mu     sync.Mutex
	done   int
	failed int
	cached int
	drawn  bool
	held   int // by so many

	quit chan struct{}
	wg   sync.WaitGroup
}

// Batch tells what the progress line shows besides what it counts.
type Batch interface {
	// Outlook returns how many results an earlier run left, which says nothing about
	// the speed of this one, and for how long tasks wait now for the model server.
	Outlook() (known int, wait time.Duration)
}

// StartProgress begins to show how far the total tasks of b are, until Stop.
func StartProgress(w io.Writer, live bool, total int, b Batch) *Progress {
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
				p.mu.Lock()
				p.draw()
				p.mu.Unlock()
			case <-p.quit:
				return
			}
		}
	})
	return p
}

// Count notes the end of a task.
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

// Around takes the line away while f prints something else. Other methods do not wait
// for f, whose reader may be slow.
func (p *Progress) Around(f func() error) error {
	if p == nil {
		return f()
	}
	defer p.Hold()()
	return f()
}

// Hold takes the line away until release, for other output or a question. Counting
// goes on meanwhile.
func (p *Progress) Hold() (release func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	again := p.drawn
	p.wipe()
	p.held++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held--
		if again {
			p.draw()
		}
	}
}

// Stop takes the line away.
func (p *Progress) Stop() {
	if p == nil {
		return
	}
	close(p.quit)
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

func (p *Progress) wipe() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

func (p *Progress) draw() {
	if p.held > 0 {
		return
	}
	known, wait := p.batch.Outlook()
	line := progressLine(p.done, p.total, p.failed, p.done-p.cached-known, wait, time.Since(p.start))
	if !p.live {
		fmt.Fprintln(p.w, "qq:", line)
		return
	}
	fmt.Fprint(p.w, "\r\x1b[K", line)
	p.drawn = true
}

// progressLine says how far done of total tasks are, of which some were worked on.
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

// Roundly is a duration for people.
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

// Tokens are all tokens of u, in few characters.
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
