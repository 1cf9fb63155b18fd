package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/agent/loop"
	"qq/internal/app/batch/foreign"
	"qq/internal/app/batch/planned"
	"qq/internal/app/batch/report"
	"qq/internal/app/checks"
	"qq/internal/app/command"
	"qq/internal/app/command/vocabulary"
	"qq/internal/app/output"
	"qq/internal/app/values"
	"qq/internal/config"
	"qq/internal/imports"
	"qq/internal/taskfile"
	"qq/internal/taskfile/locate"
	"qq/pkg/agents"
	"qq/pkg/spelling"
	"qq/pkg/supervisor/access"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/supervisor/halt"
	"qq/pkg/task"
)

const description = `Tasks come from a FILE or from stdin: a JSON array, JSON Lines, CSV, or one task a line.
Keys of a task: task agent id context model timeout read_only schema working_dir
  targets        files, folders and globs that it touches: a list, or a text with commas
  needs          ids of tasks that must be completed before
  priority role  see docs/plan.md
  check          command that must succeed when the agent says that it is done
With -m, each of FILES (or each line of stdin, or each row of --input) makes one task:
  {}             the file name, the line or the row
  {/} {//}       its last part, its folder
  {.} {/.}       the same as {} and {/} without the extension
  {#} {%}        the number of the task; a number that no other running task has
  {column}       a column of CSV or a key of JSON Lines; also {column/} and such
  {1} {2}        one of several inputs or columns; also {1/} and such
{{ is never a placeholder. As with GNU parallel, lists of values come last:
  ::: A B        these values; with several lists, one task for each combination
  :::: FILE      the lines of FILE; - is stdin
  :::+ ::::+     linked to the list before: the first with the first, and so on
docs/parallel.md compares both.`

// Command makes the command qq batch, to be run in the process p.
func Command(i *command.Invocation, p Process) *cli.Command {
	b := &batchRun{Invocation: i, process: p, folders: map[string]string{}}
	text := func(name, usage string, aliases ...string) cli.Flag {
		return &cli.StringFlag{Name: name, Aliases: aliases, Usage: usage}
	}
	return &cli.Command{
		Name: "batch", Usage: "run many tasks, each in a process of its own",
		ArgsUsage:   "[FILE | FILES… | ::: VALUES…]",
		Description: description,
		Flags: slices.Concat(inputFlags(), []cli.Flag{
			command.FlagAgent, command.FlagModel, command.FlagFallback,
			text("jobs", "children at work at once; +N, -N and N% count from the processors of the machine", "j"),
			command.FlagTimeout,
			command.Choice(&cli.StringFlag{
				Name: "halt", Value: "never",
				Usage: "never, soon or now, with ,fail=N or ,success=N or ,done=N; N may end in %",
			}, []string{"never", "soon", "now", "soon,fail=1", "now,fail=1", "soon,fail=10%", "now,fail=10%",
				"soon,success=1", "now,success=1", "soon,done=1", "now,done=1"}),
			&cli.BoolFlag{
				Name:  "dry-run",
				Usage: "print the tasks, their plan, and how long texts would be cut, and start nothing",
			},
			command.Choice(&cli.StringFlag{
				Name: "plan", Usage: "which tasks wait for others that touch the same files: auto, strict or off",
			}, []string{string(access.Auto), string(access.Strict), string(access.Off)}),
			command.Choice(&cli.StringFlag{
				Name: "deps", Usage: "imports: a task that only reads also waits for the files that its targets " +
					"import (Go, Python, TypeScript, JavaScript)",
			}, []string{"imports"}),
			&cli.BoolFlag{
				Name:  "phases",
				Usage: "run all tasks that only gather information first, then those that change things",
			},
			command.FlagIdle, command.FlagRetries, command.FlagTokens, command.FlagCost, command.FlagQuota,
			text("joblog", "file that gets a line for each result that was printed, in the format of GNU parallel"),
			command.OptionalFlag("resume",
				"continue a batch: the last one here, --resume=ID, or that of --joblog", &b.o.resume),
			command.OptionalFlag("resume-failed", "the same, and run what failed again", &b.o.resumeFailed),
			&cli.BoolFlag{
				Name:  "cache",
				Usage: "take earlier answers of agents that only read, where nothing that they read has changed",
			},
			command.FlagNoLedger,
			&cli.BoolFlag{
				Name: "bar", Usage: "redraw the progress line even with NO_COLOR, or if stderr is no terminal",
			},
			&cli.BoolFlag{Name: "no-bar", Usage: "show no progress"},
			text("output", "file for the results instead of stdout", "o"),
			text("results", "folder that gets a file for each result"),
			text("report", "file for a report in Markdown: how many tasks ended how, and a section for each"),
			command.FlagFormat(formats), command.FlagResultJSON, command.FlagSchema, command.FlagCwd,
			command.FlagQuiet, command.FlagVerbose, command.FlagNoColor,
		}, habitFlags(), checks.Flags(), command.PermissionFlags()),
		Action: b.run,
		OnUsageError: func(c *cli.Context, err error, isSub bool) error { // the hints are made for a mistake only
			return command.UsageError(foreign.Hints())(c, err, isSub)
		},
	}
}

