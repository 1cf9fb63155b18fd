package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// Tree is the tree of jobs that a socket shows and steers; *supervisor.Supervisor implements it.
type Tree interface {
	// Jobs returns the jobs that have not ended. Parents come first.
	Jobs() []jobs.Job
	// Cancel ends the job with that id and all that it has started. It does not wait for the end. It
	// returns false if there is no such job.
	Cancel(id string) bool
}

// Host is the process of the root.
type Host interface {
	// End ends the whole run. It does not wait for the end.
	End()
	// Warn is told why there is no socket, in one line.
	Warn(warning string)
}

// Folder is where a root keeps its socket.
type Folder interface {
	// Path returns the path of a folder that only this user can enter. It is made if necessary.
	Path() (string, error)
}

// Config is what a Server needs. Nothing in it has a default.
type Config struct {
	Root   Root // without a batch: see [Server.Batch]
	Tree   Tree
	Host   Host
	Events *event.Stream
	Folder Folder
	After  time.Duration // how long after Start the socket opens
}

// Server is the socket of one root.
type Server struct {
	cfg     Config
	quiet   time.Duration // see [QuietTime]
	timer   *time.Timer
	opening sync.WaitGroup
	batch   atomic.Pointer[string] // id of the batch that the root runs
	joined  sync.Once              // to the stream of events
	closing chan struct{}
	working sync.WaitGroup // goroutines of the socket and of its clients

	mu       sync.Mutex
	closed   bool
	listener *net.UnixListener // nil before the socket is open
	peers    map[*peer]struct{}
	seq      int64 // number of the last event
}

const (
	suffix = ".sock" // of the name of a socket, after the id of its root
	// closeTime is how long Close waits for clients to read what is left for them, and stuckTime how
	// long for one that does not read at all.
	closeTime = time.Second
	stuckTime = 100 * time.Millisecond
	// retryTime is how long the server waits after it could not accept a client, because the
	// process has too many files open for example.
	retryTime = 100 * time.Millisecond
)

// Start returns a server that opens its socket after cfg.After, in a goroutine. Close ends it.
func Start(cfg Config) *Server {
	s := newServer(cfg)
	s.start()
	return s
}

func newServer(cfg Config) *Server {
	return &Server{cfg: cfg, quiet: QuietTime, closing: make(chan struct{}), peers: map[*peer]struct{}{}}
}

func (s *Server) start() {
	s.opening.Add(1)
	s.timer = time.AfterFunc(s.cfg.After, func() {
		defer s.opening.Done()
		if err := s.open(); err != nil {
			problem, hint := task.Explain(err)
			if hint != "" {
				problem += " (hint: " + hint + ")"
			}
			s.cfg.Host.Warn("this run has no control socket, so no other qq can cancel one of its tasks: " + problem)
		}
	})
}

// Batch says that the root now runs the batch with that id.
func (s *Server) Batch(id string) { s.batch.Store(&id) }

// root says which root it is.
func (s *Server) root() Root {
	of := s.cfg.Root
	if id := s.batch.Load(); id != nil {
		of.BatchID = *id
	}
	return of
}

// cancel ends the job with that id, or the whole run if that is the id of the root or of its batch. It
// returns false if there is no such job.
func (s *Server) cancel(id string) bool {
	if of := s.root(); id == of.ExecutionID || id == of.BatchID {
		s.cfg.Host.End()
		return true
	}
	return s.cfg.Tree.Cancel(id)
}

// open opens the socket.
func (s *Server) open() error {
	dir, err := s.cfg.Folder.Path()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, s.cfg.Root.ExecutionID+suffix)
	var l *net.UnixListener
	err = withName(path, func(name string) (err error) {
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"}); err == nil {
			l.SetUnlinkOnClose(false) // the name may be a temporary one
			err = os.Chmod(name, 0o600)
		}
		return err
	})
	if err != nil {
		if l != nil {
			l.Close()
		}
		const hint = "QQ_HOME names a folder in which sockets can be made"
		return task.Hinted(hint, "open the control socket %s: %w", path, bare(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return l.Close() // the folder is removed with it
	}
	s.listener = l
	s.working.Go(s.accept)
	return nil
}

// bare returns err without the name of the socket, which may be a temporary one.
func bare(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err
	}
	return err
}

