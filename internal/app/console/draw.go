package console

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"qq/internal/app/columns"
	"qq/internal/app/command"
	"qq/internal/app/joblines"
	"qq/internal/app/output"
	"qq/internal/control/board"
	"qq/internal/models"
	"qq/internal/terminal/editor"
	"qq/internal/terminal/markdown"
	"qq/internal/terminal/region"
	"qq/pkg/llm"
)

// maxWaiting is how many bytes of text wait for the terminal, about. Then writers wait.
const maxWaiting = 4 << 20

// inbox is the text that others want to show, in order. It implements command.Owner, as far as that prints, and Screen.
type inbox struct {
	wake chan struct{}

	mu    sync.Mutex
	room  *sync.Cond // signalled when the inbox is emptied
	items []item
	bytes int
	ended bool // nobody empties it any more
}

// item is a text, or what happens in an answer.
type item struct {
	kind kind
	text string
}

type kind int

const (
	note   kind = iota // whole lines of others
	begins             // the agent begins; the text is its model
	chunk              // a piece of the answer
	turned             // a turn of the model has ended
	final              // the same, and its text is the answer
)

func newInbox() *inbox {
	b := &inbox{wake: make(chan struct{}, 1)}
	b.room = sync.NewCond(&b.mu)
	return b
}

func (b *inbox) put(k kind, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes > 0 && b.bytes+len(text) > maxWaiting && !b.ended {
		b.room.Wait()
	}
	b.items, b.bytes = append(b.items, item{k, text}), b.bytes+len(text)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns what is there. last says that nobody will take any more.
func (b *inbox) take(last bool) []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items, b.bytes, b.ended = nil, 0, last
	b.room.Broadcast()
	return items
}

// Begin implements Screen.
func (b *inbox) Begin(_, model string) { b.put(begins, model) }

// Chunk implements loop.Screen.
func (b *inbox) Chunk(c llm.Chunk) {
	if c.Text != "" {
		b.put(chunk, c.Text)
	}
}

// TurnEnd implements loop.Screen.
func (b *inbox) TurnEnd(last bool) {
	if last {
		b.put(final, "")
	} else {
		b.put(turned, "")
	}
}

// paper is the terminal: text that stays, and the lines below it. Its mutex is held while something is written.
type paper struct {
	out      *command.Output
	size     func() (columns, rows int)
	coloured bool

	mu     sync.Mutex
	lent   int  // how many have the terminal for a question
	rests  bool // the process is to stop
	region region.Region
	text   strings.Builder // that is to be written
	err    error           // of a write: the terminal is gone
}

// add adds text that stays; it ends with a newline.
func (p *paper) add(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.WriteString(text)
}

// show writes what was added, and v below it.
func (p *paper) show(v region.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lent > 0 || p.rests {
		return
	}
	wide, high := p.size()
	text := p.text.String()
	p.text.Reset()
	p.write(p.region.Draw(text, v, wide, high))
}

// erase removes the lines, and writes what was added.
func (p *paper) erase() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eraseNow()
}

func (p *paper) eraseNow() {
	wide, _ := p.size()
	p.write(p.region.Erase(wide) + p.text.String())
	p.text.Reset()
}

// rest says whether nothing is drawn, because a shell has the terminal.
func (p *paper) rest(rests bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests = rests
}

// forget forgets what is on the screen.
func (p *paper) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.region.Forget()
}

// clear makes the screen empty.
func (p *paper) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lent > 0 {
		return
	}
	p.write("\x1b[H\x1b[2J")
	p.region.Forget()
}

// failed returns the error of a write: the terminal is gone.
func (p *paper) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// write writes text at once. The caller holds p.mu.
func (p *paper) write(text string) {
	if text != "" && p.err == nil {
		p.err = p.out.Draw(text)
	}
}

// dim returns text in a pale colour.
func (p *paper) dim(text string) string {
	if !p.coloured || text == "" {
		return text
	}
	return "\x1b[2m" + text + "\x1b[0m"
}

