// Package console is what qq does on a terminal without a task: a conversation with an agent.
//
// Vocabulary: a turn is a text of a person and the answer to it. The paper is the terminal: text that stays, and below
// it the unfinished line of the answer, the agents at work, and the lines of the editor.
//
// Flow: [Run] reads keys and draws, in one goroutine. A turn runs in another one, as a run like that of `qq -c "text"`:
// see [Process]. What it shows comes through the inbox, as does whatever else the program prints: the console owns the
// terminal ([command.Owner]). While a question is open the terminal is lent to whoever asks.
//
// A line that begins with a slash is a command of the console, or a template of a person (package template). One that
// begins with ! is a command for the shell, see [Typed]. @file gives a file to the agent. While an answer is written,
// what a person types is a message to the agent.
package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/columns"
	"qq/internal/app/command"
	"qq/internal/app/console/template"
	"qq/internal/app/output"
	"qq/internal/app/prompt"
	"qq/internal/terminal"
	"qq/internal/terminal/editor"
	"qq/internal/terminal/keys"
	"qq/internal/terminal/markdown"
	"qq/internal/undo"
	"qq/pkg/session"
	"qq/pkg/task"
)

// Signals tell of Control-C that comes as a signal, while a question has the terminal.
type Signals interface {
	// Divert sends each SIGINT to ch; nil ends that.
	Divert(ch chan<- os.Signal)
	// Code returns the exit code of a program that a signal ends; 0 if there was none.
	Code() int
}

// errInterrupted is why a turn ends that a person ends.
var errInterrupted = &task.Error{Status: task.Interrupted, Problem: "stopped by Ctrl-C"}

const (
	// frame is the shortest time between two pictures of an answer. Keys are shown at once.
	frame = 40 * time.Millisecond
	// tick is how often the line about a turn changes.
	tick = 200 * time.Millisecond
	// again is how long after Control-C another one ends the program.
	again = 2 * time.Second
	// settleTime is how long a question waits for what its agent has said.
	settleTime = 2 * time.Second
)

// console is a conversation.
type console struct {
	*command.Invocation
	ctx       context.Context
	flags     *cli.Context
	process   Process
	terminal  *terminal.Terminal
	paper     *paper
	inbox     *inbox
	editor    *editor.Editor
	memory    memory
	templates []template.Command
	untrusted []template.Command // of the checkout

	session session.Choice
	past    session.Transcript // of a conversation without a transcript
	allowed []string           // tools, for the session
	used    task.Usage
	book    *undo.Book
	undone  bool     // all that file tools changed in the last answer is taken back
	ran     []string // commands of a person, and what they printed, for the next task

	turn     *Turn // nil between two turns
	stopTurn context.CancelCauseFunc
	stopping bool // a person has ended the turn
	ended    chan outcome
	flush    chan chan struct{} // asks for what is in the inbox to be shown; what is sent is closed then
	reply    reply
	hint     string    // below the editor
	pressed  time.Time // when Control-C was pressed last
	drawn    time.Time
	quits    bool
	code     int // exit code
}

// outcome is how a turn ended.
type outcome struct {
	res task.Result
	err error
}

// Wanted reports whether qq is to begin a conversation: there is no task, and a terminal that can show one.
func Wanted(i *command.Invocation, c *cli.Context) bool {
	info, err := i.In.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && i.Out.Terminal() && i.Err.Terminal() &&
		i.Env.Get("TERM") != "dumb" && i.Checkout.Settings.Depth == 0 && !prompt.Given(c)
}

// Run holds a conversation until the person ends it.
func Run(flags *cli.Context, i *command.Invocation, p Process, s Signals, begin session.Choice) error {
	c := &console{Invocation: i, ctx: flags.Context, flags: flags, process: p, inbox: newInbox(), session: begin,
		ended: make(chan outcome, 1), flush: make(chan chan struct{})}
	if err := flags.Set("cwd", i.Checkout.Dir); err != nil { // it is read again when a flag changes
		return err
	}
	t, err := terminal.Open(terminal.Config{})
	if err != nil {
		return task.Hinted(`give a task: qq "Summarize README.md"`, "the terminal cannot be used: %w", err)
	}
	defer t.Close()
	c.terminal = t
	c.paper = &paper{out: i.Out, size: t.Size, coloured: i.Coloured(i.Out)}
	wide, _ := t.Size()
	c.reply.renderer = markdown.New(wide-1, c.paper.coloured)
	c.load()
	if err := t.Start(); err != nil {
		return err
	}
	i.Screen.Drain()
	i.Screen.Own(owner{c})
	interrupts := make(chan os.Signal, 4)
	s.Divert(interrupts)
	defer func() {
		s.Divert(nil)
		c.show(c.inbox.take(true))
		i.Screen.Own(nil)
		c.hint = ""
		c.paper.erase()
	}()
	c.greet()
	c.loop(interrupts)
	switch {
	case c.paper.failed() != nil:
		return output.WriteError(c.paper.failed())
	case s.Code() != 0:
		c.code = s.Code()
	}
	if c.session.ID != "" {
		c.say("qq -c goes on with this conversation (session " + c.session.ID + ")")
	}
	c.forget()
	if c.code != 0 {
		return command.Said(c.code)
	}
	return nil
}

