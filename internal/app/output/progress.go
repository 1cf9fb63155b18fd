package output

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"qq/internal/app/command"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/supervisor/plan"
	"qq/pkg/task"
)

// reportEvery is how often the progress of a batch is printed if there is no terminal.
const reportEvery = 30 * time.Second

// Progress shows a person the progress of a batch: on a terminal one line that is redrawn,
// elsewhere a plain line every 30 seconds. A nil Progress shows nothing.
type Progress struct {
	w     *command.Output
	live  bool
	batch Batch
	tasks Tasks
	start time.Time
	clock redrawing

	drawing    sync.Mutex // held while something is written
	mu         sync.Mutex
	done       int
	failed     int
	cancelled  int
	cached     int
	skipped    int
	notStarted int
	ended      []bool   // the tasks that have a result; nil without a plan
	rows       JobLines // nil if there are none
	stops      bool
}

// Tasks are the tasks of a batch whose progress is shown.
type Tasks struct {
	Total int
	Jobs  int           // how many may be at work at once
	Delay time.Duration // between the starts of two tasks
	Plan  *plan.Plan    // nil if none waits for another
}

// Batch is what the progress line tells about besides the counts of results.
type Batch interface {
	Work
	// Known returns how many results came from an earlier run. They do not count for the speed of this run.
	Known() int
}

// StartProgress shows the progress of b, which has these tasks, until Stop is called. Once ends is closed, it says that
// the batch stops.
func StartProgress(w *command.Output, live bool, tasks Tasks, b Batch, ends <-chan struct{}) *Progress {
	p := &Progress{w: w, live: live, tasks: tasks, batch: b, start: time.Now()}
	if tasks.Plan != nil {
		p.ended = make([]bool, tasks.Total)
	}
	every := reportEvery
	if live {
		every = RedrawEvery
	}
	p.clock.begin(p, every, ends)
	return p
}

// Count counts a task that has its result. Only one that was started is done.
func (p *Progress) Count(r task.Result) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Index < len(p.ended) {
		p.ended[r.Index] = true
	}
	switch {
	case r.NotStarted():
		p.notStarted++
		return
	case r.Status == task.Skipped:
		p.skipped++
		return
	}
	p.done++
	switch {
	case r.Status == task.Cancelled || r.Status == task.Interrupted || r.Status == task.Terminated:
		p.cancelled++
	case !r.Success:
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
	p.clock.end()
	if rows := p.Below(nil); rows != nil {
		rows.Close()
	}
	if p.live {
		p.w.Status("")
	}
}

// Below implements [Shown].
func (p *Progress) Below(rows JobLines) JobLines {
	p.mu.Lock()
	defer p.mu.Unlock()
	rows, p.rows = p.rows, rows
	return rows
}

// redraw implements drawn.
func (p *Progress) redraw(stops bool) {
	p.mu.Lock()
	p.stops = stops
	p.mu.Unlock()
	p.Redraw()
}

// Redraw implements [Shown].
func (p *Progress) Redraw() {
	p.drawing.Lock()
	defer p.drawing.Unlock()
	known := p.batch.Known()
	p.mu.Lock()
	rows := p.rows
	s := standing{stopping: p.stops, done: p.done, failed: p.failed, cancelled: p.cancelled, skipped: p.skipped,
		notStarted: p.notStarted, worked: max(p.done-p.cancelled-p.cached-known, 0)}
	p.mu.Unlock() // before the terminal, which may be slow: finished tasks are counted meanwhile
	now := time.Now()
	s.total, s.elapsed, s.wait, s.delay = p.tasks.Total, now.Sub(p.start), p.batch.Waits(), p.tasks.Delay
	list := p.batch.Jobs()
	s.look(list, now)
	if p.tasks.Plan != nil && s.atWork < p.tasks.Jobs {
		s.held, s.hold = s.rest(), p.hold(list)
	}
	if p.live {
		j := jobsOf(rows, p.w, p.start, now)
		s.paused = j.Paused
		p.w.Block(append(j.Rows, cmp.Or(j.Said, s.line(columnsFor(p.w)))))
		return
	}
	fmt.Fprintln(p.w, "qq:", s.line(plainWidth))
}

