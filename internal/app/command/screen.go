package command

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"qq/internal/app/command/block"
	"qq/internal/app/command/pipe"
	"qq/pkg/tool"
)

// frame is the shortest time between two changes of a block of several lines. Text that moves such a block waits for
// the next one.
const frame = 100 * time.Millisecond

// maxPending is how many bytes of text wait for that, about.
const maxPending = 64 << 10

// maxHeld is how many bytes are held back, about, while a question is open. Then writers wait.
const maxHeld = 8 << 20

// Screen is the terminal of a root. Everything that the root writes to its terminal goes through an [Output] of the
// Screen, one write after the other. While somebody holds the Screen, because a question is open, the text of all
// others is kept and is written afterwards, in order. The last lines may be a status line or a block of several lines,
// which stay below the text: see [block.Block].
//
// Only writers with more than 8 MB of text wait for the answer to a question. So results and events go on meanwhile.
//
// Several goroutines may use a Screen and its Outputs.
type Screen struct {
	// Ends is closed when the run is to end. From then on nobody waits for a reader who takes nothing. nil means that
	// everybody waits.
	Ends <-chan struct{}
	// Continued gets SIGCONT, from whoever handles signals.
	Continued chan os.Signal
	// Resized gets SIGWINCH, from there too.
	Resized chan os.Signal
	// Reader reads keys from the terminal while nobody holds the Screen; nil if nobody does. It is set before anybody
	// holds it.
	Reader KeyReader

	mu    sync.Mutex
	free  *sync.Cond // signalled when busy ends and when kept text is taken
	busy  bool       // somebody writes, or holds the Screen
	next  int        // how many wait in Hold: what is kept is for after them
	kept  []piece    // text to write when busy ends
	bytes int        // in kept
	lines []string   // the status line or the block; nil means none
	on    *Output    // where it is
	owner Owner      // draws the terminal instead; nil if nobody does
	block block.Block
	frame time.Time   // when it was drawn
	later *time.Timer // writes what waits for the next frame; nil if nothing does
}

// piece is text for one Output.
type piece struct {
	to   *Output
	text []byte
}

// NewScreen returns a Screen.
func NewScreen() *Screen {
	s := &Screen{Continued: make(chan os.Signal, 1), Resized: make(chan os.Signal, 1)}
	s.free = sync.NewCond(&s.mu)
	return s
}

// Output is an open file that results or messages are written to, usually stdout or stderr. On a terminal it shows text
// without the characters that the terminal would obey (see [Printable]). Into other files it writes the bytes as they
// are, at once.
type Output struct {
	file     *os.File
	pipe     *pipe.Writer // to write to file; nil if that cannot block
	screen   *Screen
	terminal bool
	sent     atomic.Int64
	failed   atomic.Pointer[error] // of the first write that failed
}

// Output returns f as an output on the Screen.
func (s *Screen) Output(f *os.File) *Output {
	o := &Output{file: f, screen: s, terminal: f != nil && term.IsTerminal(int(f.Fd()))}
	if f != nil && pipe.MayBlock(f) {
		o.pipe = &pipe.Writer{File: f}
	}
	return o
}

