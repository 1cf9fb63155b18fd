package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"qq/internal/app/admin"
	"qq/internal/app/bounds"
	"qq/internal/app/checks"
	"qq/internal/app/command"
	"qq/internal/app/console"
	"qq/internal/app/definitions"
	"qq/internal/app/options"
	"qq/internal/app/output"
	"qq/internal/app/prompt"
	"qq/internal/app/strict"
	"qq/internal/models"
	"qq/pkg/session"
	"qq/pkg/task"
)

// oneRun is one run of the root's own agent, with the flags for its output.
type oneRun struct {
	zeroRun
	options options.Options
	r       *root
	w       *wiring
	task    task.Task
	live    *output.Live    // nil unless the answer is shown while it is written
	waiting *output.Waiting // nil unless a line is shown while the answer is awaited
}

// run is what qq does without the name of a command: it runs one agent on one task.
func (r *root) run(c *cli.Context) error {
	if _, err := r.Open(c); err != nil {
		return err
	}
	if err := output.Writable(r.Out); err != nil {
		return err
	}
	r.failing.Agent = cmp.Or(c.String("agent"), r.Checkout.Settings.Agent)
	flags, err := options.Read(c) // before Trust, as the task: nobody is asked about a run that cannot be
	if err != nil {
		return err
	}
	if console.Wanted(r.Invocation, c) {
		return r.converse(c, flags)
	}
	one := r.oneRun(flags)
	if one.task, err = prompt.Task(r.Invocation, c, r.commands); err != nil {
		return err
	}
	cfg, _, err := r.Trust(c)
	if err != nil {
		return err
	}
	one.task.Agent = cmp.Or(c.String("agent"), cfg.Agent)
	r.failing = one.task
	if err := one.task.Validate(); err != nil {
		return command.Usagef("qq --help shows how a task is given", "%v", err)
	}
	ctx, cancel := bounds.WithTimeout(c.Context, cfg)
	defer cancel()
	needs := r.needs(c, cfg, flags)
	if one.options.Format == output.StreamJSON {
		needs.Events = r.Out
	}
	if one.w, err = r.wire("run", needs); err != nil {
		return err
	}
	return one.do(ctx)
}

// oneRun makes a run with those flags.
func (r *root) oneRun(o options.Options) *oneRun {
	one := &oneRun{r: r, options: o}
	one.Signals, one.System, one.MaxTurns = r.signals, o.System, o.MaxTurns
	return one
}

// staff finds the agent and its model.
func (one *oneRun) staff(ctx context.Context) (err error) {
	cfg := one.w.cfg
	if one.Agent, err = command.FindAgent(cfg.Agents, one.task.Agent); err != nil {
		return err
	}
	one.task = one.options.Checks.Complete(one.task, one.w, cfg.ReadOnly, checks.Given)
	if err := one.options.Checks.Unused(); err != nil {
		return err
	}
	definitions.Warn(one.r.Invocation, cfg.Settings.Home, one.Agent)
	if line := strict.Unbound(one.Agent, cfg.ReadOnly); cfg.Strict && line != "" {
		one.r.Say("%s", line)
	}
	if line := one.w.apart.Lead(one.task.Agent); line != "" {
		one.r.Note("%s", line)
	}
	one.Model, err = one.w.Resolve(ctx, one.task)
	return err
}

// do resolves the model, then runs the agent or, in a dry run, prints the plan.
func (one *oneRun) do(ctx context.Context) error {
	one.wait()
	defer one.waiting.Stop()
	if err := one.staff(ctx); err != nil {
		return err
	}
	if one.options.DryRun {
		return one.printPlan()
	}
	transcript, err := one.keep()
	if err != nil {
		return err
	}
	defer transcript.Close()
	one.task.Schema = one.options.Schema
	if one.options.Format == output.Text && one.r.Out.Terminal() && len(one.options.Schema) == 0 {
		one.live = output.NewAnswer(one.r.Invocation, one.w.cfg.Settings.Markdown)
		if one.Model.Kind == models.Extract {
			one.live.Head = output.Copied
		}
		if one.Screen = one.live; one.waiting != nil {
			one.Screen = one.waiting.Before(one.live)
		}
	}
	res, err := one.ask(ctx)
	if err != nil && res.Attempts == 0 {
		return err
	}
	return one.finish(res, err, transcript)
}

