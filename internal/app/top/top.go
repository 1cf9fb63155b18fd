// Package top holds qq top, which shows all runs of this user live, and qq runs watch, which shows one. Both are
// faces: a client of the control sockets, which a run does not wait for.
//
// Flow: a follower asks each root for its jobs, and hears of events when to ask again. A tree makes rows of them, and a
// [pane.Pane] draws those that have changed. Keys choose a row and steer what it stands for, see package steering.
package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/command/block"
	"qq/internal/app/joblines"
	"qq/internal/app/narrator"
	"qq/internal/app/output"
	"qq/internal/app/pane"
	"qq/internal/app/steering"
	"qq/internal/control"
	"qq/internal/terminal"
	"qq/internal/terminal/keys"
	"qq/pkg/task"
)

// top has what its commands share.
type top struct{ *command.Invocation }

// Command returns the command qq top.
func Command(i *command.Invocation) *cli.Command {
	t := top{i}
	return &cli.Command{
		Name: "top", Usage: "all runs at work, live, as a tree; ? lists its keys",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "until-end", Usage: "end when no run is at work any more"},
			command.FlagNoColor,
		},
		Action: t.show,
	}
}

// Runs adds qq runs watch to the command qq runs.
func Runs(runs *cli.Command, i *command.Invocation) *cli.Command {
	t := top{i}
	runs.Subcommands = append(runs.Subcommands, &cli.Command{
		Name: "watch", Usage: "show one run live, until it ends; without a terminal, print what happens",
		Description: "Its exit code is that of the run: 4 if tasks of a batch did not complete, 1 if it was killed. " +
			"Without a terminal it says first what is at work, and last how the run ended.",
		ArgsUsage: "ID", Flags: []cli.Flag{command.FlagNoColor}, Action: t.watch,
	})
	return runs
}

func (t top) show(c *cli.Context) error {
	if c.Args().Present() {
		return command.Usagef("qq runs watch ID shows one run", "qq top takes no arguments")
	}
	cfg, _, err := t.Configure(c)
	if err != nil {
		return err
	}
	if !t.able() {
		return command.Usagef("qq runs list --live prints what is at work, qq runs watch ID what a run does",
			"qq top needs a terminal for stdin and stdout")
	}
	return t.look(c.Context, follow(cfg.Home, ""), &screen{name: "qq top", until: c.Bool("until-end")})
}

func (t top) watch(c *cli.Context) error {
	if c.NArg() != 1 {
		return command.Usagef("qq runs list --live shows them", "%s takes one id", c.Command.HelpName)
	}
	cfg, _, err := t.Configure(c)
	if err != nil {
		return err
	}
	root, job, err := find(control.Look(cfg.Home), c.Args().First())
	if err != nil {
		return err
	}
	if !t.able() {
		return t.print(c.Context, root.Path)
	}
	return t.look(c.Context, follow(cfg.Home, root.ID),
		&screen{name: "qq runs watch", until: true, tree: tree{chosen: job}})
}

// able reports whether a screen can be shown and keys be read.
func (t top) able() bool {
	return t.Out.Terminal() && output.IsTerminal(t.In) && t.Env.Get("TERM") != "dumb"
}

// shortest is how many characters of an id must be given.
const shortest = 4

// find returns the root that works on the run or job with that id, its beginning or its end, and the id of the job.
func find(roots []control.Standing, id string) (root control.Standing, job string, err error) {
	matches := func(whole string) bool {
		return whole == id || len(id) >= shortest && (strings.HasPrefix(whole, id) || strings.HasSuffix(whole, id))
	}
	var found []string
	for _, r := range roots {
		ids := []string{r.ID, r.Root.BatchID}
		for _, j := range r.Jobs {
			ids = append(ids, j.ExecutionID)
		}
		for i, whole := range ids {
			if whole == "" || !matches(whole) || slices.Contains(found, whole) {
				continue
			}
			found, root, job = append(found, whole), r, whole
			if i == 1 {
				job = r.ID
			}
		}
	}
	switch len(found) {
	case 0:
		return root, "", command.Usagef("qq runs list --live shows what is; qq runs show tells of a run that has ended",
			"watch %s: no run at work has this id", id)
	case 1:
		return root, job, root.Err
	}
	return root, "", command.Usagef("use more of it: "+found[0]+", "+found[1]+" …",
		"watch %s: several ids begin or end so", id)
}

