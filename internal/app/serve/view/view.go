// Package view makes of runs what the pages show of them.
//
// Flow: a [Hub] looks for sockets, and follows each root with a subscription that says when something has happened and
// how the root ends. A [Store] reads what is recorded, and joins it with what the roots say: that is a [Run]. A [View]
// makes the parts of pages of it.
//
// Promises: what is shown of a root is a snapshot of it, and nothing is folded here. A viewer that reads slowly gets
// fewer snapshots, never a queue of them. A root gets at most four requests for one in a second, and none while nobody
// looks. The hub is there for questions only while a page is open, and some seconds longer: an idle server changes no
// run.
package view

import "time"

// View makes parts of pages.
type View struct {
	Root  string    // the path with which all others begin
	Now   time.Time // what is live lasts until then
	Store *Store
}

// RunURL is the path of the page of a run.
func (v View) RunURL(id string) string { return v.Root + "run/" + id }

// JobURL is the path of the page of a job.
func (v View) JobURL(id string) string { return v.Root + "job/" + id }
