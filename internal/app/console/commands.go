package console

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/columns"
	"qq/internal/app/command"
	"qq/internal/app/joblines"
	"qq/internal/app/output"
	"qq/internal/undo"
	"qq/pkg/session"
	"qq/pkg/spelling"
	"qq/pkg/task"
)

// maxTree is how many jobs /tree shows.
const maxTree = 200

// slash is a command that the console knows by itself.
type slash struct {
	name, arguments, about string
	do                     func(c *console, argument string) error
}

// slashes returns the commands of the console, in the order in which help lists them.
func slashes() []slash {
	return []slash{
		{"help", "", "this list", (*console).help},
		{"agents", "[NAME]", "list the agents, or talk to another one", (*console).agents},
		{"model", "[NAME]", "say which model answers, or choose another one", (*console).model},
		{"tools", "", "list the tools of the agent", (*console).tools},
		{"tree", "", "show the agents at work", (*console).tree},
		{"cancel", "[ID]", "end the answer, or one of the agents at work", (*console).cancel},
		{"approve", "[MODE]", "what happens to a call that can do harm: ask, auto or deny", (*console).approve},
		{"session", "[ID | new]", "say which session this is, or go on with another one", (*console).chooseSession},
		{"cost", "", "what the conversation has used", (*console).cost},
		{"undo", "", "take back what file tools changed in the last answer", (*console).undo},
		{"quit", "", "end; qq -c goes on with the conversation", (*console).quit},
	}
}

// commandNames returns the names of all slash commands.
func (c *console) commandNames() (names []string) {
	for _, s := range slashes() {
		names = append(names, "/"+s.name)
	}
	for _, t := range c.templates {
		names = append(names, "/"+t.Name)
	}
	return names
}

// run runs the line of a slash command. A template becomes a task.
func (c *console) run(line string) error {
	word, argument, _ := strings.Cut(strings.TrimPrefix(line, "/"), " ")
	word, rest, more := strings.Cut(word, "\n")
	if argument = strings.TrimSpace(argument); more {
		argument = rest + " " + argument
	}
	for _, s := range slashes() {
		if s.name != word {
			continue
		}
		if s.arguments == "" && argument != "" {
			return command.Usagef("/help lists the commands", "/%s takes nothing more", s.name)
		}
		return s.do(c, argument)
	}
	for _, t := range c.templates {
		if t.Name == word {
			return c.ask(t.Task(argument))
		}
	}
	for _, t := range c.untrusted {
		if t.Name == word {
			return command.Usagef("`qq trust` shows it and asks", "%s is not trusted", t.File)
		}
	}
	hint := "/help lists the commands; a text that begins with a slash can begin with a space"
	if near := spelling.Nearest("/"+word, c.commandNames()); near != "" {
		hint = spelling.DidYouMean(near) + hint
	}
	return command.Usagef(hint, "there is no command /%s", command.Printable(word))
}

// say adds lines of the console itself.
func (c *console) say(lines ...string) {
	for _, line := range lines {
		c.paper.add(command.Printable(line) + "\n")
	}
}

func (c *console) help(string) error {
	rows := [][2]string{}
	for _, s := range slashes() {
		rows = append(rows, [2]string{strings.TrimSpace("/" + s.name + " " + s.arguments), s.about})
	}
	for _, t := range c.templates {
		rows = append(rows, [2]string{"/" + t.Name, cmp.Or(t.Description, t.Brief())})
	}
	rows = append(rows, [2]string{"!COMMAND", "run a command in the sandbox"},
		[2]string{"@FILE", "give a file to the agent; Tab completes"},
		[2]string{"Alt-Enter", "begin a line; so does Ctrl-J, and \\ before Enter"},
		[2]string{"Ctrl-R", "search what was typed before"},
		[2]string{"Ctrl-C", "end the answer; twice, end qq"})
	c.table(rows)
	if n := len(c.untrusted); n > 0 {
		c.say(fmt.Sprintf("%d commands of this folder are not offered: `qq trust` shows them and asks", n))
	}
	return nil
}

