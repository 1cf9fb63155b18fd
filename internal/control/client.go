package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"qq/internal/approval"
	"qq/pkg/event"
)

// replyTime is how long a client waits for a reply.
const replyTime = 2 * time.Second

// ErrNoRoot says that nobody listens on a socket: its root is gone, or it never opened one.
var ErrNoRoot = errors.New("no root listens there")

// ErrSilent says that a root did not reply in time.
var ErrSilent = errors.New("the root does not reply")

// ErrDropped says that the connection of a subscriber ended before the root did: the client was too
// slow, or the root was killed.
var ErrDropped = errors.New("the connection was lost")

// Client is a connection to the socket of a root. Only one goroutine may use it at a time.
type Client struct {
	root   Root
	conn   *net.UnixConn
	frames *bufio.Reader
	last   int           // id of the last request
	early  []event.Event // events that came before a reply
}

// Dial connects to the socket at path. The error is [ErrNoRoot] or [ErrSilent] if the root is gone
// or stopped, and a [Fault] if it does not take this client.
func Dial(path string) (*Client, error) {
	var conn *net.UnixConn
	err := withName(path, func(name string) (err error) {
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
		return err
	})
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoRoot
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, bare(err))
	}
	c := &Client{conn: conn, frames: bufio.NewReader(conn)}
	f, err := c.next(time.Now().Add(replyTime))
	if err == nil && f.Type != TypeHello {
		err = fmt.Errorf("%s: a root says hello first, not %q", path, f.Type)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.root = *f.Hello
	return c, nil
}

// Root says which root the client is connected to.
func (c *Client) Root() Root { return c.root }

// Close ends the connection.
func (c *Client) Close() { c.conn.Close() }

// Snapshot returns the jobs of the root.
func (c *Client) Snapshot() (Snapshot, error) { return c.show(Request{Type: TypeSnapshot}) }

// Subscribe returns the jobs of the root. From then on, [Client.Next] returns its events.
func (c *Client) Subscribe(s Subscribe) (Snapshot, error) {
	return c.show(Request{Type: TypeSubscribe, Subscribe: &s})
}

// Log returns a part of the transcript of a job: see [Log].
func (c *Client) Log(executionID string, from int64) (Entries, error) {
	f, err := c.ask(Request{Type: TypeLog, Log: &Log{executionID, from}})
	if err != nil || f.Log == nil {
		return Entries{Next: from}, err
	}
	return *f.Log, nil
}

// Answer answers a question. The error is a [Fault] with [CodeAnswered] if that comes too late.
func (c *Client) Answer(questionID string, a approval.Answer) error {
	return c.steer(Request{Type: TypeAnswer, Answer: &Answer{questionID, a}})
}

// Message gives the agent of a job a text, which it reads before its next request to the model.
func (c *Client) Message(executionID, text string) error {
	return c.steer(Request{Type: TypeMessage, Message: &Message{executionID, text}})
}

// Jobs changes how many jobs may be at work at once.
func (c *Client) Jobs(most int) error { return c.steer(Request{Type: TypeJobs, Jobs: &Jobs{most}}) }

// Pause says whether further jobs may start.
func (c *Client) Pause(paused bool) error {
	if paused {
		return c.steer(Request{Type: TypePause})
	}
	return c.steer(Request{Type: TypeResume})
}

// Cancel ends the job with that execution id and all that it has started, or the whole run: see
// [Cancel]. It does not wait for the end. A root that ends at once has done as it was told.
func (c *Client) Cancel(id string) error {
	err := c.steer(Request{Type: TypeCancel, Cancel: &Cancel{ExecutionID: id}})
	if errors.Is(err, ErrNoRoot) {
		return nil
	}
	return err
}

// Next returns the next event. When the root has ended the error is io.EOF, and when events were lost
// it is [ErrDropped].
func (c *Client) Next() (event.Event, error) {
	if len(c.early) > 0 {
		e := c.early[0]
		c.early = c.early[1:]
		return e, nil
	}
	for {
		f, err := c.next(time.Time{})
		switch {
		case errors.Is(err, ErrNoRoot):
			return event.Event{}, ErrDropped
		case err != nil:
			return event.Event{}, err
		case f.Type == TypeEnd:
			return event.Event{}, io.EOF
		case f.Type == TypeEvent:
			return *f.Event, nil
		}
	}
}

// show asks for a snapshot.
func (c *Client) show(r Request) (Snapshot, error) {
	f, err := c.ask(r)
	if err != nil || f.Snapshot == nil {
		return Snapshot{}, err
	}
	return *f.Snapshot, nil
}

// steer asks for something that has no reply but that it is done.
func (c *Client) steer(r Request) error {
	_, err := c.ask(r)
	return err
}

// ask sends a request and waits for the reply.
func (c *Client) ask(r Request) (Frame, error) {
	c.last++
	r.V, r.ID = Version, fmt.Sprint(c.last)
	line, err := encode(r)
	if err != nil {
		return Frame{}, err
	}
	deadline := time.Now().Add(replyTime)
	_ = c.conn.SetWriteDeadline(deadline) // a write error follows
	if _, err := c.conn.Write(line); err != nil {
		return Frame{}, broken(err)
	}
	for {
		f, err := c.next(deadline)
		switch {
		case err != nil:
			return Frame{}, err
		case f.Type == TypeEvent:
			c.early = append(c.early, *f.Event)
		case f.ID == r.ID: // else of a later version
			return f, nil
		}
	}
}

// next returns the next frame. An error frame is returned as an error.
func (c *Client) next(deadline time.Time) (Frame, error) {
	_ = c.conn.SetReadDeadline(deadline) // a read error follows
	f, err := receive(c.frames)
	if err == nil && f.Type == TypeError {
		err = f.Error
	}
	return f, broken(err)
}

// broken returns err, or what it means if the connection is broken.
func broken(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrSilent
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ErrNoRoot
	}
	return err
}

// Standing is what a root says about itself.
type Standing struct {
	ID   string // of the root, from the name of its socket
	Path string // of its socket
	Err  error  // why it did not reply: see [Dial]
	Snapshot
}

// Sockets returns the roots that have a socket in the folder home, without asking them.
func Sockets(home string) []Standing {
	run := filepath.Join(home, "run")
	names, _ := fs.Glob(os.DirFS(run), "*/*"+suffix) // a folder that cannot be read has none for this user
	found := make([]Standing, len(names))
	for i, name := range names {
		found[i].ID, found[i].Path = strings.TrimSuffix(path.Base(name), suffix), filepath.Join(run, name)
	}
	return found
}

// Look asks all roots that have a socket in the folder home, at once. A root that was killed may have
// left its socket.
func Look(home string) []Standing {
	found := Sockets(home)
	var asking sync.WaitGroup
	for i := range found {
		s := &found[i]
		asking.Go(func() {
			c, err := Dial(s.Path)
			if s.Err = err; err == nil {
				s.Snapshot, s.Err = c.Snapshot()
				c.Close()
			}
		})
	}
	asking.Wait()
	return found
}