// print prints a line for each job at work, then one for each event of the run, and last how it has ended.
func (t top) print(ctx context.Context, path string) error {
	c, err := control.Dial(path)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)()
	snap, err := c.Subscribe(control.Subscribe{Light: true})
	if err != nil {
		return err
	}
	end := newEnding(snap)
	n := narrator.New(t.Out, false)
	t.begin(n, snap)
	for {
		e, err := c.Next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			r := run{Standing: control.Standing{ID: snap.Root.ExecutionID, Snapshot: snap}, end: end}
			fmt.Fprintln(t.Out, r.farewell())
			return cmp.Or(output.WriteError(t.Out.Err()), verdict(end))
		case errors.Is(err, control.ErrDropped):
			return task.Hinted("qq runs show tells what is recorded of it", "watch: %w", err)
		case err != nil:
			return err
		}
		end.add(e)
		if n.Event(e); t.Out.Err() != nil {
			return output.WriteError(t.Out.Err())
		}
	}
}

// begin prints what is at work.
func (t top) begin(n *narrator.Narrator, snap control.Snapshot) {
	for _, j := range snap.Jobs {
		if j.State == task.Queued {
			continue
		}
		n.Say(j.Depth, j.Agent, j.ExecutionID, fmt.Sprintf("at work for %s, %s: %s",
			output.Clock(time.Since(j.Started)), cmp.Or(joblines.Does(&j), "works"), j.Task))
	}
	if text := state(snap, time.Now()); text != "" {
		fmt.Fprintln(t.Out, text)
	}
}

// state says how far a run is: what its batch has done, how many jobs are queued and whether it is paused.
func state(snap control.Snapshot, now time.Time) string {
	var parts []string
	if snap.Batch != nil {
		parts = append(parts, progress(snap.Batch, now, 0, snap.Paused))
	}
	var count joblines.Count
	for _, j := range snap.Jobs {
		if j.State == task.Queued {
			count.Queued++
		}
	}
	if n := count.InBatch(snap.Batch, snap.Jobs).Queued; n > 0 {
		parts = append(parts, fmt.Sprintf("%d queued", n))
	}
	if snap.Paused {
		parts = append(parts, "paused")
	}
	return strings.Join(parts, ", ")
}

// screen is what a person looks at.
type screen struct {
	top
	name   string // of the command
	term   *terminal.Terminal
	pane   *pane.Pane
	runs   *follower
	tree   tree
	until  bool // it ends when no run is at work any more
	help   bool
	input  *steering.Input
	to     steering.Act
	draft  string // a message that could not be sent
	notice string
	shown  time.Time // the notice, since then
	sure   string    // id of the run that x is to end
	log    *steering.Transcript
	pager  *pane.Pager

	asked   map[steering.Run]bool // those that have not replied to a key yet
	replies chan reply
}

// look shows the runs on s until the person leaves, or until they have ended.
func (t top) look(ctx context.Context, f *follower, s *screen) (err error) {
	defer f.close()
	term, err := terminal.Open(terminal.Config{})
	if err != nil {
		return command.Usagef("bring it to the foreground", "%v", err)
	}
	defer term.Close()
	if err := term.Start(); err != nil {
		return err
	}
	s.top, s.term, s.pane, s.runs = t, term, pane.New(t.Out, t.Coloured(t.Out)), f
	s.tree.closed, s.asked, s.replies = map[string]bool{}, map[steering.Run]bool{}, make(chan reply)
	if err := s.pane.Open(); err != nil {
		return output.WriteError(err)
	}
	last, err := s.loop(ctx)
	if s.log != nil {
		s.log.Close()
	}
	if closed := s.pane.Close(); err == nil {
		err = output.WriteError(closed)
	}
	s.settle()
	if err != nil || last == "" {
		return err
	}
	t.Note("%s", last)
	if all := f.all(); f.only != "" && len(all) == 1 && all[0].end != nil {
		return verdict(all[0].end)
	}
	return nil
}

// verdict returns the exit code of qq runs watch as an error; nil means 0.
func verdict(e *ending) error {
	if code := e.code(); code != 0 {
		return command.Said(code)
	}
	return nil
}