// batchOptions are the values of the flags for one batch.
type batchOptions struct {
	strict bool // a task with targets may change nothing else
	recordOptions
	outputOptions
	agent      string
	schema     json.RawMessage
	schemaFile string // that has it
	halt       halt.Policy
	start      startOptions
	checks     checks.Options
}

// recordOptions say what is recorded, and which batch is continued.
type recordOptions struct {
	resume       command.Optional
	resumeFailed command.Optional
	joblog       string // absolute path
	cache        bool
	noLedger     bool
	verbose      bool
}

// continues reports whether the flags name a batch that is continued.
func (o recordOptions) continues() bool { return o.resume.Given || o.resumeFailed.Given }

// continued returns the id of that batch; "" means the last one.
func (o recordOptions) continued() string { return o.resume.Value + o.resumeFailed.Value } // one of them has a value

// outputOptions say where the results go, and what a person sees.
type outputOptions struct {
	output  string
	results string // absolute path
	report  string // absolute path
	format  string
	tag     bool
	bar     bool // show progress
	redraw  bool // redraw the progress line even if stderr is no terminal
}

// read reads the flags and checks what can be checked without the tasks. The library has set resume and resumeFailed.
func (o *batchOptions) read(c *cli.Context) (err error) {
	o.cache, o.noLedger, o.agent = c.Bool("cache"), c.Bool("no-ledger"), c.String("agent")
	o.verbose, o.strict = c.Bool("verbose"), c.Bool("strict-targets")
	o.output, o.results, o.report = c.String("output"), whole(c.String("results")), whole(c.String("report"))
	o.bar, o.redraw = !c.Bool("quiet") && !c.Bool("no-bar"), c.Bool("bar")
	if c.Bool("dry-run") && o.continues() {
		return command.Usagef("leave one of them out",
			"--dry-run prints the tasks of the input, and does not know which --resume would run")
	}
	if c.IsSet("joblog") {
		if o.joblog, err = joblogPath(c.String("joblog")); err != nil {
			return err
		}
	}
	if o.format, err = command.Format(c, formats); err != nil {
		return err
	}
	if o.format == planned.Mermaid && !c.Bool("dry-run") {
		return command.Usagef("add --dry-run", "--output-format mermaid draws the plan of a batch that is not run")
	}
	if o.halt, err = values.ParseHalt(c.String("halt")); err != nil {
		return err
	}
	if o.tag, err = parseTag(c, o.format); err != nil {
		return err
	}
	if o.start, err = parseStart(c); err != nil {
		return err
	}
	if o.checks, err = checks.Read(c); err != nil {
		return err
	}
	o.schemaFile = c.String("schema")
	o.schema, err = Schema(o.schemaFile)
	return err
}

// whole returns the absolute path of the file or folder name; "" for an empty name. The working
// directory may be another one when it is used.
func whole(name string) string {
	if path, err := filepath.Abs(name); err == nil && name != "" {
		return path
	}
	return name
}

// joblogPath returns the absolute path for --joblog without symbolic links, or a usage
// error if the path is a folder or its folder does not exist.
func joblogPath(name string) (string, error) {
	const hint = "--joblog takes a file that you may write; its folder has to be there"
	if strings.TrimSpace(name) == "" {
		return "", command.Usagef(hint, "the name of the file for --joblog is empty")
	}
	path := whole(name)
	if err := directory(filepath.Dir(path)); err != nil {
		return "", command.Usagef(hint, "--joblog %s: %v", name, err)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "", command.Usagef(hint, "--joblog %s is a folder", name)
	}
	return realPath(path), nil // resume finds a batch by this path
}

// realPath resolves the symbolic links in path. If the file does not exist, it resolves
// those of its folder. If that fails too, it returns path.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path))
	}
	return path
}

// formats are those of results, and that of a plan.
var formats = append(output.Formats(), planned.Mermaid)

// auto is the model that is chosen when it is needed.
const auto = "auto"

