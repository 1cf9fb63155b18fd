package app

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"qq/internal/app/admin"
	"qq/internal/app/batch"
	"qq/internal/app/bounds"
	"qq/internal/app/command"
	"qq/internal/app/console"
	"qq/internal/app/options"
	"qq/internal/config"
	"qq/pkg/session"
	"qq/pkg/task"
)

// conversation runs the turns of the console, each as a run of its own. It implements console.Process.
type conversation struct {
	*root
	c       *cli.Context // with the flags as they are now
	options options.Options
	live    atomic.Pointer[wiring] // of the last turn
}

// Kill implements console.Process.
func (t *conversation) Kill() {
	if w := t.live.Load(); w != nil {
		w.Kill()
	}
}

// converse runs the console.
func (r *root) converse(c *cli.Context, o options.Options) error {
	if _, _, err := r.Trust(c); err != nil {
		return err
	}
	begin, err := session.Of(r.Checkout.Settings.Home).Chosen(o.Session, r.Checkout.Dir)
	if err != nil {
		return admin.SessionError(err)
	}
	r.signals.KillWith(func() {}, func() { os.Exit(r.signals.Code()) })
	r.signals.Listen() // before the mode of the terminal is changed
	return console.Run(c, r.Invocation, &conversation{root: r, c: c, options: o}, r.signals, begin)
}

// Turn implements console.Process.
func (t *conversation) Turn(ctx context.Context, turn *console.Turn) (res task.Result, err error) {
	one := t.oneRun(t.options)
	one.options.Session, one.task = turn.Session, turn.Task
	if err := one.task.Validate(); err != nil {
		return res, command.Usage(err)
	}
	needs := t.needs(t.c, t.Checkout.Settings, one.options)
	needs.Settings.Allow = slices.Concat(needs.Settings.Allow, turn.Allow)
	needs.Undo = turn.Book
	ctx, cancel := bounds.WithTimeout(ctx, needs.Settings)
	defer cancel()
	if one.w, err = t.wire("run", needs); err != nil {
		return res, err
	}
	defer t.release()
	one.w.stream.Glance(turn)
	t.live.Store(one.w)
	turn.Begin(one.w.ID(), one.w.socket.Local())
	defer turn.End()
	if turn.Typed != nil {
		return one.typed(ctx, turn.Typed)
	}
	if err := one.staff(ctx); err != nil {
		return res, err
	}
	transcript, err := one.keep()
	if err != nil {
		return res, err
	}
	defer transcript.Close()
	if turn.Session.ID = transcript.ID; transcript.ID == "" {
		one.History = turn.Past
	}
	one.Transcript, one.Screen = turn.Over(transcript), turn.Screen
	turn.Screen.Begin(one.Agent.Name, one.Model.String())
	if turn.Book != nil {
		if transcript.ID != "" { // so that the next console finds it
			err = turn.Book.Open(transcript.ID)
		}
		if err := cmp.Or(err, turn.Book.Begin(ctx, needs.Dir)); err != nil {
			t.Say("/undo will not take back this answer: %v", err)
		}
	}
	res, err = one.ask(ctx)
	if end := turn.Book.End(context.WithoutCancel(ctx), res); end != nil {
		t.Say("/undo cannot take back this answer: %v", end)
	}
	if err != nil && res.Attempts > 0 && res.Success {
		res.End(task.Failed, "answered, but "+err.Error())
		err = nil
	}
	res.Warnings = slices.Concat(transcript.Warnings, one.w.models.Replaced(), res.Warnings)
	t.code = res.ExitCode
	return res, err
}

// typed runs a command of a person with the shell tool of the agent.
func (one *oneRun) typed(ctx context.Context, t *console.Typed) (res task.Result, err error) {
	if one.Agent, err = command.FindAgent(one.w.cfg.Agents, one.task.Agent); err != nil {
		return res, err
	}
	one.Agent, one.Typed, one.Model.Tools = t.Only(one.Agent), t, true
	one.Transcript, one.Screen = t, t
	if res, err = one.ask(ctx); err == nil && !t.Done() {
		err = errors.New(cmp.Or(res.Err(), "the command was not run"))
	}
	return res, err
}

// needs returns what the run of a prompt needs.
func (r *root) needs(c *cli.Context, set config.Config, o options.Options) batch.Needs {
	return batch.Needs{
		Settings: set, Dir: r.Checkout.Dir, ReadOnly: c.Bool("read-only"), Strict: c.Bool("strict-targets"),
		Verbose:  c.Bool("verbose"),
		NoLedger: c.Bool("no-ledger") || o.Session.Ephemeral || o.DryRun, Repairs: o.Checks.Repairs,
	}
}

var _ console.Process = (*conversation)(nil)
