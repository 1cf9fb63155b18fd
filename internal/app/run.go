package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/admin"
	"qq/internal/app/batch"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/pkg/session"
	"qq/pkg/task"
)

// runFlags are the flags of the command that runs a prompt.
func runFlags() []cli.Flag {
	return append([]cli.Flag{
		command.FlagAgent,
		&cli.StringFlag{
			Name: "message", Aliases: []string{"m", "prompt", "p"}, Usage: "the task; - reads it from stdin",
		},
		&cli.StringFlag{Name: "message-file", Aliases: []string{"f"}, Usage: "file with the task; - is stdin"},
		command.FlagModel,
		&cli.StringFlag{Name: "system", Usage: "system prompt instead of the agent's own"},
		&cli.StringFlag{
			Name: "session", Aliases: []string{"s"}, Usage: "continue the session of this id, or its beginning",
		},
		&cli.BoolFlag{
			Name: "continue", Aliases: []string{"c"}, Usage: "continue the newest session of this directory",
		},
		&cli.BoolFlag{Name: "new-session", Usage: "begin a session (the default)"},
		&cli.BoolFlag{Name: "ephemeral", Usage: "keep neither a transcript nor a ledger entry"},
		command.FlagCwd,
		&cli.StringFlag{Name: "output-format", Usage: "text, json or stream-json"},
		command.FlagResultJSON, command.FlagSchema, command.FlagTimeout, command.FlagIdle, command.FlagRetries,
		command.FlagTokens, command.FlagNoLedger,
		&cli.BoolFlag{
			Name: "dry-run", Usage: "say what would be run, and how a long text would be cut, and start nothing",
		},
		&cli.IntFlag{Name: "max-turns", Usage: "model calls of the agent"},
		command.FlagQuiet, command.FlagVerbose, command.FlagNoColor,
	}, command.PermissionFlags()...)
}

// oneRun is one run of the root's own agent, with the flags for its output.
type oneRun struct {
	zeroRun
	r       *root
	w       *wiring
	task    task.Task
	format  string
	schema  json.RawMessage // of the answer
	session session.Choice
	dryRun  bool
	live    *output.Live // nil unless the answer is shown while it is written
}

// run is what qq does without the name of a command: it runs one agent on one task.
func (r *root) run(c *cli.Context) error {
	cfg, dir, err := r.Configure(c)
	if err != nil {
		return err
	}
	one, err := r.oneRun(c)
	if err != nil {
		return err
	}
	r.failing.Agent = cmp.Or(c.String("agent"), cfg.Agent)
	if one.task, err = r.taskOf(c); err != nil {
		return err
	}
	one.task.Agent = r.failing.Agent
	r.failing = one.task
	if err := one.task.Validate(); err != nil {
		return command.Usagef("qq --help shows how a task is given", "%v", err)
	}
	ctx := c.Context
	if limit := cfg.ChildTimeout; c.IsSet("timeout") && limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit,
			&task.Error{Status: task.Timeout, Problem: fmt.Sprintf("timed out after %v", limit)})
		defer cancel()
	}
	needs := batch.Needs{
		Settings: cfg, Dir: dir, ReadOnly: c.Bool("read-only"), Verbose: c.Bool("verbose"),
		NoLedger: c.Bool("no-ledger") || one.session.Ephemeral || one.dryRun,
	}
	if one.format == output.StreamJSON {
		needs.Events = r.Out
	}
	if one.w, err = r.wire("run", needs); err != nil {
		return err
	}
	return one.do(ctx)
}

// oneRun reads the flags of one run.
func (r *root) oneRun(c *cli.Context) (*oneRun, error) {
	one := &oneRun{r: r, dryRun: c.Bool("dry-run")}
	one.Signals = r.signals
	one.System, one.MaxTurns = c.String("system"), c.Int("max-turns")
	var err error
	if one.format, err = command.Format(c); err != nil {
		return nil, err
	}
	switch one.format {
	case "":
		one.format = output.Text
	case output.Text, output.JSON, output.StreamJSON:
	default:
		return nil, command.Usagef("accepted is text, json or stream-json", "--output-format is %q", one.format)
	}
	if c.IsSet("max-turns") && one.MaxTurns < 1 {
		return nil, command.Usagef("accepted is a whole number from 1 on", "--max-turns is %d", one.MaxTurns)
	}
	if one.schema, err = batch.Schema(c.String("schema")); err != nil {
		return nil, err
	}
	one.session, err = sessionChoice(c)
	return one, err
}

