package top

import (
	"qq/internal/app/steering"
	"qq/internal/control"
)

// remote is a run that is reached by its socket, of which it is the path. Each request has a connection of its own.
type remote string

var _ steering.Run = remote("")

func (r remote) do(request func(*control.Client) error) error {
	c, err := control.Dial(string(r))
	if err != nil {
		return err
	}
	defer c.Close()
	return request(c)
}

// Snapshot implements steering.Run.
func (r remote) Snapshot() (snap control.Snapshot, err error) {
	err = r.do(func(c *control.Client) (err error) {
		snap, err = c.Snapshot()
		return err
	})
	return snap, err
}

// Log implements steering.Run.
func (r remote) Log(id string, from int64) (entries control.Entries, err error) {
	err = r.do(func(c *control.Client) (err error) {
		entries, err = c.Log(id, from)
		return err
	})
	return entries, err
}

// Cancel implements steering.Run.
func (r remote) Cancel(id string) error {
	return r.do(func(c *control.Client) error { return c.Cancel(id) })
}

// Message implements steering.Run.
func (r remote) Message(id, text string) error {
	return r.do(func(c *control.Client) error { return c.Message(id, text) })
}

// Pause implements steering.Run.
func (r remote) Pause(paused bool) error {
	return r.do(func(c *control.Client) error { return c.Pause(paused) })
}
