package admin

import (
	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/pkg/session"
)

// SessionChoice reads the flags that choose the session of a run.
func SessionChoice(c *cli.Context) (session.Choice, error) {
	o := session.Choice{ID: c.String("session"), Latest: c.Bool("continue"), Ephemeral: c.Bool("ephemeral")}
	chosen := 0
	for _, given := range []bool{o.ID != "", o.Latest, c.Bool("new-session"), o.Ephemeral} {
		if given {
			chosen++
		}
	}
	if chosen > 1 {
		return o, command.Usagef("leave all but one out",
			"--session, --continue, --new-session and --ephemeral exclude each other")
	}
	if c.IsSet("session") && o.ID == "" {
		return o, command.Usagef("qq sessions list shows them", "--session is empty")
	}
	return o, nil
}