const (
	// frame is the shortest time between two drawings that no key has asked for.
	frame = 250 * time.Millisecond
	// clock is how often the times are drawn again.
	clock = time.Second
	// noticeTime is how long a notice is shown.
	noticeTime = 4 * time.Second
)

// loop draws and handles keys. It returns what is to be said at the end.
func (s *screen) loop(ctx context.Context) (last string, err error) {
	tick := time.NewTicker(clock)
	defer tick.Stop()
	for {
		if last, ended := s.ended(); ended {
			return last, nil
		}
		if err := s.draw(time.Now()); err != nil {
			return "", output.WriteError(err)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		case <-s.logged():
		case r := <-s.replies:
			s.take(r)
		case <-s.runs.changed:
			if leave, over := s.await(ctx, frame); over {
				return leave, nil
			}
		case e := <-s.term.Events():
			if s.handle(e) {
				return "", nil
			}
		}
	}
}

// logged returns the channel that tells of news in the transcript that is shown.
func (s *screen) logged() <-chan struct{} {
	if s.log == nil {
		return nil
	}
	return s.log.News()
}

// await handles what is pressed during that time. over means that the person leaves.
func (s *screen) await(ctx context.Context, d time.Duration) (last string, over bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return "", false
		case <-ctx.Done():
			return "", false
		case e := <-s.term.Events():
			if s.handle(e) {
				return "", true
			}
			if s.draw(time.Now()) != nil { // the next one tells
				return "", false
			}
		}
	}
}

// ended reports whether the runs have ended that were to be shown, and how.
func (s *screen) ended() (last string, yes bool) {
	if !s.until {
		return "", false
	}
	all := s.runs.all()
	for _, r := range all {
		if r.ended.IsZero() {
			return "", false
		}
	}
	if len(all) == 0 && s.runs.only == "" {
		return "", s.runs.quiet()
	}
	for _, r := range all {
		last += r.farewell() + "; "
	}
	return strings.TrimSuffix(last, "; "), len(all) > 0
}

// draw draws the screen.
func (s *screen) draw(now time.Time) error {
	columns, rows := s.term.Size()
	size := block.Size{Columns: columns, Rows: rows}
	if s.pager != nil {
		s.pager.Set(s.log.Text())
		return s.pane.Draw(s.pager.Rows(size), size)
	}
	all := s.runs.all()
	s.tree.update(all, now, columns-3)
	foot := "? keys  q leave  ↑ ↓ choose  ← → close, open  Enter transcript  x cancel  m message  p pause"
	switch {
	case s.input != nil:
		foot = s.input.Line(columns - 1)
	case now.Sub(s.shown) < noticeTime:
		foot = s.notice
	case len(all) == 0:
		foot = "no run is at work  q leave"
	}
	var below []string
	if s.help {
		below = append(slices.Clone(steering.Help[:]), "← →    close or open what is below",
			"q      leave; Escape too, when there is nothing to take back", "questions: "+toAnswer)
	}
	return s.pane.Draw(s.tree.rows(head(s.name, all, now, columns-1), foot,
		below[:min(len(below), max(rows-4, 0))], size), size)
}

// handle handles what happens at the terminal. It returns true if the person leaves.
func (s *screen) handle(e terminal.Event) bool {
	switch e.Kind {
	case terminal.Closed:
		return true
	case terminal.Resumed:
		_ = s.pane.Open() // the next drawing tells
	case terminal.Resized:
		s.pane.Resized()
	case terminal.Key:
		return s.press(e.Key)
	}
	return false
}

func (s *screen) tell(text string) { s.notice, s.shown = text, time.Now() }

// press handles a key.
func (s *screen) press(k keys.Key) (leave bool) {
	if k.Ctrl && k.Rune == 'z' {
		_ = s.pane.Close() // the next drawing tells
		s.term.Suspend()
		return false
	}
	switch {
	case s.input != nil:
		s.typed(k)
	case s.pager != nil:
		if steering.Leaves(k) {
			s.log.Close()
			s.log, s.pager = nil, nil
		} else {
			s.pager.Press(k)
		}
	case k.Code == keys.Escape && (s.help || s.sure != "" || time.Since(s.shown) < noticeTime):
		s.help, s.sure, s.shown = false, "", time.Time{}
	case steering.Leaves(k):
		return true
	default:
		s.steer(k)
	}
	return false
}

