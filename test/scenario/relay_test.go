package scenario

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flowingAfter is more than a server says before it begins a long answer.
const flowingAfter = 100_000

// relay stands between qq and its server and passes every byte on. It knows
// when an answer is under way, whatever qq prints meanwhile; a connection that
// ends on one side ends on the other.
type relay struct {
	addr    string
	flowing chan struct{} // closed when an answer is under way
	close   func()

	listener net.Listener
	to       string
	began    func()

	mu     sync.Mutex
	open   map[net.Conn]bool // nil when closed
	copies sync.WaitGroup
}

// newRelay listens until the test ends.
func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{addr: l.Addr().String(), listener: l, to: to, flowing: make(chan struct{}), open: map[net.Conn]bool{}}
	r.began = sync.OnceFunc(func() { close(r.flowing) })
	r.close = sync.OnceFunc(func() {
		assert.NoError(t, l.Close())
		r.mu.Lock()
		for c := range r.open {
			c.Close()
		}
		r.open = nil
		r.mu.Unlock()
		r.copies.Wait()
	})
	r.copies.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", r.to)
		if err != nil {
			client.Close()
			continue
		}
		if !r.keep(client, server) {
			return
		}
		var both sync.WaitGroup
		both.Go(func() { r.pass(server, client, nil) })
		both.Go(func() { r.pass(client, server, r.began) })
		r.copies.Go(func() {
			both.Wait()
			r.forget(client, server)
		})
	}
}

// pass copies until either side ends, and then ends both.
func (r *relay) pass(to, from net.Conn, began func()) {
	defer to.Close()
	defer from.Close()
	if began != nil {
		if _, err := io.CopyN(to, from, flowingAfter); err != nil {
			return
		}
		began()
	}
	_, _ = io.Copy(to, from) // an end on either side is an end
}

func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		if r.open == nil {
			c.Close()
			continue
		}
		r.open[c] = true
	}
	return r.open != nil
}

func (r *relay) forget(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.open, c)
	}
}

// TestRelay holds what the scenarios rely on.
func TestRelay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	var server sync.WaitGroup
	defer server.Wait()
	server.Go(func() {
		c, err := l.Accept()
		if assert.NoError(t, err) {
			defer c.Close()
			_, err = c.Write(make([]byte, flowingAfter))
			assert.NoError(t, err)
			_, err = io.ReadFull(c, make([]byte, 1))
			assert.NoError(t, err)
		}
	})
	r := newRelay(t, l.Addr().String())
	c, err := net.Dial("tcp", r.addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.ReadFull(c, make([]byte, flowingAfter))
	require.NoError(t, err)
	receive(t, r.flowing)
	_, err = c.Write([]byte{1})
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	assert.True(t, errors.Is(err, io.EOF), "the server's end arrives: %v", err)
}
