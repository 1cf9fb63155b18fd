package command

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// refuseEmpty returns a usage error if a flag has an empty value that would count as if the flag were not given: a
// script may mean a variable that is not set. Other flags say themselves what they take.
func refuseEmpty(c *cli.Context) error {
	for _, name := range []string{"cwd", "input", "input-format", "message-file", "output", "output-format", "results",
		"schema", "system"} {
		if c.IsSet(name) && strings.TrimSpace(c.String(name)) == "" {
			return Usagef("leave it out, or see whether the variable in it is set", "the value of %s is empty",
				Dashed(name))
		}
	}
	return nil
}
