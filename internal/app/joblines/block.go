package joblines

import (
	"fmt"
	"strings"
	"time"

	"qq/internal/control/board"
	"qq/pkg/task"
)

// View says how a block of lines is to look.
type View struct {
	Now    time.Time
	Width  int    // columns
	Most   int    // lines
	Chosen string // id of the job whose line is marked; empty for none
}

// Line is one line of a block.
type Line struct {
	ID   string // of the job
	Live bool
	Text string
}

// Block is what the terminal of a run shows of the jobs that its agent, or its batch, has started.
type Block struct {
	Lines []Line
	Count Count
}

// Count counts jobs. Queued ones have no line.
type Count struct {
	AtWork, Queued int
	Hidden         int  // of those at work, the ones that have no line for want of room
	Ended, Failed  int  // of the ended ones that are known
	Cancelled      int  // of those, no failures
	More           bool // there were more of them
}

// String returns the counts for a status line: "3 at work, 2 queued, 5 ended (1 failed, 1 cancelled)".
func (c Count) String() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(c.AtWork, "at work")
	if c.Hidden > 0 {
		parts[0] += fmt.Sprintf(" (%d not shown)", c.Hidden)
	}
	add(c.Queued, "queued")
	if c.More && c.Ended > 0 {
		parts = append(parts, fmt.Sprintf("more than %d ended", c.Ended))
	} else {
		add(c.Ended, "ended")
	}
	var badly []string
	if c.Failed > 0 {
		badly = append(badly, fmt.Sprintf("%d failed", c.Failed))
	}
	if c.Cancelled > 0 {
		badly = append(badly, fmt.Sprintf("%d cancelled", c.Cancelled))
	}
	if n := len(parts) - 1; len(badly) > 0 && n >= 0 {
		parts[n] += " (" + strings.Join(badly, ", ") + ")"
	}
	return strings.Join(parts, ", ")
}

// InBatch returns the counts with what a batch knows of its tasks: the list of a root holds only the queued ones that
// come next, and the jobs that ended last.
func (c Count) InBatch(b *board.Batch, list []board.Job) Count {
	if b == nil {
		return c
	}
	c.Ended, c.Failed, c.Cancelled = 0, 0, 0 // the batch says how far it is
	if b.Total > 0 {
		queued, working := inBatch(list, b)
		c.Queued += max(b.Total-b.Done-working, 0) - queued
	}
	return c
}

// inBatch counts the tasks of a batch in list.
func inBatch(list []board.Job, b *board.Batch) (queued, working int) {
	for _, j := range list {
		switch {
		case j.ParentExecutionID != "" || j.BatchID != b.ID:
		case j.State == task.Queued:
			queued++
		default:
			working++
		}
	}
	return queued, working
}

// keep is how many ended jobs keep a line, of each agent that has started some. The others are counted.
const keep = 3

// maxEnded is how many ended jobs a root tells of at most.
const maxEnded = 64

// Of returns the block of the jobs of a run. list has parents first. A job is below the one that has started it, and
// the jobs of one parent stay together.
func Of(list []board.Job, past []board.Ended, v View) Block {
	t := grow(list, past)
	var b Block
	b.Count.More = len(past) >= maxEnded
	var rows []*Node
	walk(t.top, nil, func(n *Node) { rows = append(rows, n) }, &b.Count)
	shown := choose(rows, v)
	for _, n := range rows {
		if n.Job == nil {
			b.Count.end(n.Past)
		}
		if !shown[n] {
			if n.Job != nil {
				b.Count.Hidden++
			}
			continue
		}
		l := n.line(v.Now)
		mark := "  "
		if n.ID() == v.Chosen {
			mark = "› "
		}
		if v.Chosen == "" {
			mark = ""
		}
		b.Lines = append(b.Lines, Line{n.ID(), n.Job != nil, mark + l.fit(v.Width-len([]rune(mark)))})
	}
	return b
}

func (c *Count) end(e *board.Ended) {
	c.Ended++
	switch e.Status {
	case task.Completed:
	case task.Cancelled, task.Interrupted, task.Terminated:
		c.Cancelled++
	default:
		c.Failed++
	}
}

// choose returns which rows are shown if there is not room for all: the chosen one, then live jobs, and of them those
// around the chosen one, then the jobs that ended last.
func choose(rows []*Node, v View) map[*Node]bool {
	shown := map[*Node]bool{}
	room, liveJobs, at := max(v.Most, 0), 0, 0
	for _, n := range rows {
		if n.Job != nil {
			if n.ID() == v.Chosen {
				at = liveJobs
			}
			liveJobs++
		} else if n.ID() == v.Chosen && room > 0 {
			shown[n] = true
			room--
		}
	}
	first := max(min(at-room/2, liveJobs-room), 0)
	i := 0
	for _, n := range rows {
		if n.Job == nil {
			continue
		}
		if i >= first && room > 0 {
			shown[n] = true
			room--
		}
		i++
	}
	for i := len(rows) - 1; i >= 0 && room > 0; i-- {
		if rows[i].Job == nil && !shown[rows[i]] {
			shown[rows[i]] = true
			room--
		}
	}
	return shown
}
