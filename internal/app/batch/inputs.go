package batch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/command/vocabulary"
	"qq/internal/app/output"
	"qq/internal/fifo"
	"qq/internal/taskfile"
)

// inputFlags returns the flags that say what the tasks are made of.
func inputFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "message", Aliases: []string{"m", "prompt", "p"},
			Usage: "template of a task: {} {#} {%} {/} {//} {.} {/.} {1} {column}",
		},
		&cli.StringFlag{
			Name: "input", Aliases: []string{"i"},
			Usage: "file with the tasks, or with the lines or rows for -m; - is stdin",
		},
		command.Choice(&cli.StringFlag{
			Name:  "input-format",
			Usage: command.OneOf(taskfile.Forms()) + ", instead of what the name and the content say",
		}, taskfile.Forms()),
		&cli.BoolFlag{
			Name: "null", Aliases: []string{"0"}, Usage: "a NUL ends each input line, as find -print0 writes it",
		},
		&cli.StringFlag{
			Name: "colsep", Usage: "regular expression that separates the columns {1} {2} of an input line",
		},
		&cli.StringFlag{Name: "n", Usage: "inputs for each task: {} is all of them, {1} the first"},
		&cli.BoolFlag{Name: "shuf", Usage: "run the tasks in a random order, which --resume repeats"},
	}
}

// source returns where the tasks come from, as flags and arguments say.
func (b *batchRun) source(c *cli.Context) (taskfile.Source, error) {
	src := taskfile.Source{
		Template: c.String("message"), Name: c.String("input"), Form: taskfile.Form(c.String("input-format")),
		Null: c.Bool("null"), Shuffle: c.Bool("shuf"),
	}
	if c.IsSet("message") && strings.TrimSpace(src.Template) == "" {
		return src, command.Usagef(`for example: qq batch -m "Summarize {}" docs/*.md`, "the template is empty")
	}
	if src.Template == "-" {
		return src, command.Usagef(`for a template from a file: -m "$(cat FILE)"; stdin has the inputs`,
			"the template is -, and is not read from stdin")
	}
	if err := lineFlags(c, &src); err != nil {
		return src, err
	}
	args := c.Args().Slice()
	if err := b.notID(c, args); err != nil {
		return src, err
	}
	if whole := vocabulary.Unquoted(src.Template, args); whole != "" {
		hint := fmt.Sprintf("quote the template: -m %q; values that are no files go after :::", whole)
		return src, command.Usagef(hint, "no such file: %s", args[0])
	}
	if at := slices.IndexFunc(args, command.IsSeparator); at >= 0 {
		err := b.takeLists(c, args[at:], &src)
		other := ""
		switch {
		case at > 0 && src.Template == "" && !vocabulary.Exists(args[0]):
			return src, command.Usagef(
				fmt.Sprintf("write: qq batch -m %s %s …", vocabulary.ShellWord(args[0]), args[at]),
				"a template needs -m: %q", args[0])
		case at > 0:
			other = args[0]
		case src.Name != "":
			other = "--input " + src.Name
		}
		if err == nil && other != "" {
			err = command.Usagef("leave one of them out", "inputs are given in two ways: %s, and after %s", other,
				args[at])
		}
		return src, err
	}
	switch {
	case src.Template != "" && src.Name == "" && len(args) > 0:
		src.Files = args
	case src.Template == "" && vocabulary.WithoutFlag(args) != "":
		return src, command.Usagef("write: "+vocabulary.WithoutFlag(args), "a template needs -m: %q", args[0])
	case len(args) > 1 && !slices.ContainsFunc(args, vocabulary.IsName):
		return src, command.Usagef("name one file with tasks, or a template and files: "+
			`qq batch -m "Summarize {}" FILES…`+command.AsPrompt(c), "no such file: %s", args[0])
	case len(args) > 1:
		return src, command.Usagef(
			`one file holds all tasks; to make a task of each file: qq batch -m "Summarize {}" FILES…; `+
				"to resume a batch by its id: --resume=ID",
			"%d files are given", len(args))
	case len(args) == 1 && src.Name != "":
		return src, command.Usagef("give the file once", "the tasks are given as %s and with --input", args[0])
	case len(args) == 1:
		src.Name = args[0]
	}
	if src.Name == "" && src.Files == nil && output.IsTerminal(b.In) {
		return src, command.Usagef(
			`for example: qq batch tasks.txt, or: qq batch -m "Summarize {}" docs/*.md`, "no tasks")
	}
	var err error
	if src.Files == nil {
		src.Name, src.Input, err = b.input(c.Context, cmp.Or(src.Name, "-"))
	}
	return src, err
}

