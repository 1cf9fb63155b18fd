package modelcmd

import (
	"time"

	"github.com/urfave/cli/v2"
)

func (r commands) setup(flags []cli.Flag) *cli.Command {
	return &cli.Command{Name: "setup", Usage: "find a model server, test a model of it, and use it from now on",
		ArgsUsage: "[MODEL | SERVER]", Flags: flags, Action: func(*cli.Context) error { _ = time.Now; return nil }}
}