// run checks all tasks, opens the output and the record, and runs the batch.
func (b *batchRun) run(c *cli.Context) error {
	var err error
	if c.IsSet("jobs") {
		err = setJobs(c)
	}
	if err == nil {
		_, err = b.process.Open(c)
	}
	if err != nil {
		return err
	}
	if err := b.o.read(c); err != nil {
		return err
	}
	if b.o.output == "" {
		if err := output.Writable(b.Out); err != nil {
			return err
		}
	}
	cfg, dir, err := b.process.Trust(c)
	if err != nil {
		return err
	}
	b.o.agent = cmp.Or(b.o.agent, cfg.Agent)
	b.planned.Rules = planned.Rules{Mode: access.Mode(cfg.Plan), Phases: c.Bool("phases"), Copies: cfg.Isolate,
		DryRun: c.Bool("dry-run")}
	if b.planned.Imports, err = b.scan(c, dir); err != nil {
		return err
	}
	b.planned.Jobs = cfg.MaxParallel
	b.start = time.Now()
	needs := Needs{
		Settings: cfg, Dir: dir, ReadOnly: c.Bool("read-only"), Strict: b.o.strict,
		NoLedger: b.o.noLedger, Verbose: b.o.verbose,
		Repairs: b.o.checks.Repairs,
	}
	b.readOnly = needs.ReadOnly
	if b.o.format == output.StreamJSON {
		needs.Events = &b.to // it is opened before the first event
	}
	if b.runner, err = b.process.Wire(needs); err != nil {
		return err
	}
	b.planned.Runner = b.runner
	if err := b.checkAgent(cfg); err != nil {
		return err
	}
	if b.spool, err = b.check(c); err != nil {
		return err
	}
	defer b.spool.Close()
	if err := b.planned.Arrange(c.Context, b.tasks(), b.spool, b.o.format); err != nil {
		return err
	}
	var staff []task.Task
	for _, s := range b.staffing {
		staff = append(staff, task.Task{Agent: s.agent, Model: s.model})
	}
	if c.Bool("dry-run") {
		if err := b.runner.Isolable(c.Context, staff); err != nil {
			return err
		}
	}
	for _, line := range []string{b.planned.Unplanned(), b.planned.Idle()} {
		if line != "" {
			b.Note("%s", line)
		}
	}
	if line := b.planned.Unbound(); needs.Strict && line != "" {
		b.Say("%s", line)
	}
	if c.Bool("dry-run") {
		if cfg.Model == auto {
			b.Note("model auto: it is chosen when the batch runs")
		}
		return b.dryRun(c.Context)
	}
	// A missing model is one error here, instead of one error for each task later.
	if err := b.runner.Lookup(c.Context, staff); err != nil {
		return err
	}
	defer func() { _ = b.results.Close() }() // what was written to it is there
	if b.results, err = openResults(b.o.results, b.spool); err != nil {
		return err
	}
	if err := b.openOutput(c.Context); err != nil {
		return err
	}
	taken := append(b.inputs, b.o.output, b.o.joblog, b.o.schemaFile)
	if b.report, err = report.Open(b.o.report, b.runner, taken); err != nil {
		return errors.Join(err, b.to.close(b.Screen, b.to.made))
	}
	defer b.report.Drop()
	if err := b.openRecord(c.Context); err != nil {
		return errors.Join(err, b.to.close(b.Screen, b.to.made))
	}
	return errors.Join(b.do(c.Context), b.to.close(b.Screen, false))
}