// load reads the history and the templates.
func (c *console) load() {
	set := c.Checkout.Settings
	if !c.session.Ephemeral {
		c.memory.path = filepath.Join(set.Home, historyFile)
	}
	history, err := c.memory.load()
	if err != nil {
		c.Say("%v", err)
		c.memory.path = ""
	}
	c.editor = editor.New(history, c)
	c.templates, c.untrusted = template.Usable(c.Checkout.Dir, c.Env.ConfigHome(), c.Checkout.Trust)
}

// greet says where the person is.
func (c *console) greet() {
	if c.Quiet {
		return
	}
	wide, _ := c.paper.size()
	line := fmt.Sprintf("qq %s · %s · /help lists the commands · %s", c.Version, c.agent(), c.Checkout.Dir)
	c.paper.add(c.paper.dim(columns.Cut(command.Printable(line), wide-1)) + "\n")
}

// owner is the console as the owner of the terminal.
type owner struct{ *console }

// Print implements command.Owner.
func (o owner) Print(text string) { o.inbox.put(note, text) }

// settle waits until what an agent has said is on the screen, but not long.
func (c *console) settle() {
	late, done := time.After(settleTime), make(chan struct{})
	select {
	case c.flush <- done:
		select {
		case <-done:
		case <-late:
		}
	case <-late: // nobody shows anything now
	}
}

// Lend implements command.Lender. A question comes after what its agent has said.
func (o owner) Lend() {
	o.settle()
	p := o.paper
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lent++; p.lent > 1 {
		return
	}
	p.eraseNow()
	o.terminal.Stop()
}

// Regain implements command.Lender.
func (o owner) Regain() {
	p := o.paper
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lent--; p.lent > 0 {
		return
	}
	p.region.Forget()
	_ = o.terminal.Start() // in the background of a shell it starts when the process goes on
}

// loop handles what happens until the end.
func (c *console) loop(interrupts <-chan os.Signal) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	ends := c.ctx.Done()
	var later <-chan time.Time // when the next picture is due
	for c.draw(); !c.quits || c.turn != nil; {
		select {
		case e, open := <-c.terminal.Events():
			if !open || !c.handle(e) {
				c.leave()
			}
			c.draw()
		case <-interrupts:
			c.interrupt()
			c.draw()
		case <-c.inbox.wake:
			if later == nil {
				later = time.After(frame - time.Since(c.drawn))
			}
		case <-later:
			later = nil
			c.show(c.inbox.take(false))
			c.draw()
		case done := <-c.flush:
			c.show(c.inbox.take(false))
			c.draw()
			close(done)
		case o := <-c.ended:
			c.show(c.inbox.take(false))
			c.finish(o)
			c.draw()
		case <-ticker.C:
			if c.turn != nil || c.hint != "" {
				c.age()
				c.draw()
			}
		case <-ends:
			ends = nil
			c.leave()
		}
		if c.paper.failed() != nil {
			c.leave()
		}
	}
}

// age removes a hint that holds no more.
func (c *console) age() {
	if c.hint != "" && time.Since(c.pressed) > again {
		c.hint = ""
	}
}

// leave ends the conversation, and first the turn.
func (c *console) leave() {
	c.quits = true
	if c.turn != nil && !c.stopping {
		c.stop()
	}
}

// handle handles an event of the terminal. It returns false if the terminal is gone.
func (c *console) handle(e terminal.Event) bool {
	switch e.Kind {
	case terminal.Closed:
		return false
	case terminal.Resumed:
		c.paper.rest(false)
		c.paper.forget()
	case terminal.Key:
		c.press(e.Key)
	}
	return true
}

// press handles a key.
func (c *console) press(k keys.Key) {
	if k.Code == keys.Paste && k.Cut > 0 {
		c.tell(fmt.Sprintf("the paste was too long: %d bytes at its end are left out", k.Cut))
	}
	action := c.editor.Press(k)
	if action != editor.Interrupt && c.hint != "" {
		c.hint = ""
	}
	switch action {
	case editor.Interrupt:
		c.interrupt()
	case editor.Submit:
		c.submit()
	case editor.Leave:
		if c.turn == nil {
			c.quits = true
		} else {
			c.tell("Ctrl-C ends the answer")
		}
	case editor.Suspend:
		c.paper.erase()
		c.paper.rest(c.terminal.Suspend())
	case editor.Clear:
		c.paper.clear()
	}
}

