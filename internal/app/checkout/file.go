package checkout

import (
	"path/filepath"

	"github.com/urfave/cli/v2"

	"qq/internal/app/checks"
	"qq/internal/app/command"
)

// trustFile asks whether the checks in a file of tasks may run without a question.
func trustFile(i *command.Invocation, c *cli.Context, path string) error {
	if c.IsSet("cwd") {
		return command.Usagef("name the file alone", "a file and -C are both given")
	}
	lines, sum, err := checks.Listed(path)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return command.Usagef("qq trust takes a folder, or a file with tasks that have a check",
			"%s is no folder, and no task in it has a check", path)
	}
	if err := c.Set("cwd", filepath.Dir(path)); err != nil {
		return err
	}
	o, err := i.OpenAnyway(c)
	if o == nil {
		return err
	}
	if o.Settings.Depth > 0 {
		return command.Usagef("run qq trust yourself", "the command of an agent cannot decide what is trusted")
	}
	var claims []command.Claim
	for _, line := range lines {
		claims = append(claims, o.Claim(filepath.Base(path), sum, "check: "+line, "runs a command"))
	}
	return decide(c.Context, i, claims, path, c.Bool("yes"))
}
