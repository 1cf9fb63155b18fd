// Package prompt makes the task of a prompt of what a person gives: words, flags, files, images and stdin.
package prompt

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/pkg/picture"
	"qq/pkg/regular"
	"qq/pkg/task"
)

// Task makes the task of a prompt from flags, arguments and stdin. commands are those that a person may have meant by
// words that nothing but the command line has, and that begin a conversation.
func Task(i *command.Invocation, c *cli.Context, commands []*cli.Command) (task.Task, error) {
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
			err = command.Mistaken(commands, message, c.Args().Slice())
		}
		return task.Task{}, cmp.Or(err, command.Usagef("give it once: as PROMPT, with -m, or with -f",
			"the task is given more than once"))
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
	piped, isPipe, err := piped(i, c.Bool("no-stdin"), fromStdin)
	empty := isPipe && strings.TrimSpace(piped.text) == "" && len(piped.images) == 0
	if err == nil {
		piped.images, err = withFiles(piped.images, *c.Generic("image").(*paths))
	}
	if err == nil && (!isPipe || empty) && !i.Literal && !c.Bool("continue") && !c.IsSet("session") {
		err = command.Mistaken(commands, "", c.Args().Slice())
	}
	switch {
	case err != nil:
		return task.Task{}, err
	case empty && (fromStdin || given == 0):
		return task.Task{}, command.Usagef("the pipe or file at stdin is empty; give PROMPT, or something to read",
			"nothing came through stdin")
	case (fromStdin || given == 0) && piped.text != "":
		return task.Task{Text: piped.text, Images: piped.images}, nil
	case given == 0 && len(piped.images) > 0:
		return task.Task{}, command.Usagef(`for example: qq --image a.png "What is this?"`,
			"an image is given, and no task")
	case given == 0 && c.Command.Name == "plan":
		return task.Task{}, command.Usagef(`for example: qq plan "Rename Foo to Bar everywhere"`, "no task")
	case given == 0:
		return task.Task{}, command.Usagef(
			`for example: qq "Summarize README.md", or: git diff | qq "write a commit message"`, "no task")
	case strings.TrimSpace(text) == "":
		return task.Task{}, command.Usagef(`for example: qq -m "Summarize README.md"`, "the task is empty")
	case empty:
		i.Note("stdin is empty: the prompt runs without it (--no-stdin does not read it)")
		piped.text = ""
	}
	return task.Task{Text: text, Context: piped.text, Images: piped.images}, nil
}

// input is what came through stdin.
type input struct {
	text   string
	images []picture.Image
}

// piped reads stdin if it is a pipe, a socket or a file, unless never is set. It reads a terminal only if asked is
// set. isPipe is false if stdin was not read. Beside a task, stdin may be an image.
func piped(i *command.Invocation, never, asked bool) (got input, isPipe bool, err error) {
	switch {
	case never && asked:
		return input{}, false, command.Usagef("leave one of them out",
			"the task is to come from stdin, and --no-stdin is given")
	case never:
		return input{}, false, nil
	}
	info, err := i.In.Stat()
	if err != nil {
		if asked {
			return input{}, false, command.Usagef("give the task with -m", "stdin is closed")
		}
		return input{}, false, nil
	}
	if info.Mode()&os.ModeCharDevice != 0 && !asked {
		return input{}, false, nil
	}
	from := patient{i.In, time.AfterFunc(patience, func() {
		i.Say("waiting for text on stdin (end it with Ctrl-D; to read none, use </dev/null or --no-stdin)")
	})}
	defer from.timer.Stop()
	if asked { // at a terminal, nothing is read after Ctrl-D
		got.text, err = command.ReadText(from, "stdin")
		return got, true, err
	}
	in := bufio.NewReaderSize(from, picture.HeadBytes)
	if head, _ := in.Peek(picture.HeadBytes); picture.Type(head) != "" {
		got.images, err = add(nil, in, "stdin")
	} else {
		got.text, err = command.ReadText(in, "stdin")
	}
	return got, true, err
}

// FlagImage returns the flag that gives images to a prompt.
func FlagImage() cli.Flag {
	return &cli.GenericFlag{
		Name: "image", Value: &paths{}, TakesFile: true,
		Usage: "PNG, JPEG, GIF or WebP file that is shown to the model (more than once)",
	}
}

// paths are the values of a flag that is given several times. A list of the flag library would be split at commas.
type paths []string

// Set implements flag.Value.
func (p *paths) Set(path string) error {
	*p = append(*p, path)
	return nil
}

func (p *paths) String() string { return strings.Join(*p, " ") }

// withFiles returns images with those in the files of these names.
func withFiles(images []picture.Image, names []string) ([]picture.Image, error) {
	for _, name := range names {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", name, err)
		}
		f, info, err := regular.Open(name, os.O_RDONLY)
		switch {
		case errors.Is(err, regular.ErrOther):
			return nil, command.Usagef(`an image that is no file comes through stdin: … | qq "What is this?"`, "%v",
				err)
		case err != nil:
			return nil, command.Usagef("name an image that exists and that you may read", "%v", err)
		}
		images, err = add(images, regular.Reader(f, info), path)
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return images, nil
}

// add returns images with the one that it reads. name is where that is.
func add(images []picture.Image, from io.Reader, name string) ([]picture.Image, error) {
	image, err := picture.Read(from, name)
	if err != nil {
		return nil, command.Usagef(picture.Advice, "%v", err)
	}
	return append(images, image), nil
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

// Given reports whether flags or arguments give a task, or a part of one.
func Given(c *cli.Context) bool {
	for _, name := range []string{
		"message", "message-file", "image", "schema", "check", "dry-run", "json", "output-format", "require-change",
	} {
		if c.IsSet(name) {
			return true
		}
	}
	return c.Args().Present()
}
