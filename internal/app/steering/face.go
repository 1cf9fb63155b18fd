package steering

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"qq/internal/app/columns"
	"qq/internal/app/command"
	"qq/internal/app/command/block"
	"qq/internal/app/joblines"
	"qq/internal/app/output"
	"qq/internal/app/pane"
	"qq/internal/control"
	"qq/internal/terminal"
	"qq/internal/terminal/keys"
)

// asked is shown while a question waits for the end of a message.
const asked = "a question waits for you: Enter sends this first, Escape leaves it"

// noticeTime is how long a notice is shown.
const noticeTime = 4 * time.Second

// Face is the block below the answer of a run: lines of its jobs, and the keys that steer them. It implements
// output.JobLines. The terminal is read only while jobs are at work, and while nobody holds the screen: what is typed
// else belongs to a question or to the shell.
type Face struct {
	run    Run
	out    *command.Output
	screen *command.Screen
	shown  output.Shown
	ends   <-chan struct{}

	mu      sync.Mutex
	term    *terminal.Terminal // nil until it is needed, and if there is none
	tried   bool               // to open it, or there is none
	reading bool               // the terminal is started
	held    int                // who holds the screen
	waits   int                // who waits for the end of a text
	free    *sync.Cond         // signalled when no text is typed any more
	closed  bool
	done    chan struct{}
	loop    sync.WaitGroup

	lines  []joblines.Line // that are shown
	names  map[string]string
	chosen string
	at     int // where its line was
	help   bool
	input  *Input // a message is typed: questions wait until it is sent or left
	to     Act
	typing time.Time // the last key
	draft  string    // a message that could not be sent
	notice string
	until  time.Time  // the notice is shown
	pane   *pane.Pane // with a transcript; nil if none is shown
}

// NewFace returns the face of run, which is shown above the line of shown. ends is closed when the run is to end.
// Without a terminal that somebody types into it reads no keys. Nobody may hold the screen yet.
func NewFace(i *command.Invocation, run Run, ends <-chan struct{}, shown output.Shown) *Face {
	f := &Face{run: run, out: i.Err, screen: i.Screen, ends: ends, shown: shown, done: make(chan struct{})}
	f.free = sync.NewCond(&f.mu)
	if f.tried = !output.IsTerminal(i.In); !f.tried {
		i.Screen.Reader = f
	}
	shown.Below(f)
	return f
}