// table adds rows of two columns.
func (c *console) table(rows [][2]string) {
	wide, _ := c.paper.size()
	first := 0
	for _, r := range rows {
		first = max(first, min(columns.Of(r[0]), 24))
	}
	for _, r := range rows {
		gap := strings.Repeat(" ", max(0, first-columns.Of(r[0])))
		c.say(columns.Cut("  "+output.OneLine(r[0])+gap+"  "+output.OneLine(r[1]), wide-1))
	}
}

func (c *console) agentNames() (names []string) {
	for _, e := range c.Checkout.Agents.List() {
		if e.Err == nil {
			names = append(names, e.Agent.Name)
		}
	}
	return names
}

// agent returns the name of the agent that answers.
func (c *console) agent() string { return cmp.Or(c.flags.String("agent"), c.Checkout.Settings.Agent) }

func (c *console) agents(name string) error {
	if name != "" {
		if _, err := command.FindAgent(c.Checkout.Agents, name); err != nil {
			return err
		}
		return c.set("agent", name, "the next task is for "+name)
	}
	var rows [][2]string
	for _, e := range c.Checkout.Agents.List() {
		if e.Err != nil {
			continue
		}
		mark := "  "
		if e.Agent.Name == c.agent() {
			mark = "* "
		}
		rows = append(rows, [2]string{mark + e.Agent.Name, e.Agent.Description})
	}
	c.table(rows)
	return nil
}

// set changes a flag for what comes next. The run of an answer reads the settings.
func (c *console) set(name, value, done string) error {
	if c.turn != nil {
		return errBusy()
	}
	over := flag.NewFlagSet(name, flag.ContinueOnError)
	over.String(name, "", "")
	if err := over.Set(name, value); err != nil {
		return command.Usage(err)
	}
	next := cli.NewContext(c.flags.App, over, c.flags)
	if _, err := c.Open(next); err != nil {
		_, again := c.Open(c.flags)
		return cmp.Or(again, err)
	}
	c.flags = next
	c.say(done)
	return nil
}

func (c *console) model(name string) error {
	if name == "" {
		set := c.Checkout.Settings
		c.say(fmt.Sprintf("the model is %s (%s); `qq models` lists those that can be had",
			cmp.Or(set.Model, "auto"), cmp.Or(set.Source("QQ_MODEL"), "default")))
		return nil
	}
	return c.set("model", name, "the next task is for "+name)
}

func (c *console) tools(string) error {
	a, err := command.FindAgent(c.Checkout.Agents, c.agent())
	if err != nil {
		return err
	}
	c.say(a.Name + " may use: " + cmp.Or(strings.Join(a.Toolset(), ", "), "no tools"))
	return nil
}

func (c *console) tree(string) error {
	if c.turn == nil {
		c.say("no agent is at work")
		return nil
	}
	snap := c.turn.snapshot()
	wide, _ := c.paper.size()
	view := joblines.View{Now: time.Now(), Width: wide - 12, Most: maxTree}
	for _, l := range joblines.Of(snap.Jobs, snap.Ended, view).Lines {
		c.say(task.ShortID(l.ID) + "  " + l.Text)
	}
	return nil
}

func (c *console) cancel(id string) error {
	if c.turn == nil {
		return command.Usagef("Ctrl-C twice ends qq", "no answer is being written")
	}
	if id == "" {
		c.stop()
		return nil
	}
	found := c.turn.find(id)
	if len(found) != 1 {
		return command.Usagef("/tree shows the ids", "%d agents at work have the id %s", len(found),
			command.Printable(id))
	}
	r := c.turn.live()
	if r == nil {
		return nil
	}
	return r.Cancel(found[0].ExecutionID)
}

func (c *console) approve(mode string) error {
	if mode == "" {
		c.say("calls that can do harm: " + c.Checkout.Settings.Approve + " (/approve ask, auto or deny)")
		return nil
	}
	return c.set("approve", mode, "from the next task on: "+mode)
}

