// Package order puts the results of a batch back into input order. Tasks end in any order;
// [Results] keeps each result until all results before it were taken, in memory up to a
// limit and in a [Spill] above it.
package order

import (
	"fmt"

	"qq/pkg/task"
)

// Spill stores finished results outside of memory until the results of all earlier tasks have been
// delivered.
type Spill interface {
	// Put stores r and returns a key for it.
	Put(r task.Result) (key int64, err error)
	// Take returns the result stored under key, once.
	Take(key int64) (task.Result, error)
}

// spillAbove is how many bytes of waiting results are kept in memory. Further results go to the
// Spill. Without that, one slow task at the beginning of a long batch would keep all later results
// in memory.
const spillAbove = 1 << 20

// Results puts results back into input order. The zero value is ready for use and keeps all results
// in memory. Only one goroutine may use it at a time.
type Results struct {
	Spill   Spill // nil keeps all results in memory
	due     int   // index of the next result to deliver
	waiting map[int]entry
	kept    int // bytes of the waiting results in memory
}

// entry is a waiting result. If result is nil, the Spill holds it under key.
type entry struct {
	result *task.Result
	key    int64
}

// size returns about how many bytes of memory r takes.
func size(r *task.Result) int {
	n := 500 + len(r.Output) + len(r.Err()) + len(r.Structured)
	for _, w := range r.Warnings {
		n += len(w)
	}
	return n
}

// Put stores r under its index. If the Spill fails, because a disk is full for example, r stays in
// memory.
func (o *Results) Put(r task.Result) {
	if o.waiting == nil {
		o.waiting = map[int]entry{}
	}
	if o.Spill != nil && r.Index != o.due && o.kept+size(&r) > spillAbove {
		if key, err := o.Spill.Put(r); err == nil {
			o.waiting[r.Index] = entry{key: key}
			return
		}
	}
	o.kept += size(&r)
	o.waiting[r.Index] = entry{result: &r}
}

// Next removes and returns the next result in input order. ok is false if that result is not there
// yet, or if the Spill could not return it, which is an error.
func (o *Results) Next() (r task.Result, ok bool, err error) {
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
	if r, err = o.Spill.Take(e.key); err != nil {
		return r, false, fmt.Errorf("read the spilled result of task %d: %w", o.due, err)
	}
	return r, true, nil
}
