package runs

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"qq/internal/app/columns"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// layout says how runs are printed: as JSON or text, how wide, and how many. Home is QQ_HOME.
type layout struct {
	JSON  bool
	Width int // columns of the terminal; 0 means no terminal
	// Now is the current time, up to which a run at work is measured. Times are printed in its
	// location.
	Now time.Time
	// Limit is the largest number of rows in a list; 0 means no limit.
	Limit  int
	Batch  bool // the runs of a list are the tasks of one batch
	Status bool // the rows of a list were chosen by their status
	Errors bool // the runs of a list are followed by their errors
	Home   string
	Told   map[string]string // a line below the run or the batch with that id
	Shares []ledger.Share    // what agents used at each depth, of the run or batch that is shown
}

const (
	minute = "2006-01-02 15:04"
	second = "2006-01-02 15:04:05"
)

// row is one line of a list: cells for people and a value for scripts.
type row struct {
	isBatch bool
	when    time.Time
	cells   []string
	costs   bool   // it is known to cost something
	below   string // a line of its own; empty means none
	value   any    // for scripts
}

// printRuns prints runs and batches, newest first. With o.Status the batches come before the runs. Without it, a run
// has no line of its own if its batch is one of batches.
func printRuns(w io.Writer, runs []ledger.Run, batches []ledger.BatchRow, o layout) error {
	var rows []row
	listed := map[string]bool{}
	for _, b := range batches {
		rows = append(rows, o.batch(current(b)))
		listed[b.ID] = true
	}
	ofBatch := false // a run is a task of a batch
	for _, r := range runs {
		if o.Status || !listed[r.Batch] {
			rows = append(rows, o.run(r))
			ofBatch = ofBatch || r.Batch != ""
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		if o.Status && a.isBatch != b.isBatch {
			return map[bool]int{true: -1, false: 1}[a.isBatch]
		}
		return b.when.Compare(a.when)
	})
	if o.Limit > 0 {
		rows = rows[:min(len(rows), o.Limit)]
	}
	if o.JSON {
		values := []any{}
		for _, r := range rows {
			values = append(values, r.value)
		}
		return output.WriteJSON(w, values)
	}
	if len(rows) == 0 {
		return nil
	}
	number := "BATCH"
	if o.Batch {
		number = "#"
	}
	t := output.Table{{"RUN", number, "STARTED", "STATUS", "AGENT", "TIME", "TOKENS", "COST", "TASK"}}
	costs := false
	for _, r := range rows {
		t = append(t, r.cells)
		costs = costs || r.costs
	}
	if !costs {
		drop(t, 7)
	}
	if !ofBatch {
		drop(t, 1)
	}
	lines := t.Lines(o.width())
	each := len(lines) / len(t) // lines of a row: in a narrow terminal two
	told := lines[:each:each]
	for i, r := range rows {
		told = append(told, lines[(i+1)*each:(i+2)*each]...)
		if r.below != "" {
			told = append(told, columns.Cut("  "+r.below, o.width()))
		}
	}
	return o.write(w, told)
}

// printBatch prints a batch, and its runs below it, each that failed with the first line of its error.
func printBatch(w io.Writer, b ledger.BatchRow, runs []ledger.Run, o layout) error {
	b = current(b)
	if o.JSON {
		return output.WriteJSON(w, struct {
			batchValue
			Runs   []ledger.Run   `json:"runs"`
			Shares []ledger.Share `json:"shares,omitempty"`
		}{batchValue{"batch", b}, append([]ledger.Run{}, runs...), o.Shares})
	}
	if err := printRuns(w, nil, []ledger.BatchRow{b}, o); err != nil {
		return err
	}
	o.Errors, o.Batch = true, true
	runs, left := listed(b, runs)
	if err := printRuns(w, runs, nil, o); err != nil {
		return err
	}
	if left != "" {
		if err := o.write(w, []string{columns.Cut("not started: "+left, o.width())}); err != nil {
			return err
		}
	}
	return o.printUsed(w, b.Usage)
}

