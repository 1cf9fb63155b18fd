package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"qq/internal/approval"
	"qq/internal/control/board"
	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Tree is the tree of jobs that a socket shows and steers; *supervisor.Supervisor implements it.
type Tree interface {
	// Jobs returns the jobs that have not ended. Parents come first.
	Jobs() []jobs.Job
	// Cancel ends the job with that id and all that it has started. It does not wait for the end. It
	// returns false if there is no such job.
	Cancel(id string) bool
	// Live is the table of those jobs, and Slots are the slots that they take.
	Live() *jobs.Table
	Slots() *limits.Slots
	// Used returns what all requests to models have used so far.
	Used() task.Usage
	// Log returns the path of the transcript of a job, which may have ended. It is empty if the job keeps none.
	Log(id string) string
}

// Approvals are the questions that wait for a person; *approval.Queue implements it.
type Approvals interface {
	Open() []tool.Question
	Answer(id string, a approval.Answer, by string) error
	Attend() (leave func())
}

// Servers limits the requests to model servers; *gates.Gates implements it.
type Servers interface {
	// Resize changes how many requests may be under way at once at each server.
	Resize(n int)
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
	Root      Root // without a batch: its events tell
	Tree      Tree
	Approvals Approvals
	Servers   Servers
	Host      Host
	Events    *event.Stream
	Folder    Folder
	After     time.Duration // how long after Start the socket opens
}

// Server is the socket of one root.
type Server struct {
	cfg     Config
	quiet   time.Duration // see [QuietTime]
	timer   *time.Timer
	opening sync.WaitGroup
	board   *board.Board
	closing chan struct{}
	working sync.WaitGroup // goroutines of the socket and of its clients

	mu       sync.Mutex
	closed   bool
	listener *net.UnixListener // nil before the socket is open
	peers    map[*peer]struct{}
	seq      int64 // number of the last event
	kept     backlog
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
	s := &Server{cfg: cfg, quiet: QuietTime, board: board.New()}
	s.closing, s.peers = make(chan struct{}), map[*peer]struct{}{}
	cfg.Events.Glance(s)
	return s
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

// root says which root it is.
func (s *Server) root() Root {
	of := s.cfg.Root
	if batch := s.board.Batch(); batch != nil {
		of.BatchID = batch.ID
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
	s.board.Handle(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq = e.Seq
	if !s.kept.wanted(s.subscribers() > 0, e.TS) {
		return
	}
	line := Frame{Type: TypeEvent, Event: &e}.line()
	s.kept.add(kept{e.Seq, e.Type, line})
	for p := range s.peers {
		if p.subscribed && p.wants(e.Type) {
			p.push(line)
		}
	}
}

// subscribers returns how many clients have a subscription. The caller holds s.mu.
func (s *Server) subscribers() (n int) {
	for p := range s.peers {
		if p.subscribed {
			n++
		}
	}
	return n
}

// subscribe returns the queue of the events for p, and the number of the last event before them. The
// fault says why p gets no queue.
func (s *Server) subscribe(p *peer, r *Subscribe) (seq int64, events chan []byte, fault *Fault) {
	if r == nil {
		r = &Subscribe{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, here := s.peers[p]; !here { // it had to make room, or a write to it failed
		return 0, nil, &Fault{CodeBusy, "this connection has ended", "connect again"}
	}
	if p.events != nil {
		return 0, nil, &Fault{CodeSubscribed, "this connection has a subscription", "open another one"}
	}
	if others := s.subscribers(); others >= MaxSubscribers {
		problem := fmt.Sprintf("this root has %d subscriptions already", others)
		return 0, nil, &Fault{CodeBusy, problem, "end one of them"}
	}
	var missed []kept
	if seq = s.seq; r.From > 0 {
		var ok bool
		if missed, ok = s.kept.after(r.From, s.seq); !ok {
			return 0, nil, &Fault{CodeGone, fmt.Sprintf("the events after number %d are not kept any more", r.From),
				"subscribe without a number: the snapshot holds what they told"}
		}
		seq = r.From
	}
	p.events, p.light, p.most = make(chan []byte, maxEvents+len(missed)), r.Light, MaxQueued
	p.ends = r.Ends
	for _, k := range missed {
		if p.wants(k.kind) {
			p.most += int64(len(k.line))
			p.push(k.line)
		}
	}
	if p.subscribed = true; p.watches() {
		s.cfg.Events.Watch()
	}
	return seq, p.events, nil
}

// unsubscribe takes no more events for p. The caller holds s.mu.
func (s *Server) unsubscribe(p *peer) {
	if !p.subscribed {
		return
	}
	if p.subscribed, s.kept.left = false, time.Now(); p.watches() {
		s.cfg.Events.Unwatch()
	}
}

// snapshot returns what the tree looks like now. It holds whatever events up to seq have told,
// because a job changes before its event is sent.
func (s *Server) snapshot(seq int64) *Snapshot {
	tree, open, asking := s.cfg.Tree, s.cfg.Approvals.Open(), map[string]bool{}
	snap := &Snapshot{Seq: seq, Root: s.root(), Batch: s.board.Batch(), Used: tree.Used()}
	room := maxPreviews
	for _, q := range open {
		asking[q.ExecutionID] = true
		shown := questionOf(q)
		if room -= shown.size(); room < 0 {
			shown = shown.later()
		}
		snap.Questions = append(snap.Questions, shown)
	}
	snap.Max, snap.AtWork, snap.Paused = tree.Slots().State()
	snap.Jobs, snap.Ended = s.board.Jobs(tree.Jobs(), asking), s.board.Ended()
	return snap
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
	s.unsubscribe(p)
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