// taskOf makes the task from flags, arguments and stdin.
func (r *root) taskOf(c *cli.Context) (task.Task, error) {
	words := strings.Join(c.Args().Slice(), " ")
	if name := command.Mistyped(r.commands, words); name != "" {
		hint := fmt.Sprintf("qq %s is a command; as a prompt it is: qq -m %q", name, words)
		return task.Task{}, command.Usagef(hint, "%q is no command", words)
	}
	given := 0
	for _, set := range []bool{c.IsSet("message"), c.IsSet("message-file"), words != ""} {
		if set {
			given++
		}
	}
	if given > 1 {
		return task.Task{}, command.Usagef("give it once: as PROMPT, with -m, or with -f",
			"the task is given more than once")
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
		return task.Task{}, command.Usagef(
			"the pipe or file at stdin is empty; to read none, give PROMPT and redirect stdin from /dev/null",
			"nothing came through stdin")
	case fromStdin, given == 0 && isPipe:
		return task.Task{Text: piped}, nil
	case given == 0:
		return task.Task{}, command.Usagef(
			`for example: qq "Summarize README.md", or: git diff | qq "write a commit message"`, "no task")
	case strings.TrimSpace(text) == "":
		return task.Task{}, command.Usagef(`for example: qq -m "Summarize README.md"`, "the task is empty")
	}
	return task.Task{Text: text, Context: piped}, nil
}

// piped reads stdin if it is a pipe, a socket or a file. It reads a terminal only if asked
// is set. isPipe is false if stdin was not read.
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
	waiting := time.AfterFunc(3*time.Second, func() {
		r.Say("waiting for text on stdin (end it with Ctrl-D, or redirect it from /dev/null)")
	})
	defer waiting.Stop()
	text, err = command.ReadText(r.In, "stdin")
	return text, true, err
}

// do resolves the model, then runs the agent or, in a dry run, prints the plan.
func (one *oneRun) do(ctx context.Context) error {
	cfg := one.w.cfg
	var err error
	if one.Agent, err = command.FindAgent(cfg.Agents, one.task.Agent); err != nil {
		return err
	}
	for _, w := range one.Agent.Warnings {
		one.r.Note("%s: %s", one.Agent.Source, w)
	}
	if one.Model, err = one.w.Resolve(ctx, one.w.modelName(one.task)); err != nil {
		return err
	}
	if one.dryRun {
		return one.printPlan()
	}
	header := session.Header{Agent: one.Agent.Name, Model: one.Model.String(), Dir: cfg.Dir}
	transcript, err := admin.Store(cfg.Settings).Open(one.session, header, one.r.Say)
	if err != nil {
		return admin.SessionError(err)
	}
	defer transcript.Close()
	one.History, one.Transcript, one.Session = transcript.History, transcript, transcript.ID
	one.task.Schema = one.schema
	if one.format == output.Text && output.IsTerminal(one.r.Out) && len(one.schema) == 0 {
		one.live = output.NewLive(one.r.Out)
		one.Screen = one.live
	}
	res, err := one.w.Run(ctx, one.zeroRun, one.task)
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // it names the failed act itself
	}
	if err != nil && res.Attempts == 0 {
		return err
	}
	return one.finish(res, err, transcript)
}

// printPlan prints the task and how a long text would be cut.
func (one *oneRun) printPlan() error {
	plan, err := one.w.Outline(one.zeroRun, one.task)
	if err != nil {
		return err
	}
	if one.format != output.Text {
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
	if one.format == output.Text {
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

// end prints the result, and msg on stderr if the task failed. It returns the exit code as
// an error.
func (one *oneRun) end(res task.Result, msg string, t *session.Keeping) error {
	res.CutHint()
	res.Warnings = append(t.Warnings, res.Warnings...)
	one.r.signals.name(&res)
	if err := one.print(res, t.ID); err != nil {
		return err
	}
	if res.Success {
		return nil
	}
	report(one.r.Err, errors.New(msg))
	return command.Said(res.ExitCode)
}

// print writes the result to stdout in the chosen format.
func (one *oneRun) print(res task.Result, sessionID string) error {
	switch one.format {
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