// accept takes clients until the server is closed.
func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		select {
		case <-s.closing:
			if err == nil {
				conn.Close()
			}
			return
		default:
		}
		if err != nil {
			time.Sleep(retryTime)
			continue
		}
		if fault := s.welcome(conn); fault != nil {
			_, _ = conn.Write(Frame{Type: TypeError, Error: fault}.line()) // there is room for one line
			conn.Close()
		}
	}
}

// welcome starts to serve a client, or returns why it is not served.
func (s *Server) welcome(conn *net.UnixConn) *Fault {
	if err := allowed(conn); err != nil {
		const hint = "connect as the user who started it, from outside of its agents and of sandboxes " +
			"(no_new_privs, seccomp)"
		return &Fault{CodeForbidden, err.Error(), hint}
	}
	busy := &Fault{CodeBusy, fmt.Sprintf("this root has %d clients already", MaxClients), "end one of them"}
	s.mu.Lock()
	var leaves *peer
	if len(s.peers) == MaxClients {
		if leaves = s.idlest(); leaves == nil {
			s.mu.Unlock()
			return busy
		}
		delete(s.peers, leaves)
	}
	p := newPeer(s, conn)
	s.peers[p] = struct{}{}
	s.working.Go(p.write)
	s.working.Go(p.read)
	s.mu.Unlock()
	if leaves != nil {
		busy.Hint = "subscribe, or connect again"
		leaves.send(Frame{Type: TypeError, Error: busy}.line(), stuckTime)
		leaves.leave()
	}
	return nil
}

// idlest returns the client that makes room for a new one: of those that have asked for something, and have no
// subscription, the one that has asked for nothing more for the longest time. So clients that ask again and again do
// not keep out one that cancels. It returns nil if there is none. The caller holds s.mu.
func (s *Server) idlest() (found *peer) {
	for p := range s.peers {
		if !p.asked.IsZero() && p.events == nil && (found == nil || p.asked.Before(found.asked)) {
			found = p
		}
	}
	return found
}

// Handle implements event.Sink: it queues the event for each subscriber.
func (s *Server) Handle(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq = e.Seq
	var line []byte
	for p := range s.peers {
		if !p.subscribed {
			continue
		}
		if line == nil {
			line = Frame{Type: TypeEvent, Event: &e}.line()
		}
		p.push(line)
	}
}

// subscribe returns the queue of the events for p, and the number of the last event before them. The
// fault says why p gets no queue.
func (s *Server) subscribe(p *peer) (seq int64, events chan []byte, fault *Fault) {
	s.joined.Do(func() {
		last := s.cfg.Events.Join(s)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seq = max(s.seq, last)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.events != nil {
		return 0, nil, &Fault{CodeSubscribed, "this connection has a subscription", "open another one"}
	}
	others := 0
	for other := range s.peers {
		if other.subscribed {
			others++
		}
	}
	if others >= MaxSubscribers {
		problem := fmt.Sprintf("this root has %d subscriptions already", others)
		return 0, nil, &Fault{CodeBusy, problem, "end one of them"}
	}
	p.events, p.subscribed = make(chan []byte, maxEvents), true
	return s.seq, p.events, nil
}

// snapshot returns what the tree looks like now. It holds whatever events up to seq have told,
// because a job changes before its event is sent.
func (s *Server) snapshot(seq int64) *Snapshot {
	return &Snapshot{Seq: seq, Root: s.root(), Jobs: s.cfg.Tree.Jobs()}
}

// note says that a request of p came.
func (s *Server) note(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.asked = time.Now()
}

// last returns the number of the last event.
func (s *Server) last() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seq
}

// forget removes a client that is gone.
func (s *Server) forget(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
}

// Close ends the server. Each client gets what is left for it, and an end, if it reads at once. The
// folder with the socket is for the caller to remove. Close may be called several times.
func (s *Server) Close() {
	if s.timer.Stop() {
		s.opening.Done()
	}
	s.opening.Wait()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.closing)
	if s.listener != nil {
		s.listener.Close()
	}
	for p := range s.peers {
		_ = p.conn.SetWriteDeadline(time.Now().Add(stuckTime)) // of the write that it waits for
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.working.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeTime): // the others end with their connection
		s.mu.Lock()
		defer s.mu.Unlock()
		for p := range s.peers {
			p.leave()
		}
	}
}
