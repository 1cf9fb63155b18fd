package app

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"qq/internal/app/output"
)

func (r *root) versionCommand() *cli.Command {
	return &cli.Command{Name: "version", Usage: "print the version", Action: r.printVersion}
}

func (r *root) printVersion(*cli.Context) error {
	_, err := fmt.Fprintf(r.Out, "qq %s (%s, %s/%s)\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return output.WriteError(err)
}