// Rows implements output.JobLines.
func (f *Face) Rows(now time.Time, width, most int) output.Jobs {
	snap, err := f.run.Snapshot()
	if err != nil {
		return output.Jobs{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var help []string
	if f.help {
		help = Help[:min(len(Help), max(most-1, 0))]
	}
	if f.waits > 0 && f.input != nil && most > 1 {
		help = []string{columns.First(asked, width)}
	}
	view := joblines.View{Now: now, Width: width, Most: most - len(help), Chosen: f.chosen}
	b := joblines.Of(snap.Jobs, snap.Ended, view)
	shown := func(l joblines.Line) bool { return l.ID == f.chosen }
	if f.chosen != "" && len(b.Lines) > 0 && !slices.ContainsFunc(b.Lines, shown) {
		f.chosen, view.Chosen = "", "" // no key may mean another job by accident
		b = joblines.Of(snap.Jobs, snap.Ended, view)
	}
	works := b.Count.AtWork+b.Count.Queued > 0
	f.read(works || f.input != nil)
	if !works {
		return f.idle(now, width)
	}
	f.lines = b.Lines
	f.name(snap)
	j := output.Jobs{Count: b.Count.String(), Said: f.said(now, width)}
	for _, l := range b.Lines {
		j.Rows = append(j.Rows, l.Text)
	}
	j.Rows = append(j.Rows, help...)
	switch {
	case snap.Paused && f.reading:
		j.Paused = "paused: p goes on"
	case snap.Paused: // from elsewhere
		j.Paused = "paused: qq top lets it go on"
	case f.reading && f.chosen == "" && !f.help:
		j.Count += " (? lists the keys)"
	}
	return j
}

// idle returns what is shown while no job is at work: a message that is being typed, until it is left, and then what
// became of it. So nothing of it goes to the shell. The caller holds f.mu.
func (f *Face) idle(now time.Time, width int) output.Jobs {
	f.lines, f.chosen, f.help = nil, "", false
	switch {
	case f.input != nil:
		return output.Jobs{Rows: []string{columns.First(f.to.Name+" has ended: Escape leaves your message", width)},
			Said: f.input.Line(width)}
	case now.Before(f.until):
		return output.Jobs{Said: f.notice}
	}
	return output.Jobs{}
}

// name remembers what the jobs are called.
func (f *Face) name(snap control.Snapshot) {
	f.names = map[string]string{}
	for _, j := range snap.Jobs {
		f.names[j.ExecutionID] = Name(j.Agent, j.ExecutionID)
	}
	for _, e := range snap.Ended {
		f.names[e.ExecutionID] = Name(e.Agent, e.ExecutionID)
	}
}

// said returns what the status line says instead of the counts.
func (f *Face) said(now time.Time, width int) string {
	switch {
	case f.input != nil:
		return f.input.Line(width)
	case now.Before(f.until):
		return f.notice
	}
	return ""
}

// read starts or ends the reading of keys. The caller holds f.mu.
func (f *Face) read(wanted bool) {
	wanted = wanted && f.held == 0 && !f.closed
	select {
	case <-f.ends:
		wanted = false
	default:
	}
	if !wanted {
		f.leave()
	}
	if wanted == f.reading {
		return
	}
	if !wanted {
		f.term.Stop()
		f.reading = false
		return
	}
	if !f.tried {
		f.tried = true
		f.open()
	}
	f.reading = f.term != nil && f.term.Start() == nil
}

// open opens the terminal. The caller holds f.mu.
func (f *Face) open() {
	t, err := terminal.Open(terminal.Config{Signals: true, Guest: f})
	if err != nil { // nobody can press a key
		return
	}
	f.term = t
	f.loop.Go(f.follow)
}

// idleTime is how long a question waits for a key of a message that is being typed. Then the text is kept for the next
// message.
const idleTime = 30 * time.Second

// Lend implements command.KeyReader.
func (f *Face) Lend(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.free.Broadcast()
	})()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits++
	for f.input != nil && ctx.Err() == nil {
		left := idleTime - time.Since(f.typing)
		if left <= 0 { // nobody types any more
			f.draft = f.input.Text()
			f.leave()
			break
		}
		looks := time.AfterFunc(left, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.free.Broadcast()
		})
		f.free.Wait()
		looks.Stop()
	}
	f.waits--
	if err := ctx.Err(); err != nil {
		return err
	}
	f.held++
	f.read(false)
	return nil
}

// leave ends the typing of a message. The caller holds f.mu.
func (f *Face) leave() {
	f.input = nil
	f.free.Broadcast()
}

// Regain implements command.KeyReader.
func (f *Face) Regain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held--
	f.read(len(f.lines) > 0)
}

// Leave implements terminal.Guest.
func (f *Face) Leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pane != nil {
		_ = f.pane.Close() // there is nobody to tell
	}
	f.out.Block(nil)
}

// Close ends the reading of keys for good. Who types a message is told that it is not sent.
func (f *Face) Close() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	if f.input != nil && f.input.Text() != "" {
		f.mu.Unlock()
		fmt.Fprintf(f.out, "qq: your message to %s was not sent: the run ends\n", f.to.Name)
		f.settle()
		f.mu.Lock()
	}
	f.closed = true
	f.read(false)
	close(f.done)
	t := f.term
	f.mu.Unlock()
	f.loop.Wait()
	if t != nil {
		t.Close()
	}
}

// quietTime is how long somebody types nothing who has seen that the run ends.
const quietTime = time.Second

// settle waits until the person types no more, and drops what was typed: it was not meant for the shell. It waits for
// 5 s at most, and not at all when the person wants the run to end.
func (f *Face) settle() {
	for late := time.After(5 * time.Second); ; {
		f.mu.Lock()
		left := quietTime - time.Since(f.typing)
		f.mu.Unlock()
		if left > 0 {
			select {
			case <-time.After(left):
				continue
			case <-late:
			case <-f.ends:
			}
		}
		f.term.Discard()
		return
	}
}

// follow handles what comes from the terminal.
func (f *Face) follow() {
	for {
		select {
		case <-f.done:
			return
		case e := <-f.term.Events():
			switch e.Kind {
			case terminal.Key:
				f.press(e.Key)
			case terminal.Closed:
				f.mu.Lock()
				f.leave()
				f.mu.Unlock()
				return
			}
			f.shown.Redraw()
		}
	}
}

