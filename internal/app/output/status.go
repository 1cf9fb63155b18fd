package output

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"qq/internal/app/columns"
	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// RedrawEvery is how often a status line is updated on a terminal.
const RedrawEvery = 200 * time.Millisecond

// usualWidth is the number of columns of a terminal that does not tell.
const usualWidth = 80

// stopping is what a status line says from the first Ctrl-C on.
const stopping = "stopping; Ctrl-C again kills"

// Work is what a status line tells about: the jobs of a tree and what they use.
type Work interface {
	// Jobs returns the jobs that have not ended. Parents come first.
	Jobs() []jobs.Job
	// Used returns how many tokens all agents have used so far.
	Used() task.Usage
	// Waits returns how long requests currently have to wait for the model server; 0 means that none waits.
	Waits() time.Duration
}

// drawn is what shows how far something is.
type drawn interface {
	// redraw shows it as it is now. stops says that it is to end early.
	redraw(stops bool)
}

// redrawing redraws something from time to time.
type redrawing struct {
	quit chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

// begin redraws d every so often, and as soon as ends is closed.
func (r *redrawing) begin(d drawn, every time.Duration, ends <-chan struct{}) {
	r.quit = make(chan struct{})
	r.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for stopping := false; ; d.redraw(stopping) {
			select {
			case <-tick.C:
			case <-ends:
				ends, stopping = nil, true
			case <-r.quit:
				return
			}
		}
	})
}

// end ends that for good.
func (r *redrawing) end() {
	r.once.Do(func() { close(r.quit) })
	r.wg.Wait()
}

// part is a part of a status line.
type part struct {
	before string // separates it from the part before it
	text   string
	rank   int // where there is no room for all parts, only those with the lowest ranks are shown
	least  int // columns that text may be cut to; 0 means that it is never cut
}

// needs returns how many columns p takes at least.
func (p part) needs() int {
	n := columns.Of(p.text)
	if p.least > 0 {
		n = min(n, p.least)
	}
	return columns.Of(p.before) + n
}

// fit returns the parts on one line of at most that many columns.
func fit(most int, parts ...part) string {
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.text == "" })
	ranked := slices.SortedStableFunc(slices.Values(parts), func(a, b part) int { return a.rank - b.rank })
	used, last := 0, -1 // columns, and the highest rank that is shown
	for _, p := range ranked {
		if used+p.needs() > most {
			break
		}
		used, last = used+p.needs(), p.rank
	}
	var b strings.Builder
	for _, p := range parts {
		if p.rank > last {
			continue
		}
		room := columns.Of(p.before+p.text) - p.needs() // that it would like besides
		room = min(room, most-used)
		used += room
		b.WriteString(p.before + ellipsis(p.text, p.needs()-columns.Of(p.before)+room))
	}
	return b.String()
}

// ellipsis returns s in at most n columns, with a … at its end when s is longer.
func ellipsis(s string, n int) string {
	if columns.Of(s) <= n {
		return s
	}
	return strings.TrimRight(columns.First(s, n-1), " ") + "…"
}

// columnsFor returns how many columns a status line on w may take. The last three of the terminal stay free: for
// the ^C that it echoes, and because some terminals wrap after the last one.
func columnsFor(w *command.Output) int {
	width := w.Width()
	if width <= 0 {
		width = usualWidth
	}
	return max(width-3, 1)
}

// Clock formats a time that has passed for a status line, such as "48 s", "1m 12s" or "2h 05m".
func Clock(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%dm %02ds", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%dh %02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd %02dh", s/86400, s/3600%24)
}

// Left formats a time that is left: as [Clock], rounded up.
func Left(d time.Duration) string { return Clock(max(d, 0) + time.Second - 1) }

// tokensSoFar is [BriefTokens] with the unit, or "" if there are none.
func tokensSoFar(u task.Usage) string {
	if s := BriefTokens(u); s != "" {
		return s + " tokens"
	}
	return ""
}

// BriefTokens is [Tokens] for a status line: "3.1k", or "" if there are none.
func BriefTokens(u task.Usage) string {
	n := u.InputTokens + u.OutputTokens
	switch {
	case n == 0:
		return ""
	case n < 1000 || n >= 10_000:
		return figures.Tokens(u)
	}
	return fmt.Sprintf("%.1fk", float64(n)/1e3)
}
