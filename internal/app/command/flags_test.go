package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

func TestOptionalFlag(t *testing.T) {
	for _, c := range []struct {
		args []string
		want Optional
		rest []string
	}{
		{[]string{"qq"}, Optional{}, []string{}},
		{[]string{"qq", "a.txt", "--resume"}, Optional{Given: true}, []string{"a.txt"}},
		{[]string{"qq", "--resume", "a.txt"}, Optional{Given: true}, []string{"a.txt"}},
		{[]string{"qq", "--resume=3f2a", "a.txt"}, Optional{Given: true, Value: "3f2a"}, []string{"a.txt"}},
		{[]string{"qq", "--resume=false"}, Optional{}, []string{}},
	} {
		var got Optional
		var rest []string
		app := &cli.App{Flags: named([]cli.Flag{OptionalFlag("resume", "go on", &got)}),
			Action: func(c *cli.Context) error {
				rest = c.Args().Slice()
				return nil
			}}
		require.NoError(t, app.Run(Permute(app, c.args)))
		assert.Equal(t, c.want, got, c.args)
		assert.Equal(t, c.rest, rest, c.args)
	}
}