// listed returns runs, the newest first, without tasks that were skipped and have run since, and the numbers of the
// tasks of a batch that were not started: "2, 4 to 7". Of a batch at work, and of one with more runs, it returns none.
func listed(b ledger.BatchRow, runs []ledger.Run) (kept []ledger.Run, left string) {
	seen := map[int]bool{}
	for _, r := range runs {
		if r.Status != task.Skipped || !seen[r.Index] {
			kept = append(kept, r)
		}
		seen[r.Index] = true
	}
	if b.Live || len(runs) >= MaxShown {
		return kept, ""
	}
	var spans []string
	for i := 0; i < b.Count; i++ {
		first := i
		for i < b.Count && !seen[i] {
			i++
		}
		switch i - first {
		case 0:
		case 1:
			spans = append(spans, fmt.Sprint(i))
		default:
			spans = append(spans, fmt.Sprintf("%d to %d", first+1, i))
		}
	}
	return kept, strings.Join(spans, ", ")
}

// current returns b without tasks that were skipped and have run since: with the result that it needs, a task is
// another one.
func current(b ledger.BatchRow) ledger.BatchRow {
	skipped, others := b.Counts[task.Skipped], 0
	for s, n := range b.Counts {
		if s != task.Skipped {
			others += n
		}
	}
	if left := max(b.Count-others, 0); skipped > left {
		b.Counts = maps.Clone(b.Counts)
		if b.Counts[task.Skipped] = left; left == 0 {
			delete(b.Counts, task.Skipped)
		}
	}
	return b
}

// batchValue is the JSON of a batch, for scripts. Type is "batch".
type batchValue struct {
	Type string `json:"type"`
	ledger.BatchRow
}

func (o layout) run(r ledger.Run) row {
	when, below := began(r), o.Told[r.ID]
	if o.Errors && r.Status != task.Completed {
		first, _, _ := strings.Cut(strings.TrimSpace(r.Error), "\n")
		below = o.text(first)
	}
	return row{false, when, []string{
		short(r.ID), o.inBatch(r), o.clock(when), o.status(r), o.brief(r.Agent, 16), o.took(r), tokens(r.TotalUsage),
		output.Cost(r.TotalUsage), o.text(r.Task),
	}, r.TotalUsage.Cost > 0, below, struct {
		Type string `json:"type"`
		ledger.Run
	}{"run", r}}
}

// inBatch returns the batch of r and the number of its task there, as the output of the batch has it. It returns ""
// outside of a batch.
func (o layout) inBatch(r ledger.Run) string {
	switch {
	case r.Batch == "":
		return ""
	case o.Batch:
		return fmt.Sprint(r.Index + 1)
	}
	return fmt.Sprintf("%s #%d", short(r.Batch), r.Index+1)
}

func (o layout) batch(b ledger.BatchRow) row {
	status, took := output.OneLine(string(b.Status)), time.Duration(b.DurationMS)*time.Millisecond
	if b.Live {
		status, took = status+live, took+o.Now.Sub(b.Latest)
	}
	span := "-"
	if b.Live || !b.Ended.IsZero() {
		span = figures.Roundly(took)
	}
	return row{true, b.Started, []string{
		short(b.ID), "", o.clock(b.Started), status, "(batch)", span, tokens(b.Usage), output.Cost(b.Usage),
		progress(b),
	}, b.Usage.Cost > 0, o.Told[b.ID], batchValue{"batch", b}}
}

// progress describes how far a batch is. A batch that was resumed with other tasks may have
// more tasks than were counted when it began.
func progress(b ledger.BatchRow) string {
	done, failed := b.Done()
	begun := 0
	for _, n := range b.Counts {
		begun += n
	}
	text := fmt.Sprintf("%d/%d done", done, max(b.Count, begun))
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	for _, s := range []task.Status{task.Interrupted, task.Terminated, task.Cancelled, task.Skipped} {
		if n := b.Counts[s]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, s)
		}
	}
	if left := b.Count - begun; left > 0 && !b.Live {
		text += fmt.Sprintf(", %d not started", left)
	}
	if b.Dir != "" {
		text += " in " + output.OneLine(b.Dir)
	}
	return text
}

