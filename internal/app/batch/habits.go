package batch

import (
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/app/values"
	"qq/pkg/supervisor"
	"qq/pkg/supervisor/pace"
)

// habitFlags returns the flags that are here because people know them from GNU parallel.
func habitFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name: "keep-order", Aliases: []string{"k"}, Usage: "accepted; results always keep the order of the input",
		},
		&cli.BoolFlag{Name: "tag", Usage: "begin each line of text with the input of its task and a tab"},
		&cli.BoolFlag{Name: "eta", Usage: "accepted; the progress line always has an estimate"},
		&cli.StringFlag{Name: "delay", Usage: "seconds between the starts of two tasks, or a time such as 1m30s"},
		&cli.StringFlag{Name: "memfree",
			Usage: "start no task while less memory is available, such as 4G or 500M (1024 and so on); Linux only"},
	}
}

// parseTag reads the flag --tag, which only goes with text.
func parseTag(c *cli.Context, format string) (bool, error) {
	if c.Bool("tag") && format != output.Text {
		return false, command.Usagef("leave --tag out: these formats name the task of each result",
			"--tag does not go with --output-format %s", format)
	}
	return c.Bool("tag"), nil
}

// startOptions say when a task may start, besides having a slot.
type startOptions struct {
	delay  time.Duration
	memory int64 // bytes that must be available; 0 means that memory does not matter
}

// parseStart parses the flags --delay and --memfree.
func parseStart(c *cli.Context) (startOptions, error) {
	var o startOptions
	if c.IsSet("delay") {
		var ok bool
		if o.delay, ok = values.ParseDelay(c.String("delay")); !ok {
			return o, command.Usagef("accepted are seconds such as 2 or 0.5, or a time such as 1m30s, at most a day",
				"--delay is %q", c.String("delay"))
		}
	}
	if c.IsSet("memfree") {
		var ok bool
		if o.memory, ok = values.ParseSize(c.String("memfree")); !ok {
			return o, command.Usagef("accepted is a number of bytes above 0, with K, M, G or T for powers of 1024, "+
				"or k, m, g or t for powers of 1000", "--memfree is %q", c.String("memfree"))
		}
		if _, err := (pace.Machine{}).Available(); err != nil {
			return o, command.Usagef("leave --memfree out",
				"--memfree needs to know how much memory is available: %v", err)
		}
	}
	return o, nil
}

// pace returns the Pace of the batch b, or nil if its tasks start as soon as they can.
func (o startOptions) pace(b *batchRun) supervisor.Pace {
	if o == (startOptions{}) {
		return nil
	}
	p := &pace.Pace{Delay: o.delay}
	if o.memory > 0 {
		p.Memory, p.Free, p.Notes = pace.Machine{}, o.memory, b
	}
	return p
}