func (c *console) chooseSession(id string) error {
	switch {
	case id == "" && c.session.Ephemeral:
		c.say("no session is kept: qq began with --ephemeral")
		return nil
	case id == "" && c.session.ID == "":
		c.say("no session yet: it begins with the first task")
		return nil
	case id == "":
		c.say("session " + c.session.ID + "; qq -s " + c.session.ID + " goes on with it")
		return nil
	case c.turn != nil:
		return errBusy()
	case id == "new":
		c.forget()
		c.session, c.past = session.Choice{Ephemeral: c.session.Ephemeral}, session.Transcript{}
		c.say("the next task begins a session")
		return nil
	case c.session.Ephemeral:
		return command.Usagef("begin qq without it: qq -s ID",
			"with --ephemeral no session goes on")
	}
	whole, err := session.Of(c.Checkout.Settings.Home).Find(id)
	if err != nil {
		return command.Advised(err, "`qq sessions` lists them")
	}
	c.forget()
	c.session, c.past = session.Choice{ID: whole}, session.Transcript{}
	c.say("the next task goes on with session " + whole)
	return nil
}

func errBusy() error {
	return command.Usagef("wait for the end of the answer, or end it with Ctrl-C", "an answer is being written")
}

func (c *console) cost(string) error {
	used := c.used
	if c.turn != nil {
		used = used.Add(c.turn.snapshot().Used)
	}
	c.say(output.Account(used))
	return nil
}

func (c *console) undo(string) error {
	if c.turn != nil {
		return errBusy()
	}
	if c.undone {
		c.say("the last answer is undone already")
		return nil
	}
	report, err := c.bookOf().Undo(c.ctx)
	c.undone = err == nil && len(report.Undone) > 0 && len(report.Left) == 0
	c.say(report.Lines()...)
	if err == nil && len(report.Lines()) == 0 {
		c.say("the last answer has changed no file")
	}
	return err
}

// bookOf returns what keeps the changes of the answers of the session.
func (c *console) bookOf() *undo.Book {
	if c.book == nil {
		book, err := undo.For(c.Checkout.Settings.Home, cmp.Or(c.session.ID, task.NewID()))
		if err != nil {
			c.say("qq: /undo will not work: " + err.Error())
			return nil
		}
		c.book = book
	}
	return c.book
}

// forget leaves the book of the conversation. One without a transcript is removed: nothing can find it any more.
func (c *console) forget() {
	if c.session.ID == "" && c.book != nil {
		if err := c.book.Remove(); err != nil {
			c.say("qq: " + err.Error())
		}
	}
	c.book, c.undone = nil, false
}

func (c *console) quit(string) error {
	c.quits = true
	if c.turn != nil {
		c.stop()
	}
	return nil
}

// bang runs a command of a person.
func (c *console) bang(line string) error {
	line = strings.TrimSpace(line)
	if line == "" {
		return command.Usagef("for example: !git status", "there is no command behind the !")
	}
	return c.begin(task.Task{Text: "!" + line}, &Typed{line: line})
}

// ask gives a text to the agent.
func (c *console) ask(text string) error {
	t, err := attach(task.Task{Text: text, Context: strings.Join(c.ran, "\n\n")})
	if err != nil {
		return err
	}
	if err := c.begin(t, nil); err != nil {
		return err
	}
	c.ran = nil
	return nil
}

// begin begins a turn.
func (c *console) begin(t task.Task, typed *Typed) error {
	if c.turn != nil {
		return errBusy()
	}
	turn := newTurn()
	turn.Task, turn.Typed, turn.Session, turn.Allow, turn.Screen = t, typed, c.session, c.allowed, c.inbox
	turn.Task.Agent = c.agent()
	if typed != nil { // what a person types needs no question, unless it would need one each time
		turn.Allow = append(slices.Clone(c.allowed), shellTool)
	} else {
		turn.Book = c.bookOf()
	}
	if c.session.ID == "" {
		turn.Past = c.past.Messages()
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.turn, c.stopTurn, c.stopping = turn, cancel, false
	c.reply.said, c.reply.whole = false, false
	go func() {
		res, err := c.process.Turn(ctx, turn)
		c.ended <- outcome{res, err}
	}()
	return nil
}