// press handles a key.
func (f *Face) press(k keys.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.typing = time.Now()
	if f.input != nil {
		f.typed(k)
		return
	}
	help := f.help
	f.help = false // it takes the room of the lines
	switch {
	case k.Code == keys.Up:
		f.move(-1)
	case k.Code == keys.Down:
		f.move(1)
	case k.Code == keys.Escape:
		f.chosen = ""
	case k.Code == keys.Enter:
		f.with(f.show)
	case k.Code != keys.Rune || k.Ctrl || k.Alt:
	case k.Rune == '?':
		f.help = !help
	case k.Rune == 'p':
		f.tell(Act{Run: f.run}.Pause())
	case k.Rune == 'x':
		f.withLive(func(a Act) { f.tell(a.Cancel()) })
	case k.Rune == 'm':
		f.withLive(func(a Act) {
			f.to, f.input, f.draft = a, NewInput("to "+a.Name+": ", f.draft), ""
		})
	}
}

// withLive is with for what only a job that has not ended can do. The caller holds f.mu.
func (f *Face) withLive(do func(Act)) {
	f.with(func(a Act) {
		if !slices.ContainsFunc(f.lines, func(l joblines.Line) bool { return l.ID == a.ID && l.Live }) {
			f.tell(a.Ended())
			return
		}
		do(a)
	})
}

// with calls do with the chosen job. The caller holds f.mu.
func (f *Face) with(do func(Act)) {
	name := f.names[f.chosen]
	if f.chosen == "" || name == "" {
		f.tell("choose a job first: ↑ ↓")
		return
	}
	do(Act{f.run, f.chosen, name})
}

// typed handles a key of a message.
func (f *Face) typed(k keys.Key) {
	switch f.input.Press(k) {
	case Entered:
		notice, kept := f.to.Message(f.input.Text())
		f.leave()
		f.draft = kept
		f.tell(notice)
	case Left:
		f.leave()
	}
}

// move chooses another job.
func (f *Face) move(by int) {
	n := len(f.lines)
	if n == 0 {
		return
	}
	switch at := slices.IndexFunc(f.lines, func(l joblines.Line) bool { return l.ID == f.chosen }); {
	case at >= 0:
		f.at = at + by
	case f.chosen != "": // it has no line any more
	case by < 0:
		f.at = n - 1
	default:
		f.at = 0
	}
	f.at = max(min(f.at, n-1), 0)
	f.chosen = f.lines[f.at].ID
}

// tell shows a notice.
func (f *Face) tell(text string) { f.notice, f.until = text, time.Now().Add(noticeTime) }

// holdTime is how long the screen may be in use by others before a transcript is shown: a question comes first.
const holdTime = 100 * time.Millisecond

// show shows the transcript of a job until the person leaves it. The caller holds f.mu, which is free meanwhile.
func (f *Face) show(a Act) {
	p := pane.New(f.out, true)
	f.pane = p
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.pane = nil
	}()
	ctx, cancel := context.WithTimeout(context.Background(), holdTime)
	defer cancel()
	release, err := f.screen.Hold(ctx)
	if err != nil {
		return
	}
	defer release()
	if f.term.Start() != nil { // Hold has stopped it
		return
	}
	defer f.term.Stop()
	if p.Open() != nil {
		return
	}
	defer p.Close()
	f.view(p, a)
}

// view draws the transcript and handles keys.
func (f *Face) view(p *pane.Pane, a Act) {
	t := Follow(a)
	defer t.Close()
	g := &pane.Pager{Title: "transcript of " + a.Name}
	for {
		g.Set(t.Text())
		g.Hint = "↑ ↓ space b  scroll   q  goes back"
		if snap, err := a.Run.Snapshot(); err == nil && len(snap.Questions) > 0 {
			g.Hint = "a question waits for you: q goes back to it"
		}
		columns, rows := f.term.Size()
		size := block.Size{Columns: columns, Rows: rows}
		if p.Draw(g.Rows(size), size) != nil {
			return
		}
		select {
		case <-f.done:
			return
		case <-f.ends:
			return
		case <-t.News():
		case e := <-f.term.Events():
			switch {
			case e.Kind == terminal.Closed:
				return
			case e.Kind == terminal.Resumed:
				if p.Open() != nil {
					return
				}
			case e.Kind == terminal.Resized:
				p.Resized()
			case e.Kind == terminal.Key && Leaves(e.Key):
				return
			case e.Kind == terminal.Key:
				g.Press(e.Key)
			}
		}
	}
}

// Leaves reports whether a key leaves what is shown.
func Leaves(k keys.Key) bool {
	return k.Code == keys.Escape || k == keys.Key{Rune: 'q'} || k == keys.Key{Rune: 'c', Ctrl: true}
}

var (
	_ command.KeyReader = (*Face)(nil)
	_ output.JobLines   = (*Face)(nil)
	_ terminal.Guest    = (*Face)(nil)
)
