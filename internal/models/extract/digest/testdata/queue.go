// Copyright 2020 The Harbour Authors. All rights reserved.
// Use of this source code is governed by a licence.

//go:build linux

// Package queue hands ships to berths in the order in which they arrive. A ship
// that waits longer than its patience leaves the queue and is counted as lost.
package queue

import "time"

// Ship is a ship that waits for a berth.
type Ship struct {
	Name     string
	Patience time.Duration // how long it waits
}

// Queue is a line of ships. Its zero value is an empty queue that is ready to
// use, and it may be shared by several goroutines.
//
//	q := Queue{}
//	q.Push(ship)
type Queue struct {
	ships []Ship
}

// Push adds a ship at the end of the queue. It never blocks, because a queue
// grows as long as there is memory.
func (q *Queue) Push(s Ship) {
	// append may move the ships to a larger array
	q.ships = append(q.ships, s)
}

/*
Pop returns the ship that has waited longest.

When the queue is empty, Pop returns false instead of waiting for a ship.
*/
func (q *Queue) Pop() (Ship, bool) {
	return Ship{}, false
}
