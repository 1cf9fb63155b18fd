package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/admin"
	"qq/internal/app/batch"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/config"
	"qq/internal/models"
	"qq/pkg/agents"
	"qq/pkg/session"
	"qq/pkg/task"
)

func runFlags() []cli.Flag {
	return append([]cli.Flag{
		command.FlagAgent,
		&cli.StringFlag{Name: "message", Aliases: []string{"m", "prompt", "p"}, Usage: "the task; - reads it from stdin"},
		&cli.StringFlag{Name: "message-file", Aliases: []string{"f"}, Usage: "file with the task; - is stdin"},
		command.FlagModel,
		&cli.StringFlag{Name: "system", Usage: "system prompt instead of the agent's own"},
		&cli.StringFlag{Name: "session", Aliases: []string{"s"}, Usage: "go on with the session of this id, or its beginning"},
		&cli.BoolFlag{Name: "continue", Aliases: []string{"c"}, Usage: "go on with the newest session of this directory"},
		&cli.BoolFlag{Name: "new-session", Usage: "begin a session (the default)"},
		&cli.BoolFlag{Name: "ephemeral", Usage: "keep no transcript"},
		command.FlagCwd,
		&cli.StringFlag{Name: "output-format", Usage: "text, json or stream-json"},
		command.FlagResultJSON, command.FlagSchema, command.FlagTimeout, command.FlagIdle, command.FlagRetries,
		command.FlagTokens, command.FlagNoLedger,
		&cli.BoolFlag{Name: "dry-run", Usage: "say what would be run, and how a long text would be cut, and start nothing"},
		&cli.IntFlag{Name: "max-turns", Usage: "model calls of the agent"},
		command.FlagQuiet, command.FlagVerbose, command.FlagNoColor,
	}, command.PermissionFlags()...)
}

// runOptions are the flags of one run.
type runOptions struct {
	agent, model, system string
	format               string
	schema               json.RawMessage
	timeout              time.Duration
	maxTurns             int
	readOnly             bool
	session              session.Choice
	verbose              bool
	dryRun               bool
}

// events is where events are written to as they happen; nil is nowhere.
func (o runOptions) events(out io.Writer) io.Writer {
	if o.format == output.StreamJSON {
		return out
	}
	return nil
}

// run is the command without a name: one agent, one task.
func (r *root) run(c *cli.Context) error {
	cfg, dir, err := r.Configure(c)
	if err != nil {
		return err
	}
	o, err := r.runOptions(c)
	if err != nil {
		return err
	}
	if c.IsSet("timeout") {
		o.timeout = cfg.ChildTimeout
	}
	if o.agent == "" {
		o.agent = cfg.Agent
	}
	r.failing.Agent = o.agent
	t, err := r.taskOf(c)
	if err != nil {
		return err
	}
	t.Agent = o.agent
	r.failing = t
	if err := t.Validate(); err != nil {
		return command.Usagef("qq --help shows how a task is given", "%v", err)
	}
	ctx := c.Context
	var deadline time.Time
	if o.timeout > 0 {
		deadline = time.Now().Add(o.timeout)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline,
			&task.Error{Status: task.Timeout, Problem: fmt.Sprintf("timed out after %v", o.timeout)})
		defer cancel()
	}
	one := &oneRun{r: r, o: o, cfg: cfg, dir: dir, agents: r.Env.Agents(dir), task: t, start: time.Now()}
	e, err := r.newWiring(wiringConfig{
		Settings: cfg, Dir: dir, Agents: one.agents, ReadOnly: o.readOnly, Deadline: deadline,
		Ledger: r.openLedger(cfg, dir, "run", c.Bool("no-ledger") || o.session.Ephemeral || o.dryRun),
		Sinks:  r.sinks(o.events(r.Out), o.verbose, nil),
	}, nil)
	if err != nil {
		return err
	}
	return one.do(ctx, e)
}

func (r *root) runOptions(c *cli.Context) (runOptions, error) {
	o := runOptions{
		agent: c.String("agent"), model: c.String("model"), system: c.String("system"),
		maxTurns: c.Int("max-turns"), readOnly: c.Bool("read-only"), verbose: c.Bool("verbose"),
		dryRun: c.Bool("dry-run"),
	}
	var err error
	if o.format, err = command.Format(c); err != nil {
		return o, err
	}
	switch o.format {
	case "":
		o.format = output.Text
	case output.Text, output.JSON, output.StreamJSON:
	default:
		return o, command.Usagef("accepted is text, json or stream-json", "--output-format is %q", o.format)
	}
	if c.IsSet("max-turns") && o.maxTurns < 1 {
		return o, command.Usagef("accepted is a whole number from 1 on", "--max-turns is %d", o.maxTurns)
	}
	if o.schema, err = batch.Schema(c.String("schema")); err != nil {
		return o, err
	}
	o.session, err = sessionChoice(c)
	return o, err
}

