package longtext

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// Joined is the text of joined summaries that replaces a long text.
type Joined struct {
	// Text is the context for the request: the joined summaries, or the document itself if
	// it fits.
	Text string
	// Levels is the number of levels that ran: 0 for a document that fits, 1 for map
	// without reduce.
	Levels int
	// Parts is how many parts the document was cut into.
	Parts int
	// Warnings are problems with summaries that did not fail, such as one that was cut.
	Warnings []string
}

// FailedError is the error for a level in which some tasks failed to return a summary.
type FailedError struct {
	Of     int           // number of tasks of the level
	What   []string      // the part or parts of each failed task
	Failed []task.Result // of each failed task
	Left   int           // number of tasks that were not started because of the failures
}

// TaskStatus returns the status of a task that ends with this error. If all failed tasks
// have the same status, it is that one. Otherwise it is task.Limit or task.Unavailable if a
// failed task has it, because these need action before a retry, else task.Failed.
func (e *FailedError) TaskStatus() task.Status {
	has := func(s task.Status) bool {
		return slices.ContainsFunc(e.Failed, func(r task.Result) bool { return r.Status == s })
	}
	first := e.Failed[0].Status
	switch {
	case !slices.ContainsFunc(e.Failed, func(r task.Result) bool { return r.Status != first }):
		return first
	case has(task.Limit):
		return task.Limit
	case has(task.Unavailable):
		return task.Unavailable
	}
	return task.Failed
}

// Error lists the failed tasks, at most five of them, with a hint.
func (e *FailedError) Error() string {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "summarise the document: %d of %s failed: ", len(e.What), count(e.Of, "summary"))
	for i, what := range e.What {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(e.What)-most)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(what + ": ")
		if i > 0 && e.why(i) == e.why(i-1) {
			b.WriteString("the same")
		} else {
			b.WriteString(e.why(i))
		}
	}
	if e.Left > 0 {
		fmt.Fprintf(&b, "; %s not begun", group(e.Left))
	}
	b.WriteString("\nhint: without them a part of the document would be missing, so there is no answer; run it again")
	return b.String()
}

// why returns the error of the i-th failed task without its hint, which is about that task
// alone.
func (e *FailedError) why(i int) string {
	line, _, _ := strings.Cut(e.Failed[i].Err(), "\n")
	return line
}

// entry is one summary, or a piece of one that is too long.
type entry struct {
	place
	text   string
	tokens int // with its heading
}

// Run makes the summaries, level by level, until they fit together with the request. On an
// error Joined has no text. When ctx ends, Run returns its cause instead of starting the
// next level.
func (p *Plan) Run(ctx context.Context) (Joined, error) {
	out := Joined{Text: p.job.Text, Parts: len(p.Parts)}
	if len(p.Parts) == 0 {
		return out, nil
	}
	out.Text = ""
	tasks, places := p.mapTasks()
	size := p.tokens
	for {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		entries, err := p.level(ctx, tasks, places, &out)
		if err != nil {
			return out, err
		}
		text := preface(p.characters, len(p.Parts)) + join(entries)
		if p.job.Tokens(llm.WithContext(p.job.Request, text)) <= p.job.Room {
			out.Text = text
			return out, nil
		}
		before := size
		size = p.job.Tokens(text)
		if err := p.progress(out.Levels, before, size); err != nil {
			return out, err
		}
		tasks, places = p.reduceTasks(out.Levels, p.fitting(entries))
	}
}

// progress returns an error if the summaries will never fit: they do not get shorter, or
// there were too many levels.
func (p *Plan) progress(levels, before, now int) error {
	const hint = "use a model that keeps to a length that it is asked for, or one with a larger context"
	switch {
	case now >= before:
		return task.Hinted(hint, "summarise the document: the summaries of level %d have about %s tokens together, "+
			"and what they are of has %s: it does not get shorter", levels, group(now), group(before))
	case levels >= maxLevels:
		return task.Hinted(hint, "summarise the document: after %d levels the summaries have about %s tokens together "+
			"and still do not fit", levels, group(now))
	}
	return nil
}