// printTree prints each run indented below the run that started it. Parents come before
// children in runs. A run whose parent is missing, such as a task of a batch, is at the
// top level.
func printTree(w io.Writer, runs []ledger.Run, o layout) error {
	if o.JSON {
		return output.WriteJSON(w, append([]ledger.Run{}, runs...))
	}
	known := map[string]bool{}
	below := map[string][]ledger.Run{}
	for _, r := range runs {
		if known[r.ID] {
			continue
		}
		parent := r.Parent
		if !known[parent] {
			parent = "" // also a parent that comes later, so that there is no cycle
		}
		below[parent] = append(below[parent], r)
		known[r.ID] = r.ID != ""
	}
	costs := slices.ContainsFunc(runs, func(r ledger.Run) bool { return r.Usage.Cost > 0 })
	var t output.Table
	var grow func(id, before string)
	grow = func(id, before string) {
		children := below[id]
		for i, r := range children {
			branch, deeper := "├─ ", "│  "
			if i == len(children)-1 {
				branch, deeper = "└─ ", "   "
			}
			if id == "" {
				branch, deeper = "", ""
			}
			cells := []string{before + branch + short(r.ID), o.status(r), o.brief(r.Agent, 16), o.took(r)}
			if costs { // each its own
				cells = append(cells, output.Cost(r.Usage))
			}
			text := r.Task
			if r.Status == task.Skipped {
				text = r.Error + ": " + text
			}
			t = append(t, append(cells, o.text(text)))
			if r.ID != "" {
				grow(r.ID, before+deeper)
			}
		}
	}
	grow("", "")
	lines := t.Lines(0) // each run has one line, however narrow the terminal is
	for i, line := range lines {
		lines[i] = columns.Cut(line, o.width())
	}
	return o.write(w, lines)
}

// printCleared prints how many runs were removed from the ledger.
func printCleared(w io.Writer, n int, o layout) error {
	if o.JSON {
		return output.WriteJSON(w, map[string]int{"cleared": n})
	}
	text := fmt.Sprintf("%d runs cleared", n)
	switch n {
	case 0:
		text = "nothing to clear"
	case 1:
		text = "1 run cleared"
	}
	return o.write(w, []string{text})
}

func (o layout) write(w io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return output.WriteError(err)
}

// live is appended to the status of a run at work.
const live = " *"

func (o layout) status(r ledger.Run) string {
	status := output.OneLine(string(r.Status))
	if atWork(r) {
		status += live
	}
	return status
}

// atWork reports whether r has not finished and its root process is alive.
func atWork(r ledger.Run) bool { return r.Live && !r.Status.Final() }

// began returns when r was started, or when it was queued if it was not started.
func began(r ledger.Run) time.Time {
	if r.Started.IsZero() {
		return r.Queued
	}
	return r.Started
}

// took formats how long r took, or has taken so far.
func (o layout) took(r ledger.Run) string {
	switch {
	case atWork(r) && !r.Started.IsZero():
		return figures.Roundly(o.Now.Sub(r.Started))
	case r.Ended.IsZero():
		return "-"
	}
	return figures.Roundly(time.Duration(r.DurationMS) * time.Millisecond)
}

func (o layout) moment(layout string, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.In(o.Now.Location()).Format(layout)
}

// clock formats a time for a list: the time of day, and the date too unless it is today.
func (o layout) clock(t time.Time) string {
	y, m, d := t.In(o.Now.Location()).Date()
	if ny, nm, nd := o.Now.Date(); y == ny && m == nm && d == nd {
		return o.moment("15:04", t)
	}
	return o.moment(minute, t)
}

// width returns the number of columns at which lines are cut; 0 means no limit.
func (o layout) width() int {
	if o.Width <= 0 {
		return 0
	}
	return max(o.Width, 40)
}

// text returns the beginning of a task on one line.
func (o layout) text(s string) string {
	if o.Width > 0 {
		return output.OneLine(task.Shorten(s, max(o.Width, 100)))
	}
	return output.OneLine(task.Shorten(s, 100))
}

// brief returns a name in at most n columns, or a dash if it is empty.
func (o layout) brief(s string, n int) string { return cmp.Or(columns.Cut(output.OneLine(s), n), "-") }

// short returns the short form of an id.
func short(id string) string { return output.OneLine(task.ShortID(id)) }

// tokens formats the sum of all tokens of u, or a dash if there are none.
func tokens(u task.Usage) string {
	if u == (task.Usage{}) {
		return "-"
	}
	return figures.Tokens(u)
}
