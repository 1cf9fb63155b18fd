package plan

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qq/pkg/spelling"
	"qq/pkg/task"
)

// resolve finds the tasks with the ids of needs.
func (p *Plan) resolve() error {
	ids := make(map[string]int32)
	for i, t := range p.tasks {
		if t.ID == "" {
			continue
		}
		if first, ok := ids[t.ID]; ok {
			return task.Wrong(i, "give each task of a batch an id of its own", "id %q is given twice: tasks %d and %d",
				task.Shorten(t.ID, 40), first+1, i+1)
		}
		ids[t.ID] = int32(i)
		if _, err := strconv.Atoi(t.ID); err == nil {
			p.numeric = true
		}
	}
	p.needs = make([][]int32, len(p.tasks))
	by := make([]int32, len(p.tasks)) // the last task that needs each, from 1
	for i, t := range p.tasks {
		for _, id := range t.Needs {
			on, ok := ids[id]
			if !ok {
				return p.unknown(i, id)
			}
			if by[on] != int32(i)+1 {
				by[on] = int32(i) + 1
				p.needs[i] = append(p.needs[i], on)
			}
		}
	}
	return nil
}

// unknown returns the error for an id in the needs of the task i that no task has.
func (p *Plan) unknown(i int, id string) error {
	var known []string
	for _, t := range p.tasks {
		if t.ID != "" {
			known = append(known, t.ID)
		}
	}
	hint := spelling.DidYouMean(spelling.Nearest(id, known)) + "needs takes ids of tasks of the same batch"
	if strings.ContainsAny(id, " \t") {
		hint += `; several are a list, or one text with commas: "a, b"`
	}
	return task.Wrong(i, hint, "%s needs %q, and no task has that id", p.name(i), task.Shorten(id, 40))
}

// name returns what the task at index i is called in texts.
func (p *Plan) name(i int) string {
	if id := p.tasks[i].ID; id != "" {
		return task.Shorten(id, 40)
	}
	return fmt.Sprintf("task %d", i+1)
}

// sort puts the tasks in order: each behind those that it needs, by phase, and else as they are given.
func (p *Plan) sort(phases bool) error {
	n := len(p.tasks)
	p.order, p.position = make([]int32, 0, n), make([]int32, n)
	needed, left := reversed(p.needs), make([]int, n)
	phase := make([]bool, n) // is it in the second one
	var ready least
	add := func(i int32) {
		key := int(i)
		if phases {
			phase[i] = phase[i] || p.tasks[i].Role != Gathers
		}
		if phase[i] {
			key += n
		}
		heap.Push(&ready, key)
	}
	for i := range p.tasks {
		if left[i] = len(p.needs[i]); left[i] == 0 {
			add(int32(i))
		}
	}
	for len(ready) > 0 {
		i := int32(heap.Pop(&ready).(int) % n)
		p.position[i] = int32(len(p.order))
		p.order = append(p.order, i)
		for _, next := range needed[i] {
			phase[next] = phase[next] || phase[i]
			if left[next]--; left[next] == 0 {
				add(next)
			}
		}
	}
	if len(p.order) < n {
		return p.cycle(left)
	}
	if phases && slices.Contains(phase, false) {
		p.second = phase
	}
	return nil
}

// maxNames is how many tasks a text names at most.
const maxNames = 12

// cycle returns the error for tasks that need each other. left is above 0 for each task that could not be sorted.
func (p *Plan) cycle(left []int) error {
	at := int32(slices.IndexFunc(left, func(n int) bool { return n > 0 }))
	seen := map[int32]int{}
	var walk []int32
	for {
		if first, ok := seen[at]; ok {
			walk = walk[first:]
			break
		}
		seen[at] = len(walk)
		walk = append(walk, at)
		at = p.needs[at][slices.IndexFunc(p.needs[at], func(on int32) bool { return left[on] > 0 })]
	}
	first := slices.Index(walk, slices.Min(walk))
	walk = slices.Concat(walk[first:], walk[:first+1])
	var names []string
	for k, i := range walk {
		switch {
		case k < maxNames-2 || k == len(walk)-1:
			names = append(names, p.name(int(i)))
		case k == maxNames-2:
			names = append(names, "…")
		}
	}
	return task.Wrong(int(walk[0]), "a task can only need tasks that do not need it: take one of these needs out",
		"tasks wait for each other: needs: %s", strings.Join(names, " -> "))
}

// reversed returns for each task those in whose list it is.
func reversed(lists [][]int32) [][]int32 {
	back := make([][]int32, len(lists))
	for i, list := range lists {
		for _, on := range list {
			back[on] = append(back[on], int32(i))
		}
	}
	return back
}

// least is a heap with the least number on top.
type least []int

func (h least) Len() int           { return len(h) }
func (h least) Less(i, j int) bool { return h[i] < h[j] }
func (h least) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *least) Push(x any)        { *h = append(*h, x.(int)) }
func (h *least) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
