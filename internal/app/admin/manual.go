package admin

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/manual"
	"qq/internal/app/output"
)

func (r commands) completion() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a completion script for a shell", ArgsUsage: "bash | zsh | fish",
		Description: "bash: source <(qq completion bash)\nzsh:  source <(qq completion zsh)\n" +
			"fish: qq completion fish | source",
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return command.Usagef("give one of bash, zsh and fish"+command.AsPrompt(c),
					"qq completion takes one shell: %q", c.Args().Get(1))
			}
			var script string
			switch c.Args().First() {
			case "bash":
				script = manual.Bash
			case "zsh":
				script = manual.Zsh
			case "fish":
				script = manual.Fish
			default:
				return command.Usagef("accepted is bash, zsh or fish"+command.AsPrompt(c),
					"no completion for the shell %q", c.Args().First())
			}
			return r.print(script)
		},
	}
}

func (r commands) man() *cli.Command {
	return &cli.Command{
		Name: "man", Usage: "print the man page (qq man | man -l -)",
		Action: func(c *cli.Context) error { return r.print(manual.ManPage(c.App)) },
	}
}

func (r commands) version() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version",
		Action: func(*cli.Context) error { return PrintVersion(r.Invocation) },
	}
}

// PrintVersion prints the version, for qq version and qq --version.
func PrintVersion(i *command.Invocation) error {
	text := fmt.Sprintf("qq %s (%s, %s/%s)\n", i.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return commands{Invocation: i}.print(text)
}

func (r commands) print(text string) error {
	_, err := r.Out.WriteString(text)
	return output.WriteError(err)
}
