// Package remote has a process start the commands of an agent that works in a child of it. The child asks for each
// command over an inherited connection; the root decides what the command may do, see package box. What the child sends
// is a stranger's: it is bounded and checked.
package remote

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"qq/internal/box"
	"qq/pkg/proc"
)

// Limits of what a child may ask for.
const (
	maxRequest  = 4 << 20 // bytes
	maxOutcome  = 1 << 20 // bytes
	maxCommands = 64      // that run at the same time
	maxShown    = 10_000  // files
)

// marker is what a child may mark its commands with. Another variable could change how this program starts them.
var marker = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(` + box.MarkPrefix + `[0-9]{1,9}=[0-9A-Za-z]{1,64})?$`)
})

// request asks the root to start a command. With it come two descriptors: a socket for this command, and the
// terminal or file that is its stdout and stderr. With Piped there are two more: its stdin, and a stderr of its own.
// Texts are bytes, because JSON would change those that are not UTF-8.
type request struct {
	Path     []byte        `json:"path"`
	Args     [][]byte      `json:"args"`
	Env      [][]byte      `json:"env"`
	Dir      []byte        `json:"dir"`
	Show     [][]byte      `json:"show,omitempty"`
	Marker   []byte        `json:"marker,omitempty"`
	Terminal bool          `json:"terminal,omitempty"`
	Piped    bool          `json:"piped,omitempty"`
	Grace    time.Duration `json:"grace,omitempty"`
	Wrote    [][]byte      `json:"wrote,omitempty"` // no command: a question of [Client.Wrote]
}

// reply is what the socket of a command says: first that it was started, or why not, and then how it ended.
type reply struct {
	Error   string       `json:"error,omitempty"`
	Outcome *box.Outcome `json:"outcome,omitempty"`
	Wrote   [][]byte     `json:"wrote,omitempty"` // the answer to a question
}

// Pair returns the two ends of a connection for [Serve], and for a [Client] in a child that inherits the file.
func Pair() (*net.UnixConn, *os.File, error) {
	syscall.ForkLock.RLock() // else a process that is started meanwhile may inherit them
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "commands")
	conn, err := connection(os.NewFile(uintptr(fds[0]), "commands"))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// connection returns the connection of f, a socket, and closes f.
func connection(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("no UNIX socket")
	}
	return unixConn, nil
}

// Client starts the commands of an agent by the process at the other end of a connection.
type Client struct {
	mu   sync.Mutex // held while a request is written
	conn *net.UnixConn
}

// New returns a Client for the inherited end of a [Pair]. It closes the file.
func New(f *os.File) (*Client, error) {
	conn, err := connection(f)
	if err != nil {
		return nil, fmt.Errorf("open the connection for commands: %w", err)
	}
	return &Client{conn: conn}, nil
}

// Start asks for c to be started. Without a Stdin, Stdout of c must be its Stderr too; with one, all three are files.
// It has no Extra.
func (r *Client) Start(c proc.Command, show []string) (box.Running, error) {
	files := []*os.File{c.Stdout}
	if c.Stdin != nil {
		files = append(files, c.Stdin, c.Stderr)
	}
	a, _, err := r.ask(request{
		Path: []byte(c.Path), Args: toBytes(c.Args), Env: toBytes(c.Env), Dir: []byte(c.Dir), Show: toBytes(show),
		Marker: []byte(c.Marker), Terminal: c.Terminal, Piped: c.Stdin != nil, Grace: c.Grace,
	}, files...)
	if err != nil {
		return nil, err
	}
	go a.run()
	return a, nil
}

// Wrote returns those of files, relative to the working directory, that were changed in the copy of the tree in which
// commands work, and not by others in the tree.
func (r *Client) Wrote(files []string) ([]string, error) {
	none, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer none.Close()
	a, first, err := r.ask(request{Wrote: toBytes(files)}, none)
	if err != nil {
		return nil, err
	}
	return toText(first.Wrote), a.conn.Close()
}

// ask sends a request, and returns the first reply. A command gets the files.
func (r *Client) ask(q request, files ...*os.File) (a *asked, first reply, err error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, first, err
	}
	own, theirs, err := Pair()
	if err != nil {
		return nil, first, err
	}
	fds := []int{int(theirs.Fd())}
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	rights := syscall.UnixRights(fds...)
	head := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	r.mu.Lock()
	_, _, err = r.conn.WriteMsgUnix(head, rights, nil)
	if err == nil {
		_, err = r.conn.Write(text)
	}
	r.mu.Unlock()
	theirs.Close() // so that own ends if the root does not take it
	if err != nil {
		own.Close()
		return nil, first, fmt.Errorf("ask the root to start a command: %w", err)
	}
	a = &asked{conn: own, replies: json.NewDecoder(io.LimitReader(own, maxOutcome)), done: make(chan struct{})}
	switch err = a.replies.Decode(&first); {
	case err != nil:
		err = fmt.Errorf("the root did not start the command: %w", err)
	case first.Error != "":
		err = errors.New(first.Error)
	}
	if err != nil {
		own.Close()
		return nil, first, err
	}
	return a, first, nil
}

// asked is a command that the root started for this process.
type asked struct {
	conn    *net.UnixConn
	replies *json.Decoder
	stop    sync.Once
	done    chan struct{}
	out     box.Outcome
}

// run waits for the outcome.
func (a *asked) run() {
	defer close(a.done)
	defer a.conn.Close()
	var r reply
	if err := a.replies.Decode(&r); err != nil || r.Outcome == nil {
		a.out.Code, a.out.Notes = -1, []string{"it is not known how the command ended: the root is gone"}
		return
	}
	a.out = *r.Outcome
}

// Stop implements box.Running.
func (a *asked) Stop() { a.stop.Do(func() { _, _ = a.conn.Write([]byte{'\n'}) }) }

// Done implements box.Running.
func (a *asked) Done() <-chan struct{} { return a.done }

// Wait implements box.Running.
func (a *asked) Wait() box.Outcome {
	<-a.done
	return a.out
}

// Serve starts the commands that the other end of conn asks for, in b, until conn ends. Then it ends those that run.
// It returns when all have ended, and closes conn. lost are the notes of commands of which the child was not told.
func Serve(conn *net.UnixConn, b *box.Box) (lost []string) {
	defer conn.Close()
	var mu sync.Mutex
	var all sync.WaitGroup
	gone := make(chan struct{})
	slots := make(chan struct{}, maxCommands)
	for {
		q, files, err := receive(conn)
		if err != nil {
			break
		}
		select {
		case slots <- struct{}{}:
		default: // to wait here would be not to see that the child is gone
			refuse(files, fmt.Errorf("more than %d commands of one agent at the same time", maxCommands))
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			notes := serve(q, files, b, gone)
			mu.Lock()
			defer mu.Unlock()
			lost = append(lost, notes...)
		})
	}
	close(gone)
	all.Wait()
	return lost
}

// receive reads one request. files are the socket of the command and its output, and those of [request].
func receive(conn *net.UnixConn) (q request, files []*os.File, err error) {
	var head [4]byte
	rights := make([]byte, syscall.CmsgSpace(4*4))
	n, oobn, _, _, err := conn.ReadMsgUnix(head[:], rights)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return q, files, err
	}
	fds := descriptors(rights[:oobn])
	defer func() {
		for _, fd := range fds { // those that are not taken
			syscall.Close(fd)
		}
	}()
	if _, err := io.ReadFull(conn, head[n:]); err != nil {
		return q, files, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxRequest || len(fds) != 2 && len(fds) != 4 {
		return q, files, errors.New("a request for a command is not valid")
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(conn, text); err != nil {
		return q, files, err
	}
	if err := json.Unmarshal(text, &q); err != nil {
		return q, files, err
	}
	if !marker().Match(q.Marker) || len(q.Show) > maxShown || len(q.Wrote) > maxShown || q.Piped != (len(fds) == 4) {
		return q, files, errors.New("a request for a command is not valid")
	}
	for _, fd := range fds {
		files = append(files, os.NewFile(uintptr(fd), "received"))
	}
	fds = nil
	return q, files, nil
}

// descriptors returns the descriptors in a control message.
func descriptors(rights []byte) (fds []int) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		got, _ := syscall.ParseUnixRights(&m)
		for _, fd := range got {
			syscall.CloseOnExec(fd)
		}
		fds = append(fds, got...)
	}
	return fds
}

// serve runs one command. It stops the command when the child asks for that, and kills it when the child is gone: its
// end of the socket of the command is closed then, or the connection, which closes gone. It returns the notes that it
// could not hand over.
func serve(q request, files []*os.File, b *box.Box, gone <-chan struct{}) (lost []string) {
	conn, err := connection(files[0])
	if err != nil {
		closeAll(files[1:])
		return nil
	}
	defer conn.Close()
	if len(q.Wrote) > 0 {
		closeAll(files[1:])
		answer(conn, reply{Wrote: toBytes(b.Wrote(toText(q.Wrote)))})
		return nil
	}
	c := proc.Command{
		Path: string(q.Path), Args: toText(q.Args), Env: slices.DeleteFunc(toText(q.Env), loads), Dir: string(q.Dir),
		Stdout: files[1], Stderr: files[1], Terminal: q.Terminal, Grace: min(max(q.Grace, 0), time.Minute),
		Marker: string(q.Marker),
	}
	if q.Piped {
		c.Stdin, c.Stderr = files[2], files[3]
	}
	r, err := b.Launch(c, toText(q.Show))
	closeAll(files[1:])
	if err != nil {
		answer(conn, reply{Error: err.Error()})
		return nil
	}
	if !answer(conn, reply{}) {
		r.Kill()
	}
	asked := make(chan struct{}, 1) // to stop; closed when nobody can ask any more
	go func() {
		defer close(asked)
		for b := make([]byte, 1); ; {
			if n, _ := conn.Read(b); n == 0 {
				return
			}
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}()
	for running := true; running; {
		select {
		case <-r.Done():
			running = false
		case _, ok := <-asked:
			if ok {
				r.Stop()
				continue
			}
			r.Kill()
			asked = nil
		case <-gone:
			r.Kill()
			gone = nil
		}
	}
	out := r.Wait()
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // a child that does not read loses the outcome
	if _, err := conn.Write(lineOf(out)); err != nil {
		return out.Notes
	}
	return nil
}

// refuse answers a request with an error.
func refuse(files []*os.File, err error) {
	closeAll(files[1:])
	if conn, bad := connection(files[0]); bad == nil {
		answer(conn, reply{Error: err.Error()})
		conn.Close()
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// answer writes r, which is short, to the socket of a command. It returns false if the child takes nothing.
func answer(conn *net.UnixConn, r reply) bool {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	return json.NewEncoder(conn).Encode(r) == nil
}

// lineOf returns the reply with out as a line that the child reads whole: changed files for which there is no room are
// counted only.
func lineOf(out box.Outcome) []byte {
	changed, notes := out.Changed, out.Notes
	for {
		line, _ := json.Marshal(reply{Outcome: &out}) // texts and numbers always become JSON
		if len(line) <= maxOutcome/2 || len(out.Changed) == 0 {
			return append(line, '\n')
		}
		out.Changed = changed[:len(out.Changed)/2]
		out.Notes = append(slices.Clip(notes), fmt.Sprintf("%d more files that programs obey changed: they are too "+
			"many to be listed", len(changed)-len(out.Changed)))
	}
}

// loads reports whether the entry of an environment makes the loader put code of the child into this program, before it
// is in the sandbox, where the root would not have that entry.
func loads(entry string) bool {
	return strings.HasPrefix(entry, "LD_") && !slices.Contains(os.Environ(), entry)
}

func toBytes(list []string) (all [][]byte) {
	for _, s := range list {
		all = append(all, []byte(s))
	}
	return all
}

func toText(list [][]byte) (all []string) {
	for _, b := range list {
		all = append(all, string(b))
	}
	return all
}

// Children are the connections on which children ask for commands, by execution id. The zero value has none.
type Children struct {
	mu   sync.Mutex
	open map[string]*child
}

type child struct {
	conn *net.UnixConn
	done chan struct{} // closed when all commands of the child have ended; nil if they are not served
	lost []string      // valid then: see [Serve]
}

// Open makes a connection for the child id, and returns the end that the child inherits.
func (c *Children) Open(id string) (*os.File, error) {
	conn, theirs, err := Pair()
	if err != nil {
		return nil, err
	}
	c.Close(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[string]*child{}
	}
	c.open[id] = &child{conn: conn}
	return theirs, nil
}

// Has reports whether there is a connection for the child id.
func (c *Children) Has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[id] != nil
}

// Serve begins to serve the child id with b. It returns false if there is no connection.
func (c *Children) Serve(id string, b *box.Box) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.open[id]
	if one == nil {
		return false
	}
	one.done = make(chan struct{})
	go func() {
		defer close(one.done)
		one.lost = Serve(one.conn, b)
	}()
	return true
}

// Close ends the commands of the child id, waits until they have ended, and closes its connection. It returns the
// notes of commands of which the child was not told.
func (c *Children) Close(id string) (lost []string) {
	c.mu.Lock()
	one := c.open[id]
	delete(c.open, id)
	c.mu.Unlock()
	if one == nil {
		return nil
	}
	one.conn.Close()
	if one.done != nil {
		<-one.done
	}
	return one.lost
}