// tell shows a hint for a moment.
func (c *console) tell(hint string) { c.hint, c.pressed = hint, time.Now() }

// interrupt handles Control-C: it ends the answer, or empties the editor; twice it ends the program.
func (c *console) interrupt() {
	twice := time.Since(c.pressed) < again && !c.pressed.IsZero()
	switch {
	case c.turn != nil && c.stopping:
		c.code, c.quits = 130, true
		c.process.Kill()
	case c.turn != nil:
		c.stop()
	case twice && c.editor.Empty() && c.hint != "":
		c.code, c.quits = 130, true
	case !c.editor.Empty():
		c.editor.Reset()
		c.tell("")
	default:
		c.tell("Ctrl-C again ends qq")
	}
}

// stop ends the turn.
func (c *console) stop() {
	c.stopping = true
	c.stopTurn(errInterrupted)
}

// submit takes what a person has typed.
func (c *console) submit() {
	text, shown := c.editor.Text(), c.editor.Shown()
	if strings.TrimSpace(text) == "" {
		return
	}
	if c.editor.History.Add(text) {
		if err := c.memory.add(text); err != nil {
			c.say("qq: the history is not kept: " + err.Error())
			c.memory.path = ""
		}
	}
	c.editor.Reset()
	mark := typedMark
	if c.turn != nil && !strings.HasPrefix(text, "/") {
		mark = "» "
	}
	c.echo(mark, shown)
	var err error
	switch line := strings.TrimSpace(text); {
	case strings.HasPrefix(text, "/"):
		err = c.run(line)
	case c.turn != nil:
		err = c.send(text)
	case strings.HasPrefix(text, "!"):
		err = c.bang(text[1:])
	default:
		err = c.ask(text)
	}
	if err != nil {
		c.fail(err)
	}
}

// typedMark is before what a person types, and has typed.
const typedMark = "> "

// echo adds what a person has typed to the text that stays.
func (c *console) echo(mark, text string) {
	for line := range strings.Lines(text) {
		c.paper.add(c.paper.bold(mark+command.Printable(strings.TrimSuffix(line, "\n"))) + "\n")
		mark = "  "
	}
}

// send sends a message to the agent that answers.
func (c *console) send(text string) error {
	if strings.HasPrefix(text, "!") || c.turn.Typed != nil {
		return errBusy()
	}
	return c.turn.tell(text)
}

// fail shows an error.
func (c *console) fail(err error) {
	var b strings.Builder
	command.Report(&b, err)
	c.paper.add(command.Printable(b.String()))
}

// finish takes the result of a turn.
func (c *console) finish(o outcome) {
	t := c.turn
	c.endText()
	c.turn, c.used, c.undone = nil, c.used.Add(t.last.Used), false
	c.allowed = append(c.allowed, t.allowed...)
	c.stopTurn(nil)
	switch {
	case t.Typed != nil:
		c.printed(t.Typed, o)
		return
	case o.err != nil:
		c.fail(o.err)
		return
	}
	if c.session = t.Session; c.session.ID == "" {
		for _, e := range t.entries {
			c.past.Add(e)
		}
	}
	if o.res.Output != "" && !c.reply.whole && o.res.Success {
		c.write(c.reply.renderer.Write(o.res.Output))
		c.endText()
	}
	c.warn(o.res.Warnings)
	if !o.res.Success {
		c.fail(errors.New(o.res.Err()))
	}
	line := output.Clock(time.Since(t.started))
	if n := t.last.Used.Tokens(); n > 0 {
		line += " · " + tokens(n)
	}
	if !c.Quiet {
		c.paper.add(c.paper.dim("("+line+")") + "\n")
	}
}

// warn shows warnings. That children have ended, which the person has ended with the answer, is none.
func (c *console) warn(all []string) {
	for _, w := range all {
		ended := strings.HasSuffix(w, ": "+errInterrupted.Problem) || strings.HasSuffix(w, "sub-agents failed")
		if !c.stopping || !ended {
			c.say("qq: warning: " + w)
		}
	}
}

// printed shows what a command has printed. The agent gets it with the next task.
func (c *console) printed(t *Typed, o outcome) {
	if !t.done {
		err := o.err
		if err == nil {
			err = errors.New(o.res.Err())
		}
		c.fail(err)
		return
	}
	c.paper.add(command.Printable(strings.TrimRight(t.output, "\n")) + "\n")
	c.ran = append(c.ran, "I ran the command `"+t.line+"`. It printed:\n"+t.output)
}