// steer handles a key of the tree.
func (s *screen) steer(k keys.Key) {
	sure, help := s.sure, s.help
	s.sure, s.help = "", false // the help takes the room of the rows
	_, rows := s.term.Size()
	switch {
	case k.Code == keys.Up || k.Rune == 'k':
		s.tree.move(-1)
	case k.Code == keys.Down || k.Rune == 'j':
		s.tree.move(1)
	case k.Code == keys.PageUp:
		s.tree.move(-rows / 2)
	case k.Code == keys.PageDown:
		s.tree.move(rows / 2)
	case k.Code == keys.Home:
		s.tree.move(-len(s.tree.list))
	case k.Code == keys.End:
		s.tree.move(len(s.tree.list))
	case k.Code == keys.Left:
		s.tree.open(false)
	case k.Code == keys.Right:
		s.tree.open(true)
	case k.Rune == ' ' && s.tree.it() != nil:
		s.tree.open(s.tree.closed[s.tree.it().id])
	case k.Rune == '?':
		s.help = !help
	case k.Code == keys.Enter || k.Code == keys.Rune && !k.Ctrl && strings.ContainsRune("xmp", k.Rune):
		s.act(k, sure)
	}
}

// typed handles a key of a message.
func (s *screen) typed(k keys.Key) {
	switch s.input.Press(k) {
	case steering.Entered:
		to, text := s.to, s.input.Text()
		s.input = nil
		if !s.ask(to.Run, func() (string, string) { return to.Message(text) }) {
			s.draft = text
		}
	case steering.Left:
		s.input = nil
	}
}

// act does what a key says to the chosen row. sure is the run that the key before asked to end.
func (s *screen) act(k keys.Key, sure string) {
	it := s.tree.it()
	if it == nil || it.path == "" {
		s.tell("choose a run or a job that is at work: ↑ ↓")
		return
	}
	a := steering.Act{Run: remote(it.path), ID: it.id, Name: it.name}
	switch {
	case k.Rune == 'p':
		s.ask(a.Run, func() (string, string) { return a.Pause(), "" })
	case k.Rune == 'x' && it.root && sure != it.id:
		s.sure = it.id
		s.tell("x again ends the whole " + it.name)
	case it.past && k.Code != keys.Enter:
		s.tell(a.Ended())
	case k.Rune == 'x':
		s.ask(a.Run, func() (string, string) { return a.Cancel(), "" })
	case !it.job && k.Rune == 'm':
		s.tell("choose one of its jobs: a batch reads no message")
	case !it.job:
		s.tree.open(s.tree.closed[it.id])
	case k.Rune == 'm':
		s.to, s.input, s.draft = a, steering.NewInput("to "+it.name+": ", s.draft), ""
	default:
		s.log = steering.Follow(a)
		s.pager = &pane.Pager{Title: "transcript of " + it.name, Hint: "↑ ↓ space b  scroll   q  goes back"}
	}
}

// reply is how a request to a run has ended.
type reply struct {
	run           steering.Run
	notice, draft string
}

// ask makes a request to a run beside the loop: a run that is stopped does not hold up the keys. It reports whether it
// does: one request of a run follows the other.
func (s *screen) ask(run steering.Run, request func() (notice, draft string)) bool {
	if s.asked[run] {
		s.tell("this run has not replied to the last key yet")
		return false
	}
	s.asked[run] = true
	go func() {
		notice, draft := request()
		s.replies <- reply{run, notice, draft}
	}()
	return true
}

// take tells of a reply.
func (s *screen) take(r reply) {
	delete(s.asked, r.run)
	s.tell(r.notice)
	s.draft = cmp.Or(r.draft, s.draft)
}

// settleTime is how long the end waits for replies: a request that was just made is sent.
const settleTime = 300 * time.Millisecond

// settle waits for the replies that are still to come.
func (s *screen) settle() {
	for late := time.After(settleTime); len(s.asked) > 0; {
		select {
		case r := <-s.replies:
			s.take(r)
		case <-late:
			return
		}
	}
}
