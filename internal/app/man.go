package app

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"qq/internal/app/flags"
	"qq/internal/app/output"
)

func (r *root) manCommand() *cli.Command {
	return &cli.Command{
		Name: "man", Usage: "print the man page (qq man | man -l -)",
		Action: func(*cli.Context) error {
			_, err := fmt.Fprint(r.Out, flags.ManPage(r.cli()))
			return output.WriteError(err)
		},
	}
}
