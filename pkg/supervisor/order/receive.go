package order

import "qq/pkg/task"

// Receiver receives the results of a batch: see the Results of package supervisor.
type Receiver interface {
	Deliver(r task.Result) error
	Done(r task.Result)
}

// Gathered collects the results that are delivered to it.
type Gathered struct{ List []task.Result }

// Deliver adds a result.
func (g *Gathered) Deliver(r task.Result) error {
	g.List = append(g.List, r)
	return nil
}

// Done does nothing.
func (g *Gathered) Done(task.Result) {}

// Counting passes the results of a batch on and counts them.
type Counting struct {
	Results     Receiver
	All, Failed int
}

// Deliver counts a result and passes it on.
func (c *Counting) Deliver(r task.Result) error {
	if c.All++; !r.Success {
		c.Failed++
	}
	return c.Results.Deliver(r)
}

// Done passes the result on.
func (c *Counting) Done(r task.Result) { c.Results.Done(r) }
