package limits_test

import (
	"context"
	"fmt"
	"time"

	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// A paused clock uses no time.
func ExampleClock() {
	up := make(chan struct{})
	clock := limits.NewClock(20*time.Millisecond, func() { close(up) })
	clock.Resume() // it was made paused

	clock.Pause()
	before, _ := clock.Left()
	<-time.After(30 * time.Millisecond)
	after, bounded := clock.Left()
	fmt.Println(clock.Paused(), before == after, bounded)

	clock.Resume()
	<-up
	fmt.Println("the time is used up")
	// Output:
	// true true true
	// the time is used up
}

// A parent that waits for its child lends it the only slot.
func ExampleLoan() {
	ctx := context.Background()
	slots := limits.NewSlots(1)
	fmt.Println("the parent has a slot:", slots.Try())
	loan := limits.HeldSlot(slots)
	fmt.Println("the child has a slot:", slots.Try())

	loan.Lend()
	fmt.Println("the child has a slot:", slots.Try())
	slots.Release() // by the child, at its end
	fmt.Println("the parent continues:", loan.Resume(ctx, 1) == nil)

	loan.End()
	free, waiting := slots.Free()
	fmt.Println(free, "is free,", waiting, "wait")
	// Output:
	// the parent has a slot: true
	// the child has a slot: false
	// the child has a slot: true
	// the parent continues: true
	// 1 is free, 0 wait
}

// The deeper task comes first, so that a tree finishes what it has begun.
func ExampleSlots_Join() {
	ctx := context.Background()
	slots := limits.NewSlots(1)
	slots.Try()
	shallow, deep := slots.Join(false, 1), slots.Join(false, 2)

	slots.Release()
	fmt.Println("the deep one has it:", slots.Await(ctx, deep) == nil)
	slots.Release()
	fmt.Println("the other has it:", slots.Await(ctx, shallow) == nil)
	// Output:
	// the deep one has it: true
	// the other has it: true
}

func ExampleBudget() {
	budget := limits.NewBudget(task.Limits{MaxChildren: 1})
	fmt.Printf("%q\n", budget.Take(time.Now()))
	fmt.Printf("%q\n", budget.Take(time.Now()))
	// Output:
	// ""
	// "Maximum 1 sub-agents exceeded"
}
