package supervisor

import (
	"fmt"

	"qq/pkg/task"
)

// Spill keeps results outside of memory while they wait for slower ones.
type Spill interface {
	// Put stores r and returns a key for it.
	Put(r task.Result) (key int64, err error)
	// Take returns the result stored under key, once.
	Take(key int64) (task.Result, error)
}

// spillAbove is how many bytes of waiting results are kept in memory. What
// comes after that goes to the spill file, so that one slow task at the head of a
// long batch costs no memory.
const spillAbove = 1 << 20

// ordered puts results back into input order.
type ordered struct {
	spill   Spill
	due     int // index of the next result to deliver
	waiting map[int]entry
	kept    int // bytes of the results in waiting
}

// entry is a result in memory, or the key of one in the spill file.
type entry struct {
	result *task.Result
	key    int64
}

// size is about how much memory r holds.
func size(r *task.Result) int {
	n := 500 + len(r.Output) + len(r.Err()) + len(r.Structured)
	for _, w := range r.Warnings {
		n += len(w)
	}
	return n
}

// put files r under its index. A full disk is no reason to lose it: then it
// stays in memory.
func (o *ordered) put(r task.Result) {
	if o.waiting == nil {
		o.waiting = map[int]entry{}
	}
	if o.spill != nil && r.Index != o.due && o.kept+size(&r) > spillAbove {
		if key, err := o.spill.Put(r); err == nil {
			o.waiting[r.Index] = entry{key: key}
			return
		}
	}
	o.kept += size(&r)
	o.waiting[r.Index] = entry{result: &r}
}

// next returns the result that is due, when it is there.
func (o *ordered) next() (r task.Result, ok bool, err error) {
	e, ok := o.waiting[o.due]
	if !ok {
		return r, false, nil
	}
	delete(o.waiting, o.due)
	o.due++
	if e.result != nil {
		o.kept -= size(e.result)
		return *e.result, true, nil
	}
	if r, err = o.spill.Take(e.key); err != nil {
		return r, false, fmt.Errorf("read the spilled result of task %d: %w", o.due, err)
	}
	return r, true, nil
}