func (p *paper) bold(text string) string {
	if !p.coloured || text == "" {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// reply is the answer that is written.
type reply struct {
	renderer *markdown.Renderer
	tail     string // the line that is not finished
	said     bool   // this turn of the model has text
	whole    bool   // the answer is on the screen
}

// show handles what came into the inbox.
func (c *console) show(items []item) {
	for _, i := range items {
		switch i.kind {
		case note:
			c.paper.add(strings.TrimSuffix(i.text, "\n") + "\n")
		case begins:
			if i.text == models.Extract {
				c.paper.add(output.Copied + "\n")
			}
		case chunk:
			c.reply.said = c.reply.said || strings.TrimSpace(i.text) != ""
			c.write(c.reply.renderer.Write(i.text))
		case turned, final:
			c.endText()
			c.reply.whole, c.reply.said = i.kind == final && c.reply.said, false
		}
	}
}

// write adds text of the answer. Its last line may go on.
func (c *console) write(text string) {
	c.reply.tail += text
	if end := strings.LastIndexByte(c.reply.tail, '\n'); end >= 0 {
		c.paper.add(c.reply.tail[:end+1])
		c.reply.tail = c.reply.tail[end+1:]
	}
}

// endText ends the line of the answer.
func (c *console) endText() {
	c.write(c.reply.renderer.End())
	if c.reply.tail != "" {
		c.write("\n")
	}
}

// draw shows what is new, and the lines below it.
func (c *console) draw() {
	wide, high := c.paper.size()
	c.reply.renderer.Resize(wide - 1)
	c.paper.show(c.view(wide, high))
	c.drawn = time.Now()
}

// view returns the lines below the text: the unfinished line of the answer, the jobs, how far the answer is, and what a
// person types.
func (c *console) view(wide, high int) region.View {
	var v region.View
	if c.reply.tail != "" {
		rows := region.Rows(c.reply.tail, max(1, wide-1))
		v.Lines = append(v.Lines, rows[max(0, len(rows)-max(1, high/3)):]...)
	}
	if c.turn != nil {
		v.Lines = append(v.Lines, c.status(wide, high)...)
	}
	e := c.editor.Render(editor.Frame{Width: wide - 1, Rows: max(1, high/2), Prompt: typedMark})
	if len(e.Lines) > 0 {
		if rest, ok := strings.CutPrefix(e.Lines[0], typedMark); ok && c.turn == nil {
			e.Lines[0] = c.paper.bold(strings.TrimSpace(typedMark)) + " " + rest
		}
	}
	v.Row, v.Column = len(v.Lines)+e.Row, e.Column
	v.Lines = append(v.Lines, e.Lines...)
	if c.hint != "" {
		v.Lines = append(v.Lines, c.paper.dim(columns.Cut(c.hint, wide-1)))
	}
	return v
}

// status returns lines about the turn that runs.
func (c *console) status(wide, high int) []string {
	now := time.Now()
	snap := c.turn.snapshot()
	block := joblines.Of(snap.Jobs, snap.Ended, joblines.View{Now: now, Width: wide - 1, Most: max(0, high/3)})
	var lines []string
	for _, l := range block.Lines {
		lines = append(lines, c.paper.dim(l.Text))
	}
	does := "working"
	switch {
	case c.stopping:
		does = "stopping; Ctrl-C again ends qq"
	case c.turn.live() == nil:
		does = "starting"
	case c.turn.Typed != nil:
		does = "running " + c.turn.Typed.line
	case c.reply.tail != "" || c.reply.said:
		does = "answering"
	case len(snap.Jobs) > 0 && snap.Jobs[0].Doing == board.Tool:
		does = "running " + joblines.Does(&snap.Jobs[0])
	}
	if text := block.Count.String(); text != "" && !c.stopping {
		does = text
	}
	line := fmt.Sprintf("%s %s · %s", frames[int(now.UnixMilli()/200)%len(frames)],
		columns.Cut(output.OneLine(does), max(10, wide-30)), output.Clock(now.Sub(c.turn.started)))
	if n := snap.Used.Tokens(); n > 0 {
		line += " · " + tokens(n)
	}
	return append(lines, c.paper.dim(columns.Cut(line, wide-1)))
}

// tokens says how many there are.
func tokens(n int) string {
	if n < 1000 {
		return fmt.Sprintf("%d tokens", n)
	}
	return fmt.Sprintf("%.1fk tokens", float64(n)/1000)
}

// frames show that something goes on.
var frames = [...]string{"·", "•", "●", "•"}