// scan reads which files of the project in dir import which, if --deps asks for it.
func (b *batchRun) scan(c *cli.Context, dir string) (*imports.Graph, error) {
	switch c.String("deps") {
	case "":
		return nil, nil
	case "imports":
	default:
		return nil, command.Usagef("accepted is imports", "--deps is %q", c.String("deps"))
	}
	if b.planned.Mode == access.Off {
		return nil, command.Usagef("leave one of them out", "--deps says which tasks wait, and --plan is off")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	graph, err := imports.Scan(c.Context, root)
	if err == nil && graph.Left > 0 {
		b.Say("warning: --deps looks at the first source files only: %d are left out", graph.Left)
	}
	return graph, err
}

// checkAgent returns an error if the agent of the tasks that name none cannot be used: the flag or the setting is
// wrong then, and not the first of these tasks.
func (b *batchRun) checkAgent(cfg config.Config) error {
	err := b.runner.Check(task.Task{Text: "any", Agent: b.o.agent})
	missing, ok := errors.AsType[*agents.NotFoundError](err)
	if !ok {
		return command.Usage(err)
	}
	by, isFlag := strings.CutPrefix(cfg.Source("QQ_AGENT"), "flag ")
	if !isFlag {
		by = "QQ_AGENT (" + by + ")"
	}
	problem, _ := task.Explain(err)
	hint := spelling.DidYouMean(spelling.Nearest(missing.Name, missing.Known)) + by + " takes the name of an agent"
	if isFlag && vocabulary.Exists(missing.Name) {
		hint += ", also as -a; -a FILE of GNU parallel is :::: FILE here"
	}
	return command.Usagef(hint+"; qq agents list shows them", "%s", problem)
}

// check reads all tasks into a spool file. It returns an error for the first task that
// cannot be run.
func (b *batchRun) check(c *cli.Context) (*taskfile.Spool, error) {
	src, err := b.source(c)
	if err != nil {
		return nil, err
	}
	b.inputs = append(src.Files, src.Name)
	for _, l := range src.Lists {
		b.inputs = append(b.inputs, l.File)
	}
	dir, err := b.runner.Scratch()
	if err != nil {
		return nil, command.Advised(err, "nothing was started: see whether QQ_HOME can be written, and has room")
	}
	origin := checks.Begin(&src, b.Checkout.Dir, b.Checkout.Store)
	spool, err := taskfile.Check(c.Context, src, dir, func(_ int, t task.Task) error { return b.checkTask(t) })
	b.given = origin.End()
	if err != nil && c.Context.Err() != nil {
		return nil, context.Cause(c.Context)
	}
	if errors.Is(err, taskfile.ErrKeep) {
		return nil, unkept(err, filepath.Dir(dir)) // dir itself is removed at the end
	}
	if err == nil {
		if err := b.o.checks.Unused(); err != nil {
			return nil, errors.Join(err, spool.Close())
		}
	}
	if err != nil {
		hint := "nothing was started: mend the input (qq batch --help describes it)"
		if errors.Is(err, taskfile.ErrNoTasks) && src.Input != nil {
			hint = "what writes to the pipe has written no task"
		}
		return nil, command.Usage(command.Advised(err, hint))
	}
	return spool, nil
}

// unkept adds a hint to err, the error of writing the spool file in dir. That error is no
// mistake in the input.
func unkept(err error, dir string) error {
	hint := "see whether " + dir + " can be written, or let QQ_HOME name another folder"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		hint = "free some space on the disk of " + dir + ", or let QQ_HOME name a folder on another one"
	}
	return task.Machine("nothing was started: "+hint, "%w", err)
}

// checkTask returns an error if t cannot be run. It adds the agent and the model of t to
// b.staffing.
func (b *batchRun) checkTask(t task.Task) error {
	if len(t.Schema) > 0 {
		if _, err := loop.ParseSchema(t.Schema); err != nil {
			return err
		}
	}
	if t.WorkingDir != "" {
		if err := b.enter(t.WorkingDir); err != nil {
			return fmt.Errorf("working_dir: %w", err)
		}
	}
	t = b.complete(t)
	if err := cmp.Or(b.runner.Check(t), checks.Bars(t, b.runner, b.readOnly)); err != nil && t.Broken == "" {
		return err
	}
	if who := (staff{t.Agent, t.Model}); !slices.Contains(b.staffing, who) {
		b.staffing = append(b.staffing, who)
	}
	b.planned.See(t)
	return nil
}

// enter keeps the real path of the working directory of a task: when the task starts, another one may have put a link
// in its place.
func (b *batchRun) enter(dir string) (err error) {
	if b.folders[dir] != "" {
		return nil
	}
	if err := directory(dir); err != nil {
		return err
	}
	b.folders[dir], err = locate.Real(dir)
	return err
}

// directory returns an error if path is not an existing directory.
func directory(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", path)
	}
	return err
}

// complete returns t with the real path of its folder, and with the agent, the schema and the check of the flags, where
// it has none.
func (b *batchRun) complete(t task.Task) task.Task {
	t.Dir = b.folders[t.WorkingDir]
	t = ceiling.Relative(t, t.WorkingDir)
	if t.Agent == "" {
		t.Agent = b.o.agent
	}
	if len(t.Schema) == 0 {
		t.Schema = b.o.schema
	}
	return b.o.checks.Complete(t, b.runner, b.readOnly, b.given)
}

// tasks streams the tasks of the spool file. A task without an agent or a schema gets that
// of the flags.
func (b *batchRun) tasks() iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		for t, err := range b.spool.Tasks() {
			if !yield(b.complete(t), err) {
				return
			}
		}
	}
}

// Schema reads the file of --schema, a JSON Schema for the answer. It returns nil if path
// is empty.
func Schema(path string) (json.RawMessage, error) {
	if path == "" {
		return nil, nil
	}
	text, err := command.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if _, err := loop.ParseSchema(json.RawMessage(text)); err != nil {
		return nil, command.Usagef("--schema takes a file with a JSON Schema", "%s: %v", path, err)
	}
	return json.RawMessage(text), nil
}

// interruptible reads from a pipe or a terminal until ctx ends. A read that blocks cannot
// be interrupted, so its goroutine stays until it returns or the process ends.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (r *interruptible) Read(p []byte) (int, error) {
	buf := make([]byte, len(p)) // p may not be used after Read has returned
	type read struct {
		n   int
		err error
	}
	done := make(chan read, 1)
	go func() {
		n, err := r.from.Read(buf)
		done <- read{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, buf[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
}