// taskOf puts the task together from flags, arguments and stdin.
func (r *root) taskOf(c *cli.Context) (task.Task, error) {
	words := strings.Join(c.Args().Slice(), " ")
	if name := command.Mistyped(r.commands, words); name != "" {
		return task.Task{}, command.Usagef(fmt.Sprintf("qq %s is a command; as a prompt it is: qq -m %q", name, words), "%q is no command", words)
	}
	given := 0
	for _, set := range []bool{c.IsSet("message"), c.IsSet("message-file"), words != ""} {
		if set {
			given++
		}
	}
	if given > 1 {
		return task.Task{}, command.Usagef("give it once: as PROMPT, with -m, or with -f", "the task is given more than once")
	}
	fromStdin := c.String("message") == "-" || c.String("message-file") == "-"
	text := words
	switch {
	case c.IsSet("message"):
		text = c.String("message")
	case c.IsSet("message-file") && !fromStdin:
		var err error
		if text, err = command.ReadFile(c.String("message-file")); err != nil {
			return task.Task{}, err
		}
	}
	piped, isPipe, err := r.piped(fromStdin)
	switch {
	case err != nil:
		return task.Task{}, err
	case isPipe && strings.TrimSpace(piped) == "":
		return task.Task{}, command.Usagef("the command before the pipe gave nothing; without a pipe, redirect stdin from /dev/null", "nothing came through stdin")
	case fromStdin, given == 0 && isPipe:
		return task.Task{Text: piped}, nil
	case given == 0:
		return task.Task{}, command.Usagef(`for example: qq "Summarize README.md", or: git diff | qq "write a commit message"`, "no task")
	case strings.TrimSpace(text) == "":
		return task.Task{}, command.Usagef(`for example: qq -m "Summarize README.md"`, "the task is empty")
	}
	return task.Task{Text: text, Context: piped}, nil
}

// piped reads stdin when something is connected to it on purpose: a pipe, a
// socket or a file. A terminal is read only when that was asked for.
func (r *root) piped(asked bool) (text string, isPipe bool, err error) {
	info, err := r.In.Stat()
	if err != nil {
		if asked {
			return "", false, command.Usagef("give the task with -m", "stdin is closed")
		}
		return "", false, nil
	}
	if info.Mode()&os.ModeCharDevice != 0 && !asked {
		return "", false, nil
	}
	waiting := time.AfterFunc(3*time.Second, func() { r.Say("waiting for text on stdin (end it with Ctrl-D, or redirect it from /dev/null)") })
	defer waiting.Stop()
	text, err = command.ReadText(r.In, "stdin")
	return text, true, err
}

// oneRun is one run of the root's own agent.
type oneRun struct {
	r      *root
	o      runOptions
	cfg    config.Config
	dir    string
	agents *agents.Registry
	task   task.Task
	start  time.Time
	model  string       // that answers
	live   *output.Live // nil unless the answer is shown while it is written
}

func (one *oneRun) do(ctx context.Context, e *wiring) error {
	agent, err := command.FindAgent(one.agents, one.o.agent)
	if err != nil {
		return err
	}
	one.warn(agent)
	m, err := e.Resolve(ctx, cmp.Or(one.o.model, agent.Model))
	if err != nil {
		return err
	}
	one.model = m.String()
	if one.o.dryRun {
		return one.dryRun(e, agent, m)
	}
	transcript, err := admin.Store(one.cfg).Open(one.o.session, session.Header{Agent: agent.Name, Model: m.String(), Dir: one.dir}, one.r.Say)
	if err != nil {
		return admin.SessionError(err)
	}
	defer transcript.Close()
	run := zeroRun{
		Agent: agent, Model: m, System: one.o.system, MaxTurns: one.o.maxTurns,
		History: transcript.History, Transcript: transcript, Session: transcript.ID,
	}
	one.task.Schema = one.o.schema
	if one.o.format == output.Text && output.IsTerminal(one.r.Out) && len(one.o.schema) == 0 {
		one.live = output.NewLive(one.r.Out)
		run.Screen = one.live
	}
	res, err := e.Run(ctx, run, one.task)
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // which act that was, it says itself
	}
	if err != nil && res.Attempts == 0 {
		return err
	}
	return one.finish(res, err, transcript)
}

// dryRun says what would be run.
func (one *oneRun) dryRun(e *wiring, agent agents.Agent, m models.Model) error {
	plan, err := e.Outline(zeroRun{Agent: agent, Model: m, System: one.o.system}, one.task)
	if err != nil {
		return err
	}
	if one.o.format != output.Text {
		return output.WriteJSON(one.r.Out, struct {
			task.Task
			Model string   `json:"model"`
			Plan  []string `json:"plan,omitempty"`
		}{one.task, m.String(), plan})
	}
	text := fmt.Sprintf("%s, with %s: %s\n", agent.Name, m, task.Shorten(one.task.Text, 200))
	for _, line := range plan {
		text += "  " + line + "\n"
	}
	_, err = one.r.Out.WriteString(command.Printable(text))
	return output.WriteError(err)
}

func (one *oneRun) warn(a agents.Agent) {
	for _, w := range a.Warnings {
		one.r.Note("%s: %s", a.Source, w)
	}
}

// finish prints what came of the run and says with which code to end. The error says
// that the result could not be recorded.
func (one *oneRun) finish(res task.Result, unrecorded error, t *session.Keeping) error {
	if one.r.signals.code() != 0 && res.Status == task.Interrupted {
		res.End(res.Status, "interrupted")
	}
	if one.o.format == output.Text {
		for _, w := range res.Warnings {
			one.r.Note("warning: %s", w)
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

// end prints the result, and on stderr why it is a failure.
func (one *oneRun) end(res task.Result, msg string, t *session.Keeping) error {
	problem, _, _ := strings.Cut(res.Err(), "\n")
	if !res.Success {
		res.Error = &problem
	}
	res.Warnings = append(t.Warnings, res.Warnings...)
	if sig := one.r.signals.code(); sig != 0 && !res.Success {
		res.ExitCode = sig
	}
	if err := one.print(res, t.ID); err != nil {
		return err
	}
	if res.Success {
		return nil
	}
	report(one.r.Err, errors.New(msg))
	return command.Said(res.ExitCode)
}

func (one *oneRun) print(res task.Result, sessionID string) error {
	switch one.o.format {
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
