package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"qq/pkg/event"
)

// peer is one client, as the server sees it.
type peer struct {
	server *Server
	conn   *net.UnixConn
	// replies holds the reply to the last request. A client that sends more without reading waits
	// for itself, so that it costs no memory.
	replies chan reply
	queued  atomic.Int64 // bytes in events
	gone    chan struct{}
	leaving sync.Once

	// These are guarded by the mutex of the server.
	events     chan []byte
	subscribed bool
	most       int64     // bytes in events: [MaxQueued], and what it had missed when it came again
	light      bool      // without the text of models
	ends       bool      // only ends
	asked      time.Time // when the last request came; zero before the first one
}

// reply is a line for a client that answers its request.
type reply struct {
	line   []byte
	events chan []byte // to be sent from now on; nil unless it is the reply to subscribe
}

// maxEvents is how many events may wait for a client: see [MaxQueued].
const maxEvents = 8192

// newPeer returns a peer that is about to get a hello.
func newPeer(s *Server, conn *net.UnixConn) *peer {
	root := s.root()
	p := &peer{server: s, conn: conn, replies: make(chan reply, 1), gone: make(chan struct{})}
	p.replies <- reply{line: Frame{Type: TypeHello, Hello: &root}.line()}
	return p
}

// leave ends the connection.
func (p *peer) leave() {
	p.leaving.Do(func() {
		close(p.gone)
		p.conn.Close()
	})
}

// push queues an event for a subscriber. It never waits: a client whose queue is full is dropped.
// The caller holds the mutex of the server.
func (p *peer) push(line []byte) {
	if p.queued.Add(int64(len(line))) <= p.most {
		select {
		case p.events <- line:
			return
		default:
		}
	}
	p.server.unsubscribe(p)
	p.leave()
}

// read answers the requests of the client until it sends no more.
func (p *peer) read() {
	defer close(p.replies)
	leave := func() {} // it may answer no questions
	defer func() { leave() }()
	r, quiet := bufio.NewReader(p.conn), time.Now().Add(p.server.quiet)
	for {
		_ = p.conn.SetReadDeadline(quiet) // a read error follows
		line, err := readLine(r, MaxRequest)
		if err != nil {
			p.complain(err)
			return
		}
		quiet = time.Now().Add(p.server.quiet)
		p.server.note(p)
		req, fault := parse(line)
		var f Frame
		var events chan []byte
		if fault == nil {
			f, events, fault = p.answer(req)
		}
		if events != nil {
			if quiet = (time.Time{}); req.Subscribe != nil && req.Subscribe.Answers { // no deadline
				leave = p.server.cfg.Approvals.Attend()
			}
		}
		if fault != nil {
			f = Frame{Type: TypeError, Error: fault}
		}
		if f.ID = req.ID; !p.reply(f, events) || fault != nil && fault.closes() {
			return
		}
	}
}

// complain tells the client why nothing more is read from it, unless it has ended its side.
func (p *peer) complain(err error) {
	fault := &Fault{Code: CodeBadRequest}
	switch {
	case errors.Is(err, errTooLong):
		fault.Code, fault.Problem = CodeTooLong, fmt.Sprintf("the line is longer than %d bytes", MaxRequest)
	case errors.Is(err, os.ErrDeadlineExceeded):
		fault.Problem = fmt.Sprintf("no request came for %v", p.server.quiet)
	case errors.Is(err, io.EOF):
		return
	default:
		p.leave()
		return
	}
	p.reply(Frame{Type: TypeError, Error: fault}, nil)
}

// reply hands f to write. It returns false if the client is gone.
func (p *peer) reply(f Frame, events chan []byte) bool {
	select {
	case p.replies <- reply{f.line(), events}:
		return true
	case <-p.gone:
		return false
	}
}

// write sends replies and events to the client until all is answered, the client is gone or the
// server is being closed.
func (p *peer) write() {
	defer p.server.forget(p)
	defer p.leave()
	var events chan []byte
	for {
		select {
		case r, more := <-p.replies:
			if !more || !p.send(r.line, WriteTime) {
				return
			}
			if r.events != nil {
				events = r.events
			}
		case line := <-events:
			if p.queued.Add(-int64(len(line))); !p.send(line, WriteTime) {
				return
			}
		case <-p.gone:
			return
		case <-p.server.closing:
			p.sendRest(events)
			return
		}
	}
}

// sendRest sends what is left for the client, and the end. It gives up when the client does not read.
func (p *peer) sendRest(events chan []byte) {
	replies := p.replies
	for {
		var line []byte
		select {
		case r, more := <-replies:
			if !more { // the client asks for nothing more
				replies = nil
				continue
			}
			line = r.line
		case line = <-events:
		default:
			p.send(Frame{Type: TypeEnd}.line(), stuckTime)
			return
		}
		if !p.send(line, stuckTime) {
			return
		}
	}
}

// send writes a line and reports whether the client took it within that time.
func (p *peer) send(line []byte, within time.Duration) bool {
	_ = p.conn.SetWriteDeadline(time.Now().Add(within)) // a write error follows
	_, err := p.conn.Write(line)
	return err == nil
}

// watches reports whether p wants every event, also those that cost something to make.
func (p *peer) watches() bool { return !p.light && !p.ends }

// wants reports whether events of that type are sent to p. The caller holds the mutex of the server.
func (p *peer) wants(t event.Type) bool {
	if p.ends {
		return t == event.SubAgentComplete || t == event.SubAgentError
	}
	return !p.light || t != event.Token
}
