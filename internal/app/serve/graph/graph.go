// Package graph lays out tasks that wait for each other: in columns, each task to the right of those that it waits for.
// It writes no SVG: that is a template of package page.
package graph

import (
	"cmp"
	"fmt"
	"slices"
)

// Task is one task of a graph.
type Task struct {
	ID    string
	Label string
	Class string // of its state
	Word  string // its state
	Link  string // may be empty
	After []After
}

// After is a task that another one waits for.
type After struct {
	ID     string
	Reason string
}

// Node is a task with its place.
type Node struct {
	Task
	X, Y float64 // of its left upper corner
}

// Edge is a line between two tasks.
type Edge struct {
	Path  string
	Chain bool // it is a part of the longest chain
	Title string
}

// Drawing is what is drawn.
type Drawing struct {
	Width, Height float64
	Nodes         []Node
	Edges         []Edge
	Left          int // tasks that have no room
}

// Sizes of nodes.
const (
	NodeWidth  = 250.0
	NodeHeight = 34.0
	gapX       = 60.0
	gapY       = 12.0
	most       = 300 // tasks
)

// Layout lays out tasks. chain are the ids of the longest chain, in order.
func Layout(tasks []Task, chain []string) Drawing {
	var d Drawing
	if len(tasks) > most {
		d.Left = len(tasks) - most
		tasks = tasks[:most]
	}
	index := make(map[string]int, len(tasks))
	for i, t := range tasks {
		index[t.ID] = i
	}
	column := columns(tasks, index)
	order := place(tasks, index, column)
	d.Nodes = make([]Node, len(tasks))
	for x, list := range order {
		for y, i := range list {
			n := Node{tasks[i], 10 + float64(x)*(NodeWidth+gapX), 10 + float64(y)*(NodeHeight+gapY)}
			d.Nodes[i] = n
			d.Width, d.Height = max(d.Width, n.X+NodeWidth+10), max(d.Height, n.Y+NodeHeight+10)
		}
	}
	links := map[[2]string]bool{}
	for i := 1; i < len(chain); i++ {
		links[[2]string{chain[i-1], chain[i]}] = true
	}
	for i, t := range tasks {
		for _, a := range t.After {
			from, ok := index[a.ID]
			if !ok || from == i {
				continue
			}
			d.Edges = append(d.Edges, Edge{
				Path: curve(d.Nodes[from], d.Nodes[i]), Chain: links[[2]string{a.ID, t.ID}],
				Title: fmt.Sprintf("%s after %s: %s", t.Label, tasks[from].Label, a.Reason),
			})
		}
	}
	// The longest chain is drawn over the others.
	slices.SortStableFunc(d.Edges, func(a, b Edge) int { return cmp.Compare(rank(a.Chain), rank(b.Chain)) })
	return d
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

// columns returns the column of each task: one more than the largest of those that it waits for. Tasks that wait for
// each other in a circle, which no plan has, end at some column.
func columns(tasks []Task, index map[string]int) []int {
	column := make([]int, len(tasks))
	for round, changed := 0, true; changed && round < len(tasks); round++ {
		changed = false
		for i, t := range tasks {
			for _, a := range t.After {
				if from, ok := index[a.ID]; ok && from != i && column[i] <= column[from] &&
					column[from]+1 < len(tasks) {
					column[i], changed = column[from]+1, true
				}
			}
		}
	}
	return column
}

// place returns the tasks of each column, from top to bottom: each near those that it waits for.
func place(tasks []Task, index map[string]int, column []int) [][]int {
	wide := 0
	for _, c := range column {
		wide = max(wide, c+1)
	}
	order := make([][]int, wide)
	for i, c := range column {
		order[c] = append(order[c], i)
	}
	row := make([]float64, len(tasks))
	for x, list := range order {
		near := map[int]float64{}
		for n, i := range list {
			sum, count := 0.0, 0
			for _, a := range tasks[i].After {
				if from, ok := index[a.ID]; ok && column[from] < x {
					sum, count = sum+row[from], count+1
				}
			}
			near[i] = float64(n)
			if count > 0 {
				near[i] = sum / float64(count)
			}
		}
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(near[a], near[b]) })
		for y, i := range list {
			row[i] = float64(y)
		}
	}
	return order
}

func curve(from, to Node) string {
	x1, y1, x2, y2 := from.X+NodeWidth, from.Y+NodeHeight/2, to.X, to.Y+NodeHeight/2
	half := (x1 + x2) / 2
	return fmt.Sprintf("M%g %gC%g %g %g %g %g %g", x1, y1, half, y1, half, y2, x2, y2)
}
