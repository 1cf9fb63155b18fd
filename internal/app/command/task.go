package command

import (
	"cmp"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/pkg/task"
)

// Task makes the task of a prompt from flags, arguments and stdin. commands are those that a person may have meant by
// words that nothing but the command line has, and that begin a conversation.
func (i *Invocation) Task(c *cli.Context, commands []*cli.Command) (task.Task, error) {
	words := strings.Join(c.Args().Slice(), " ")
	given := 0
	for _, set := range []bool{c.IsSet("message"), c.IsSet("message-file"), words != ""} {
		if set {
			given++
		}
	}
	if given > 1 {
		var err error
		if message := c.String("message"); message != "" && !i.Literal {
			err = Mistaken(commands, message, c.Args().Slice())
		}
		return task.Task{}, cmp.Or(err, Usagef("give it once: as PROMPT, with -m, or with -f",
			"the task is given more than once"))
	}
	fromStdin := c.String("message") == "-" || c.String("message-file") == "-"
	text := words
	switch {
	case c.IsSet("message"):
		text = c.String("message")
	case c.IsSet("message-file") && !fromStdin:
		var err error
		if text, err = ReadFile(c.String("message-file")); err != nil {
			return task.Task{}, err
		}
	}
	piped, isPipe, err := i.piped(c.Bool("no-stdin"), fromStdin)
	empty := isPipe && strings.TrimSpace(piped) == ""
	if err == nil && (!isPipe || empty) && !i.Literal && !c.Bool("continue") && !c.IsSet("session") {
		err = Mistaken(commands, "", c.Args().Slice())
	}
	switch {
	case err != nil:
		return task.Task{}, err
	case empty && (fromStdin || given == 0):
		return task.Task{}, Usagef("the pipe or file at stdin is empty; give PROMPT, or something to read",
			"nothing came through stdin")
	case fromStdin, given == 0 && isPipe:
		return task.Task{Text: piped}, nil
	case given == 0:
		return task.Task{}, Usagef(
			`for example: qq "Summarize README.md", or: git diff | qq "write a commit message"`, "no task")
	case strings.TrimSpace(text) == "":
		return task.Task{}, Usagef(`for example: qq -m "Summarize README.md"`, "the task is empty")
	case empty:
		i.Note("stdin is empty: the prompt runs without it (--no-stdin does not read it)")
		return task.Task{Text: text}, nil
	}
	return task.Task{Text: text, Context: piped}, nil
}

// piped reads stdin if it is a pipe, a socket or a file, unless never is set. It reads a terminal only if asked is
// set. isPipe is false if stdin was not read.
func (i *Invocation) piped(never, asked bool) (text string, isPipe bool, err error) {
	switch {
	case never && asked:
		return "", false, Usagef("leave one of them out", "the task is to come from stdin, and --no-stdin is given")
	case never:
		return "", false, nil
	}
	info, err := i.In.Stat()
	if err != nil {
		if asked {
			return "", false, Usagef("give the task with -m", "stdin is closed")
		}
		return "", false, nil
	}
	if info.Mode()&os.ModeCharDevice != 0 && !asked {
		return "", false, nil
	}
	from := patient{i.In, time.AfterFunc(patience, func() {
		i.Say("waiting for text on stdin (end it with Ctrl-D; to read none, use </dev/null or --no-stdin)")
	})}
	defer from.timer.Stop()
	text, err = ReadText(from, "stdin")
	return text, true, err
}

// patience is how long nothing may come through stdin before the user is told that qq waits for it.
const patience = 3 * time.Second

// patient is a reader whose timer fires if a read takes longer than patience.
type patient struct {
	io.Reader
	timer *time.Timer
}

// Read implements io.Reader.
func (p patient) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if p.timer.Stop() && err == nil { // once it has fired, it does not again
		p.timer.Reset(patience)
	}
	return n, err
}