// send writes p to the file.
func (o *Output) send(p []byte) (n int, err error) {
	if o.pipe == nil {
		n, err = o.file.Write(p)
	} else {
		n, err = o.pipe.Write(p, o.screen.Ends)
	}
	o.sent.Add(int64(n))
	if err != nil {
		o.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Sent returns how many bytes were written to the file.
func (o *Output) Sent() int64 { return o.sent.Load() }

// Err returns the error of the first write that failed, or nil.
func (o *Output) Err() error {
	if err := o.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Writable reports whether the file is open for writing.
func (o *Output) Writable() bool {
	flags, err := unix.FcntlInt(o.file.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
}

// Terminal reports whether o is a terminal.
func (o *Output) Terminal() bool { return o.terminal }

// Width returns the number of columns of the terminal, or 0 if o is not a terminal.
func (o *Output) Width() int { return block.SizeOf(o.file).Columns }

// Height returns the number of rows of the terminal, or 0 if o is not a terminal.
func (o *Output) Height() int { return block.SizeOf(o.file).Rows }

// Write implements io.Writer. On a terminal it may return before p is written; a later call then returns the error.
func (o *Output) Write(p []byte) (int, error) {
	if !o.terminal {
		return o.write(p)
	}
	if _, err := o.write([]byte(Printable(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (o *Output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

// Raw returns a writer for text with control sequences of qq itself, such as colours. Foreign text in it must be
// [Printable].
func (o *Output) Raw() io.Writer { return raw{o} }

// raw embeds no Output: io.WriteString would take its WriteString, which leaves out control sequences.
type raw struct{ to *Output }

// Write implements io.Writer.
func (r raw) Write(p []byte) (int, error) { return r.to.write(p) }

func (o *Output) write(p []byte) (int, error) {
	s := o.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	// Where the status line is in a file, the text may go into the same one.
	if !o.terminal && (s.on == nil || s.on.terminal) {
		s.mu.Unlock()
		defer s.mu.Lock()
		return o.send(p)
	}
	for s.busy && s.bytes > 0 && s.bytes+len(p) > maxHeld {
		s.free.Wait()
	}
	s.kept, s.bytes = append(s.kept, piece{o, bytes.Clone(p)}), s.bytes+len(p)
	s.write()
	if err := o.Err(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// write writes what is kept, unless somebody else does or a question comes first. The caller holds s.mu.
func (s *Screen) write() {
	if !s.busy && s.next == 0 {
		s.busy = true
		s.flush()
	}
}

// flush writes what is kept, with the block below it, and ends busy, which the caller has set. The caller holds s.mu,
// which is free during each write. Text that comes meanwhile is written too, unless somebody waits in Hold: else a
// stream of text would keep a question away.
func (s *Screen) flush() {
	for first := true; first || len(s.kept) > 0 && s.next == 0 && s.later == nil; first = false {
		s.look()
		size := s.size()
		fits := len(s.lines) > 0 && s.fit(size)
		wait := s.wait()
		if wait > 0 {
			s.callLater(wait)
			if !fits {
				break
			}
		}
		pieces := s.kept
		s.kept, s.bytes = nil, 0
		s.free.Broadcast()
		if len(s.lines) == 0 || len(pieces) > 0 && !fits {
			pieces = append([]piece{{s.on, []byte(s.block.Erase(size))}}, pieces...)
		}
		s.put(s.follow(pieces, size))
		if wait <= 0 && len(s.lines) > 0 {
			s.frame = time.Now()
			s.put([]piece{{s.on, []byte(s.block.Draw(s.lines, size))}})
		}
	}
	s.busy = false
	s.free.Broadcast()
}

// look forgets the block if the terminal is not as qq left it: the process was stopped, or is in the background of a
// shell.
func (s *Screen) look() {
	select {
	case <-s.Continued:
		s.block.Forget()
	default:
	}
	select {
	case <-s.Resized:
		s.block.Resized()
		s.frame = time.Now() // more may follow
	default:
	}
	if s.on != nil && !block.Foreground(s.on.file) {
		s.lines = nil
		s.block.Forget()
	}
}

// size returns the size of the terminal that the block is on.
func (s *Screen) size() block.Size {
	if s.on == nil {
		return block.Size{}
	}
	return block.SizeOf(s.on.file)
}

// fit reports whether what is kept can be written without a change of the block.
func (s *Screen) fit(size block.Size) bool {
	var text strings.Builder
	for _, p := range s.kept {
		if p.to.terminal {
			text.Write(p.text)
		}
	}
	return s.block.Fits(text.String(), size)
}

// wait returns how long it is until the block may be changed. A status line may be changed at any time, and so may all
// when the block is to go.
func (s *Screen) wait() time.Duration {
	if len(s.lines) == 0 || max(len(s.lines), s.block.Lines()) == 1 || s.bytes > maxPending {
		return 0
	}
	return frame - time.Since(s.frame)
}

// callLater writes what waits for the next frame when it is due.
func (s *Screen) callLater(wait time.Duration) {
	if s.later != nil {
		return
	}
	s.later = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.later = nil
		s.write()
	})
}

// follow returns pieces as they are to be written, and the block follows those that go to the terminal.
func (s *Screen) follow(pieces []piece, size block.Size) []piece {
	for i, p := range pieces {
		if p.to != s.on && !p.to.terminal {
			continue
		}
		text := s.block.Rest(string(p.text))
		s.block.Wrote(text, size)
		pieces[i].text = []byte(text)
	}
	return pieces
}

// put writes pieces. The caller holds s.mu and has set busy.
func (s *Screen) put(pieces []piece) {
	for _, p := range pieces {
		if len(p.text) == 0 || p.to.Err() != nil {
			continue
		}
		owner := s.owner
		s.mu.Unlock()
		if owner != nil && p.to.terminal {
			owner.Print(string(p.text))
		} else {
			_, _ = p.to.send(p.text) // Err keeps it
		}
		s.mu.Lock()
	}
}

// Owner draws the whole terminal, while a person edits a text there. It gets all that would be written.
type Owner interface {
	// Print takes text for the terminal: it is [Printable], but for control sequences of qq itself.
	Print(text string)
	Lender
}

// Lender uses the terminal, and lends it.
type Lender interface {
	// Lend gives up the terminal for a question, until Regain is called. Several may have it lent.
	Lend()
	Regain()
}

// KeyReader reads keys from the terminal, and lends it.
type KeyReader interface {
	// Lend is Lend of a [Lender]. Before that it waits until no text is half typed. It returns the error of ctx if
	// that ends first.
	Lend(ctx context.Context) error
	Regain()
}

// Own hands the terminal to owner; nil takes it back. Then no status line is drawn. The owner writes with
// [Output.Draw].
func (s *Screen) Own(owner Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy {
		s.free.Wait()
	}
	s.owner, s.lines = owner, nil
	if s.block.Lines() == 0 {
		s.block = block.Block{} // nothing of it is to be drawn again
	}
}

// Draw writes text of the [Owner], or of who holds the Screen, at once.
func (o *Output) Draw(text string) error {
	_, err := o.send([]byte(text))
	return err
}

// Status makes text the status line of o's Screen; "" removes it. See [Output.Block].
func (o *Output) Status(text string) {
	if text == "" {
		o.Block(nil)
		return
	}
	o.Block([]string{text})
}

// Block shows lines below the text of o's Screen, and takes away those that were there. While the Screen is held they
// are not drawn. In the background of a shell there are none, and nothing is removed: the rows may be those of the
// shell. Several lines are drawn at most ten times a second.
func (o *Output) Block(lines []string) {
	s := o.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner != nil {
		return
	}
	s.lines, s.on = nil, o
	for _, line := range lines {
		s.lines = append(s.lines, Printable(line))
	}
	s.write()
}

// Hold implements dialog.Screen: until release is called, nothing is written to the terminal. It waits for a write
// that is not finished, and for a text that a person types. It returns the error of ctx if that ends first.
func (s *Screen) Hold(ctx context.Context) (release func(), err error) {
	if s.Reader != nil {
		if err := s.Reader.Lend(ctx); err != nil {
			return nil, err
		}
	}
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	for s.busy && ctx.Err() == nil {
		s.free.Wait()
	}
	s.next--
	if err := ctx.Err(); err != nil {
		s.write() // what was kept for after the question
		if s.Reader != nil {
			s.Reader.Regain()
		}
		return nil, err
	}
	s.busy = true
	s.put([]piece{{s.on, []byte(s.block.Erase(s.size()))}})
	owner := s.owner
	if owner != nil {
		s.mu.Unlock()
		owner.Lend()
		s.mu.Lock()
	}
	return func() {
		if owner != nil {
			owner.Regain()
		}
		if s.Reader != nil {
			s.Reader.Regain()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.block.Forget()
		s.flush()
	}, nil
}

// Resumed implements dialog.Screen.
func (s *Screen) Resumed() <-chan os.Signal { return s.Continued }

// Drain waits until everything is written.
func (s *Screen) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy || len(s.kept) > 0 {
		s.free.Wait()
	}
}

// Printable returns s without the characters that a terminal would obey, except newline and tab. The answer of a model
// may contain such characters from any file that it has read.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if tool.Obeyed(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}
