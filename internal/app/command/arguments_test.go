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