// keep opens the transcript of the run. The caller closes it.
func (one *oneRun) keep() (*session.Keeping, error) {
	cfg := one.w.cfg
	header := session.Header{Agent: one.Agent.Name, Model: one.Model.String(), Dir: cfg.Dir}
	transcript, err := session.Of(cfg.Settings.Home).Open(one.options.Session, header, one.r)
	if err != nil {
		return nil, admin.SessionError(err)
	}
	transcript.Run = one.w.ID()
	one.History, one.Transcript, one.Session = transcript.History, transcript, transcript.ID
	return transcript, nil
}

// ask runs the agent. The error says that the run could not be recorded; it was not started if the result has no
// attempt.
func (one *oneRun) ask(ctx context.Context) (task.Result, error) {
	one.waiting.For(cmp.Or(one.Model.Name, one.Model.Kind))
	res, err := one.w.Run(ctx, one.zeroRun, one.task)
	one.waiting.Stop()
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // it names the failed act itself
	}
	return res, err
}

// wait begins to show that the answer is awaited, if somebody looks at a terminal.
func (one *oneRun) wait() {
	r := one.r
	if one.options.DryRun || r.Quiet || one.options.Format == output.StreamJSON || !r.Coloured(r.Err) {
		return
	}
	one.waiting = output.StartWaiting(r.Err, one.w, r.signals.Ends())
	one.w.stream.Glance(one.waiting)
	r.Show(one.waiting)
}

// printPlan prints the task and how a long text would be cut.
func (one *oneRun) printPlan() error {
	plan, err := one.w.Outline(one.zeroRun, one.task)
	if err != nil {
		return err
	}
	if one.options.Format != output.Text {
		return output.WriteJSON(one.r.Out, struct {
			task.Task
			Model string   `json:"model"`
			Plan  []string `json:"plan,omitempty"`
		}{one.task, one.Model.String(), plan})
	}
	text := fmt.Sprintf("%s, with %s: %s\n", one.Agent.Name, one.Model, task.Shorten(one.task.Text, 200))
	for _, line := range plan {
		text += "  " + line + "\n"
	}
	_, err = one.r.Out.WriteString(command.Printable(text))
	return output.WriteError(err)
}

// finish prints the result and returns the exit code as an error. unrecorded is the error
// of recording the result; it makes a success a failure.
func (one *oneRun) finish(res task.Result, unrecorded error, t *session.Keeping) error {
	if one.options.Format == output.Text {
		for _, w := range res.Warnings {
			one.r.Say("warning: %s", w)
		}
	}
	if unrecorded != nil {
		msg := cmp.Or(res.Err(), unrecorded.Error())
		if problem, _ := task.Explain(unrecorded); res.Success {
			res.End(task.Failed, "answered, but "+problem)
		}
		return one.end(res, msg, t)
	}
	return one.end(res, res.Err(), t)
}

// end prints the result, and msg on stderr if the task failed. It returns the exit code as
// an error.
func (one *oneRun) end(res task.Result, msg string, t *session.Keeping) error {
	res.CutHint()
	res.Warnings = slices.Concat(one.r.Ignored, t.Warnings, one.w.models.Replaced(), res.Warnings)
	if warning := one.w.warning.Load(); warning != nil { // it is on stderr already
		res.Warnings = append(res.Warnings, *warning)
	}
	one.r.signals.Name(&res)
	if err := one.print(res, t.ID); err != nil {
		return err
	}
	if all := one.w.Used(); one.w.cfg.Verbose && all != (task.Usage{}) {
		one.r.Note("%s", output.Account(all))
	}
	if res.Success {
		return nil
	}
	report(one.r.Err, errors.New(msg))
	return command.Said(res.ExitCode)
}

// print writes the result to stdout in the chosen format.
func (one *oneRun) print(res task.Result, sessionID string) error {
	switch one.options.Format {
	case output.JSON:
		return output.WriteJSON(one.r.Out, output.Document{Result: res, SessionID: sessionID})
	case output.StreamJSON:
		return output.WriteJSON(one.r.Out, output.Document{Type: "result", Result: res, SessionID: sessionID})
	}
	text := res.Output
	if res.Structured != nil {
		text = string(res.Structured)
	}
	if one.live != nil {
		return one.live.End(text)
	}
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(one.r.Out, text)
	return output.WriteError(err)
}