// hold says which task waits for which other one. Those in list have not ended.
func (p *Progress) hold(list []jobs.Job) string {
	atWork := map[int]bool{}
	for _, j := range list {
		if j.ParentExecutionID == "" && j.State != task.Queued {
			atWork[j.Index] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := func(i int) bool { return p.ended[i] }
	return p.tasks.Plan.Hold(func(i int) bool { return atWork[i] || ended(i) }, ended)
}

// plainWidth is how many columns a plain line of progress has at most.
const plainWidth = 200

// standing is how far a batch is.
type standing struct {
	done, total, failed int
	skipped, notStarted int           // neither done nor failed
	cancelled           int           // no failures: a person or the end of the batch ended them
	held                int           // tasks that wait for others, although more could be at work
	hold                string        // for whom one of them waits
	worked              int           // of done, those that ended by themselves now, not earlier and not in the cache
	atWork              int           // tasks that have a slot, or whose children have one
	waiting             int           // tasks that have started and have none, such as between two attempts
	ready               int           // tasks that have ended their work, and wait until it is joined
	age                 time.Duration // of the oldest of the others
	oldest              string        // its text
	wait                time.Duration // for the model server
	elapsed             time.Duration
	delay               time.Duration // between the starts of two tasks
	stopping            bool          // no further task starts
	paused              string        // no further task starts for now, and where they go on; empty if they start
}

// look counts the tasks of the batch that have started, and finds the oldest. The others in list are their children.
func (s *standing) look(list []jobs.Job, now time.Time) {
	busy := map[string]bool{} // the ids of jobs that have a slot, and of their ancestors
	for _, j := range slices.Backward(list) {
		if j.Slot || busy[j.ExecutionID] {
			busy[j.ExecutionID], busy[j.ParentExecutionID] = true, true
		}
	}
	for _, j := range list {
		if j.ParentExecutionID != "" || j.State == task.Queued {
			continue
		}
		switch {
		case busy[j.ExecutionID]:
			s.atWork++
		case j.Ready:
			s.ready++
			continue
		default:
			s.waiting++
		}
		if age := now.Sub(j.Started); age > s.age {
			s.age, s.oldest = age, j.Task
		}
	}
}

// rest returns how many tasks have not started and may start.
func (s *standing) rest() int {
	return max(s.total-s.done-s.skipped-s.notStarted-s.atWork-s.waiting-s.ready, 0)
}

// line returns the text of the progress line in at most that many columns.
func (s *standing) line(columns int) string {
	var failed, cancelled, skipped, atWork, elapsed, rate, left, oldest, text string
	if s.failed > 0 {
		failed = fmt.Sprintf("%d failed", s.failed)
	}
	if s.cancelled > 0 {
		cancelled = fmt.Sprintf("%d cancelled", s.cancelled)
	}
	if s.skipped > 0 {
		skipped = fmt.Sprintf("%d skipped", s.skipped)
	}
	if s.atWork+s.waiting > 0 {
		atWork = counts(s.atWork, s.waiting, "waiting")
	}
	if s.ready > 0 {
		if atWork != "" {
			atWork += ", "
		}
		atWork += fmt.Sprintf("%d to join", s.ready)
	}
	rankWork, rankOldest := 5, 3 // ranks
	if s.held > 0 && !s.stopping {
		if rankWork, rankOldest = 3, 5; atWork != "" {
			atWork += ", "
		}
		atWork += fmt.Sprintf("%d wait", s.held)
	}
	if s.elapsed >= time.Second {
		elapsed = Clock(s.elapsed)
	}
	switch {
	case s.stopping:
		return fit(columns,
			part{text: stopping},
			part{before: " · ", text: fmt.Sprintf("%d/%d done", s.done, s.total), rank: 1},
			part{before: ", ", text: failed, rank: 2},
			part{before: ", ", text: atWork, rank: 3},
			part{before: " · ", text: elapsed, rank: 4})
	case s.paused != "": // the rate says nothing
	case s.wait > 0:
		rate = "waiting " + Left(s.wait) + " for the model server"
	case s.worked > 0 && s.elapsed > 0:
		speed := float64(s.worked) / s.elapsed.Seconds()
		if rate = fmt.Sprintf("%.1f/s", speed); speed < 1 {
			rate = fmt.Sprintf("%.1f/min", speed*60)
		}
		rest := time.Duration(float64(s.total-s.done-s.skipped) / speed * float64(time.Second))
		starts := time.Duration(s.rest()) * s.delay
		left = Left(max(rest, starts)) + " left"
	}
	if s.age >= time.Second {
		oldest, text = "oldest: "+Clock(s.age), OneLine(s.oldest)
	}
	return fit(columns,
		part{text: fmt.Sprintf("%d/%d done", s.done, s.total)},
		part{before: ", ", text: failed, rank: 1},
		part{before: ", ", text: s.paused, rank: 2},
		part{before: ", ", text: cancelled, rank: 9},
		part{before: ", ", text: skipped, rank: 8},
		part{before: ", ", text: atWork, rank: rankWork},
		part{before: " · ", text: elapsed, rank: 2},
		part{before: ", ", text: rate, rank: 6},
		part{before: ", ", text: left, rank: 7},
		part{before: " · ", text: OneLine(s.hold), rank: 4},
		part{before: " · ", text: oldest, rank: rankOldest},
		part{before: " ", text: text, rank: 10, least: 8})
}