// mapTasks makes a task for each part.
func (p *Plan) mapTasks() (tasks []task.Task, places []place) {
	for i, part := range p.Parts {
		at := p.place(i)
		tasks = append(tasks, taskFor(fmt.Sprintf("part-%d", i+1), p.prompts.forPart(at), part.Text))
		places = append(places, at)
	}
	return tasks, places
}

// reduceTasks makes a task for each group of adjacent summaries that fits.
func (p *Plan) reduceTasks(level int, entries []entry) (tasks []task.Task, places []place) {
	marks := make([]mark, 1, len(entries)+1)
	for i, e := range entries {
		marks = append(marks, mark{at: i + 1, rank: rankBlock, sum: marks[i].sum + e.tokens})
	}
	pack(marks, p.room, func(i, j int) int {
		return p.job.Tokens(join(entries[i:j]))
	}, func(i, j, _ int) {
		at := span(entries[i:j])
		id := fmt.Sprintf("reduce-%d-%d", level, len(tasks)+1)
		tasks = append(tasks, taskFor(id, p.prompts.forGroup(at), join(entries[i:j])))
		places = append(places, at)
	})
	return tasks, places
}

// level runs the tasks of one level and returns their summaries, in order. It returns a
// [FailedError] if a task failed. It counts the level and adds the warnings in out.
func (p *Plan) level(ctx context.Context, tasks []task.Task, places []place, out *Joined) ([]entry, error) {
	results := p.job.Children.Summarize(ctx, tasks)
	stopped := len(results) < len(tasks) && slices.ContainsFunc(results, func(r task.Result) bool { return !r.Success })
	if len(results) != len(tasks) && !stopped {
		return nil, fmt.Errorf("summarise the document: %s came back for %s",
			count(len(results), "result"), count(len(tasks), "task"))
	}
	out.Levels++
	failed := &FailedError{Of: len(tasks), Left: len(tasks) - len(results)}
	entries := make([]entry, len(tasks))
	for i, r := range results {
		name := places[i].parts() + " (" + places[i].lines() + ")"
		text := strings.TrimSpace(r.Output)
		if r.Success && text == "" {
			r.End(task.Empty, "the model said nothing")
		}
		if !r.Success {
			failed.What, failed.Failed = append(failed.What, name), append(failed.Failed, r)
			continue
		}
		if r.Truncated {
			out.Warnings = append(out.Warnings, name+": the summary was too long and was cut")
		}
		for _, w := range r.Warnings {
			out.Warnings = append(out.Warnings, name+": "+w)
		}
		entries[i] = p.entry(places[i], text)
	}
	if len(failed.What) > 0 {
		return nil, failed
	}
	return entries, nil
}

// entry returns the entry for a summary, with its number of tokens.
func (p *Plan) entry(at place, text string) entry {
	e := entry{place: at, text: text}
	e.tokens = p.job.Tokens(join([]entry{e}))
	return e
}

// fitting returns entries in which each fits into one call of the summarizer. A longer
// summary is cut into several entries.
func (p *Plan) fitting(entries []entry) []entry {
	var out []entry
	for _, e := range entries {
		if e.tokens <= p.room {
			out = append(out, e)
			continue
		}
		empty := p.entry(e.place, "")
		for _, part := range Cut(e.text, p.room-empty.tokens-1, p.job.Tokens) {
			out = append(out, p.entry(e.place, part.Text))
		}
	}
	return out
}

// join writes summaries one after another, each under its heading.
func join(entries []entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.heading())
		b.WriteString(strings.TrimSpace(e.text))
		b.WriteString("\n\n")
	}
	return b.String()
}

// span returns the place that covers all of the adjacent entries.
func span(entries []entry) place {
	at, last := entries[0].place, entries[len(entries)-1].place
	if at.to == last.to {
		return at
	}
	at.to, at.last = last.to, last.last
	at.title = wider(at.title, last.title)
	return at
}

// wider returns the title of the range from the section with title a to that with title b.
func wider(a, b string) string {
	const to = " … "
	from, _, _ := strings.Cut(a, to)
	end := b
	if at := strings.LastIndex(b, to); at >= 0 {
		end = b[at+len(to):]
	}
	switch {
	case from == "":
		return b
	case end == "" || end == from:
		return from
	}
	return task.Shorten(from+to+end, maxTitle)
}