// input returns the reader of the file of that name, where - is stdin, and what it is called in messages. The reader is
// nil if the file can be opened at any time.
func (b *batchRun) input(ctx context.Context, name string) (string, io.Reader, error) {
	switch {
	case name == "-":
		return "stdin", &interruptible{ctx: ctx, from: b.In}, nil
	case fifo.Is(name):
		f, err := fifo.OpenFile(ctx, name, os.O_RDONLY, 0)
		return name, &interruptible{ctx: ctx, from: f}, err
	}
	return name, nil, nil
}

// notID returns an error if an argument is certainly the id of the batch that --resume continues: it is written with
// an equals sign.
func (b *batchRun) notID(c *cli.Context, args []string) error {
	if !b.o.continues() || b.o.continued() != "" || len(args) > 1 && !c.IsSet("message") {
		return nil // of two files: the error about them says it
	}
	flag := "--resume"
	if b.o.resumeFailed.Given {
		flag = "--resume-failed"
	}
	id := regexp.MustCompile(`^[0-9a-f]{8}(-?[0-9a-f]{1,28})*$`) // whole or shortened
	for _, arg := range args {
		if command.IsSeparator(arg) {
			break
		}
		if id.MatchString(arg) && !vocabulary.Exists(arg) {
			return command.Usagef(fmt.Sprintf("write %s=%s", flag, arg), "no such file: %s", arg)
		}
	}
	return nil
}

// lineFlags reads the flags that say what of the input is one task.
func lineFlags(c *cli.Context, src *taskfile.Source) error {
	if c.IsSet("n") {
		n, err := strconv.Atoi(c.String("n"))
		if err != nil || n < 1 {
			return command.Usagef("give a number from 1 on", "-n is %q", c.String("n"))
		}
		src.Group = n
	}
	if c.IsSet("colsep") {
		var err error
		if src.Columns, err = regexp.Compile(c.String("colsep")); err != nil || c.String("colsep") == "" {
			return command.Usagef(`for example: --colsep ', *' or --colsep '\t'`,
				"--colsep is no regular expression: %q", c.String("colsep"))
		}
	}
	rows := src.Form != taskfile.Auto && src.Form != taskfile.Lines
	switch {
	case src.Columns != nil && src.Group > 0:
		return command.Usagef("leave one of them out", "-n and --colsep are both given")
	case rows && src.Columns != nil:
		return command.Usagef("leave one of them out", "--colsep is for lines, and --input-format is %s", src.Form)
	case rows && src.Null:
		return command.Usagef("leave one of them out", "-0 is for lines, and --input-format is %s", src.Form)
	}
	return nil
}

// takeLists reads the arguments from the first ::: on.
func (b *batchRun) takeLists(c *cli.Context, args []string, src *taskfile.Source) error {
	stdin := false
	for i, arg := range args {
		if !command.IsSeparator(arg) {
			continue
		}
		linked := strings.HasSuffix(arg, "+") // to the list before it
		values := args[i+1:]
		if end := slices.IndexFunc(values, command.IsSeparator); end >= 0 {
			values = values[:end]
		}
		if linked && len(src.Lists) == 0 {
			return command.Usagef("begin with :::", "%s links to the list before it, and is the first", arg)
		}
		if len(values) == 0 {
			return command.Usagef("for example: ::: a b", "nothing stands after %s", arg)
		}
		if !strings.HasPrefix(arg, "::::") {
			src.Lists = append(src.Lists, taskfile.List{Values: values, Linked: linked})
			if err := notFlags(c, values, arg); err != nil {
				return err
			}
			continue
		}
		for k, name := range values {
			if name == "-" && stdin {
				return command.Usagef("give it once", "stdin can be read once only")
			}
			stdin = stdin || name == "-"
			file, from, err := b.input(c.Context, name)
			if err != nil {
				return err
			}
			src.Lists = append(src.Lists, taskfile.List{File: file, Input: from, Linked: linked && k == 0})
		}
	}
	switch {
	case len(src.Lists) > 1 && src.Group > 0:
		return command.Usagef("leave -n out: the lists say how many inputs a task has", "-n is given with %d lists",
			len(src.Lists))
	case src.Form != taskfile.Auto:
		return command.Usagef("leave one of them out", "--input-format does not go with %s", args[0])
	}
	return nil
}

// notFlags returns an error if one of the values is a flag of the command, such as --resume: it was certainly meant as
// one.
func notFlags(c *cli.Context, values []string, separator string) error {
	for _, v := range values {
		if command.IsKnown(c.Command.Flags, v) {
			return command.Usagef("put it before "+separator+"; as an input it goes into a file: :::: FILE",
				"%s after %s would be an input, and no flag", v, separator)
		}
	}
	return nil
}
