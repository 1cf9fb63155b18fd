package joblines

import (
	"fmt"
	"strings"
	"time"

	"qq/internal/app/columns"
	"qq/internal/app/output"
	"qq/internal/control/board"
	"qq/pkg/task"
)

// Node is a job with those that it has started. Either Job or Past is set.
type Node struct {
	Job   *board.Job
	Past  *board.Ended // a job that has ended
	Below []*Node
	Depth int // below the agent of the root, or below the batch
}

// ID returns the id of the job.
func (n *Node) ID() string {
	if n.Job != nil {
		return n.Job.ExecutionID
	}
	return n.Past.ExecutionID
}

// line returns the line of the job.
func (n *Node) line(now time.Time) line {
	if n.Job != nil {
		return live(n.Job, n.Depth, now)
	}
	return ended(n.Past, n.Depth)
}

// tree has the jobs of a run.
type tree struct {
	root *board.Job // the agent of the root; nil if it runs a batch
	top  []*Node    // what that has started, or the tasks of the batch
}

// grow makes the tree of live jobs, of which parents come first, and of ended ones. Those that an ended job had started
// are part of that one.
func grow(list []board.Job, past []board.Ended) tree {
	var t tree
	nodes := map[string]*Node{}
	for i := range list {
		j := &list[i]
		if j.ParentExecutionID == "" && j.BatchID == "" {
			t.root = j
			continue
		}
		nodes[j.ExecutionID] = &Node{Job: j}
	}
	isTop := func(parent string) bool { return parent == "" || t.root != nil && parent == t.root.ExecutionID }
	put := func(n *Node, parent string) {
		if above := nodes[parent]; above != nil && above != n {
			above.Below = append(above.Below, n)
		} else if isTop(parent) || n.Job != nil {
			t.top = append(t.top, n)
		}
	}
	for i := range past {
		e := &past[i]
		if e.ParentExecutionID+e.BatchID == "" || nodes[e.ExecutionID] != nil { // it is tried again
			continue
		}
		put(&Node{Past: e}, e.ParentExecutionID)
	}
	for i := range list {
		if n := nodes[list[i].ExecutionID]; n != nil {
			put(n, list[i].ParentExecutionID)
		}
	}
	deepen(t.top, 0)
	return t
}

// deepen sets the depths of nodes.
func deepen(nodes []*Node, depth int) {
	for _, n := range nodes {
		n.Depth = depth
		deepen(n.Below, depth+1)
	}
}

// walk calls visit with each job that has a line, in the order of the lines, and counts. Below those that are closed
// nothing has a line.
func walk(nodes []*Node, closed map[string]bool, visit func(*Node), c *Count) {
	over := -keep // ended jobs without a line
	for _, n := range nodes {
		if n.Past != nil {
			over++
		}
	}
	for _, n := range nodes {
		switch {
		case n.Past != nil && over > 0:
			over--
			c.end(n.Past)
			continue
		case n.Past != nil:
		case n.Job.State == task.Queued:
			c.Queued++
			continue
		default:
			c.AtWork++
		}
		if visit(n); closed[n.ID()] {
			walk(n.Below, closed, func(*Node) {}, c)
		} else {
			walk(n.Below, closed, visit, c)
		}
	}
}

// Tree returns a line for each job of a run that is at work, and for those that ended last, and counts the others. The
// lines fill the width: times and tokens are below each other. Below jobs that are closed there are none.
func Tree(list []board.Job, past []board.Ended, closed map[string]bool, now time.Time, width int) ([]Line, Count) {
	var lines []Line
	var c Count
	c.More = len(past) >= maxEnded
	walk(grow(list, past).top, closed, func(n *Node) {
		l := n.line(now)
		l.indent = n.Depth + 1
		if l.mark = "  " + l.mark; len(n.Below) > 0 {
			l.mark = Arrow(closed[n.ID()]) + l.mark[1:]
		}
		lines = append(lines, Line{n.ID(), n.Job != nil, l.table(width)})
	}, &c)
	return lines, c
}

// Arrow says whether what is below a line is shown.
func Arrow(closed bool) string {
	if closed {
		return "▸"
	}
	return "▾"
}

// Head returns the line of a run: what its own agent does, or how far its batch is. about says more if there is room.
func Head(closed bool, name, does, about string, took time.Duration, used task.Usage, width int) string {
	l := line{mark: Arrow(closed), name: row(name), does: row(does), about: row(about), whole: true,
		time: output.Clock(took), tokens: output.BriefTokens(used)}
	return l.table(width)
}

// Columns of a table, and how wide a terminal must be for both.
const (
	timeColumns   = 9
	tokenColumns  = 8
	wideForTime   = 30
	wideForTokens = 50
)

// table returns the line with the time and the tokens in columns at its end.
func (l line) table(width int) string {
	end := ""
	if width >= wideForTime {
		end = fmt.Sprintf("%*s", timeColumns, l.time)
	}
	if width >= wideForTokens {
		end += fmt.Sprintf("%*s", tokenColumns, l.tokens)
	}
	l.time, l.tokens = "", ""
	text := l.fit(width - columns.Of(end))
	if end == "" {
		return text
	}
	return text + strings.Repeat(" ", max(width-columns.Of(text+end), 0)) + end
}
