package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/urfave/cli/v2"
)

func TestMistyped(t *testing.T) {
	commands := []*cli.Command{{Name: "doctor"}, {Name: "agents", Subcommands: []*cli.Command{{Name: "list"}}}}
	for prompt, want := range map[string]string{
		"doctr": "doctor", "agent": "agents", "agent list": "agents",
		"agents": "", "agent smith": "", "hello": "", "doctor who": "", "": "", "list agent": "",
	} {
		assert.Equal(t, want, Mistyped(commands, prompt), prompt)
	}
}

// What follows ::: are values, even if they look like flags.
func TestPermuteValues(t *testing.T) {
	batch := &cli.Command{
		Name: "batch", ArgsUsage: "[FILE | ::: VALUES…]",
		Flags: []cli.Flag{&cli.StringFlag{Name: "m"}, &cli.BoolFlag{Name: "q"}},
	}
	other := &cli.Command{Name: "other", Flags: batch.Flags}
	for _, c := range [][2][]string{
		{{"batch", "a", "-q", ":::", "-m", "b"}, {"batch", "-q", "--", "a", ":::", "-m", "b"}},
		{{"-q", "batch", "-m", "x", "::::+", "-q", ":::", "--"},
			{"batch", "-q", "-m", "x", "--", "::::+", "-q", ":::", "--"}},
		{{"batch", "-m", ":::", "a"}, {"batch", "-m"}},
		{{"batch", "--", ":::", "-q"}, {"batch", "--", ":::", "-q"}},
		{{"other", "a", ":::", "-q"}, {"other", "-q", "--", "a", ":::"}},
		{{"what", "is", ":::", "-q"}, {"-q", "--", "what", "is", ":::"}},
	} {
		app := &cli.App{Commands: []*cli.Command{batch, other}, Flags: batch.Flags}
		assert.Equal(t, append([]string{"qq"}, c[1]...), Permute(app, append([]string{"qq"}, c[0]...)), c[0])
	}
}
