package app

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"qq/internal/app/flags"
	"qq/internal/app/output"
)

func (r *root) completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a completion script for a shell", ArgsUsage: "bash | zsh | fish",
		Description: "bash: source <(qq completion bash)\nzsh:  source <(qq completion zsh)\nfish: qq completion fish | source",
		Action:      r.completion,
	}
}

func (r *root) completion(c *cli.Context) error {
	var script string
	switch c.Args().First() {
	case "bash":
		script = flags.Bash(r.cli())
	case "zsh":
		script = "autoload -U +X bashcompinit && bashcompinit\n" + flags.Bash(r.cli())
	case "fish":
		script = flags.Fish(r.cli())
	default:
		return usagef("accepted is bash, zsh or fish", "no completion for the shell %q", c.Args().First())
	}
	_, err := fmt.Fprint(r.Out, script)
	return output.WriteError(err)
}
