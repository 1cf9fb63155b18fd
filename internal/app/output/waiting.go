package output

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"qq/internal/app/command"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// quiet is how long nothing is printed before the line of a Waiting appears. A quick answer shows no line.
const quiet = time.Second

// maxCalls bounds the calls that a Waiting keeps: a child may begin calls and never end them.
const maxCalls = 1000

// Waiting shows a person on a terminal that a run is at work: one line that is redrawn while the answer is awaited.
// It is an [event.Sink], from which it knows the calls, and gets the text of the model, which takes the place of the
// line. A nil Waiting shows nothing.
type Waiting struct {
	w     *command.Output
	work  Work
	start time.Time
	clock redrawing
	stops atomic.Bool // the run is to end

	mu    sync.Mutex  // never held while something is written
	calls event.Calls // with the text that is shown

	drawing sync.Mutex // held while something is written
	live    *Live      // nil if the text of the model is not shown
	rows    JobLines   // nil if there are none
	model   string
	open    bool      // the text of a turn is on the screen, and may go on
	since   time.Time // when the last text was printed
	lines   []string  // what is shown
}

// StartWaiting shows on w, a terminal, what is at work, until Stop is called. Once ends is closed, it says that
// the run stops.
func StartWaiting(w *command.Output, work Work, ends <-chan struct{}) *Waiting {
	now := time.Now()
	l := &Waiting{w: w, work: work, start: now, since: now, model: "the model server"}
	l.clock.begin(l, RedrawEvery, ends)
	return l
}

// redraw implements drawn.
func (l *Waiting) redraw(stops bool) {
	l.stops.Store(stops)
	l.Redraw()
}

// Redraw shows it as it is now.
func (l *Waiting) Redraw() {
	now, line := time.Now(), stopping
	l.drawing.Lock()
	of := l.rows
	l.drawing.Unlock()
	j := jobsOf(of, l.w, l.start, now)
	switch {
	case l.stops.Load():
	case len(j.Rows) > 0 || j.Said != "":
		if j.Paused != "" {
			j.Count += ", " + j.Paused
		}
		line = l.counted(cmp.Or(j.Said, j.Count), now)
	default:
		line = l.text(now)
	}
	l.show(j.Rows, line)
}

// counted returns the line below those of the jobs.
func (l *Waiting) counted(status string, now time.Time) string {
	wide := columnsFor(l.w)
	return fit(wide, part{text: status, least: min(24, wide)},
		part{before: " · ", text: Clock(now.Sub(l.start)), rank: 1},
		part{before: " · ", text: tokensSoFar(l.work.Used()), rank: 2})
}

// Stop removes the line for good.
func (l *Waiting) Stop() {
	if l == nil {
		return
	}
	l.clock.end()
	if rows := l.Below(nil); rows != nil {
		rows.Close()
	}
	l.show(nil, "")
}

// Below implements [Shown].
func (l *Waiting) Below(rows JobLines) JobLines {
	l.drawing.Lock()
	defer l.drawing.Unlock()
	rows, l.rows = l.rows, rows
	return rows
}

// For says which model the run waits for.
func (l *Waiting) For(model string) {
	if l == nil {
		return
	}
	l.drawing.Lock()
	defer l.drawing.Unlock()
	l.model = OneLine(model)
}

// Before returns live as the screen of the model, which the line makes room for.
func (l *Waiting) Before(live *Live) *Waiting {
	l.drawing.Lock()
	defer l.drawing.Unlock()
	l.live = live
	return l
}

// Chunk implements loop.Screen.
func (l *Waiting) Chunk(c llm.Chunk) {
	if command.Printable(c.Text) == "" {
		return
	}
	l.drawing.Lock()
	defer l.drawing.Unlock()
	if len(l.lines) <= 1 {
		l.draw(nil)
	}
	l.open = true
	l.live.Chunk(c)
}

// TurnEnd implements loop.Screen.
func (l *Waiting) TurnEnd(final bool) {
	l.drawing.Lock()
	defer l.drawing.Unlock()
	l.live.TurnEnd(final)
	if l.open {
		l.open, l.since = false, time.Now()
	}
}

// Handle implements [event.Sink].
func (l *Waiting) Handle(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Type {
	case event.ToolStart:
		if len(l.calls) < maxCalls {
			e.Text, e.Arguments = OneLine(task.Shorten(e.Agent+": "+e.Text, 200)), ""
			l.calls = append(l.calls, e)
		}
	case event.ToolEnd:
		l.calls.End(e)
	case event.SubAgentComplete, event.SubAgentError:
		l.calls = slices.DeleteFunc(l.calls, func(c event.Event) bool { return c.ExecutionID == e.ExecutionID })
	}
}

// call returns the last call that runs. An agent whose children are at work waits for them: its calls say nothing.
func (l *Waiting) call(parents map[string]bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range slices.Backward(l.calls) {
		if !parents[c.ExecutionID] {
			return c.Text
		}
	}
	return ""
}

// text returns the line for now; "" means that none is to be shown.
func (l *Waiting) text(now time.Time) string {
	l.drawing.Lock()
	model, busy := l.model, l.open || now.Sub(l.since) < quiet
	l.drawing.Unlock()
	if busy {
		return ""
	}
	atWork, queued, parents := 0, 0, map[string]bool{}
	for _, j := range l.work.Jobs() {
		if j.ParentExecutionID == "" {
			continue // the agent of the root
		}
		parents[j.ParentExecutionID] = true
		if j.State == task.Queued {
			queued++
		} else {
			atWork++
		}
	}
	does, wait := l.call(parents), l.work.Waits()
	head := part{text: "waiting for " + model, least: len("waiting for ") + 8}
	switch {
	case atWork+queued > 0:
		head = part{text: counts(atWork, queued, "queued")}
		if wait > 0 {
			does = "waiting " + Left(wait) + " for the model server"
		}
	case wait > 0:
		head = part{text: "waiting " + Left(wait) + " for the model server"}
	case does != "":
		head, does = part{text: does, least: 12}, ""
	}
	return fit(columnsFor(l.w), head,
		part{before: " · ", text: does, rank: 2, least: 10},
		part{before: " · ", text: Clock(now.Sub(l.start)), rank: 1},
		part{before: " · ", text: tokensSoFar(l.work.Used()), rank: 3})
}

// counts says how many are at work, and how many are not but do what the word says.
func counts(atWork, others int, word string) string {
	switch {
	case others == 0:
		return fmt.Sprintf("%d at work", atWork)
	case atWork == 0:
		return fmt.Sprintf("%d %s", others, word)
	}
	return fmt.Sprintf("%d at work, %d %s", atWork, others, word)
}

// show shows rows and line in the place of what was shown. While a text of the model is on the screen, line is shown
// only below rows.
func (l *Waiting) show(rows []string, line string) {
	l.drawing.Lock()
	defer l.drawing.Unlock()
	switch {
	case len(rows) > 0 && l.rows != nil:
		l.draw(append(rows, line))
	case l.open && len(l.lines) <= 1:
	case l.open || line == "":
		l.draw(nil)
	default:
		l.draw([]string{line})
	}
}

// draw shows lines. The caller holds l.drawing.
func (l *Waiting) draw(lines []string) {
	if len(lines) > 1 || !slices.Equal(lines, l.lines) { // several lines depend on the size of the terminal
		l.lines = lines
		l.w.Block(lines)
	}
}
