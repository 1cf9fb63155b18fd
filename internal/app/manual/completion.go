package manual

import (
	"fmt"
	"sort"
	"strings"

	"github.com/urfave/cli/v2"
)

// words returns what may follow a command: its subcommands and its flags.
func words(commands []*cli.Command, flags []cli.Flag) []string {
	var all []string
	for _, c := range commands {
		all = append(all, c.Name)
	}
	for _, f := range flags {
		all = append(all, "--"+f.Names()[0])
	}
	sort.Strings(all)
	return all
}

// Bash returns a completion script for bash, which zsh understands too.
func Bash(app *cli.App) string {
	var b strings.Builder
	b.WriteString("_qq() {\n  local cur=${COMP_WORDS[COMP_CWORD]} words i\n")
	fmt.Fprintf(&b, "  words=%q\n", strings.Join(words(app.Commands, app.Flags), " "))
	b.WriteString("  for ((i = 1; i < COMP_CWORD; i++)); do\n    case ${COMP_WORDS[i]} in\n")
	for _, c := range app.Commands {
		fmt.Fprintf(&b, "      %s) words=%q; break ;;\n", c.Name, strings.Join(words(c.Subcommands, c.Flags), " "))
	}
	b.WriteString("    esac\n  done\n" +
		"  if [[ $cur != -* && $COMP_CWORD -gt 1 ]]; then\n" +
		"    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n" +
		"  else\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n  fi\n}\ncomplete -o filenames -F _qq qq\n")
	return b.String()
}

// Fish returns a completion script for fish.
func Fish(app *cli.App) string {
	var b strings.Builder
	flags := func(condition string, flags []cli.Flag) {
		for _, f := range flags {
			line := "complete -c qq -n " + condition
			for _, n := range f.Names() {
				if len(n) == 1 {
					line += " -s " + n
				} else {
					line += " -l " + n
				}
			}
			if d, ok := f.(cli.DocGenerationFlag); ok {
				if d.TakesValue() {
					line += " -r"
				}
				line += " -d " + fishQuote(d.GetUsage())
			}
			b.WriteString(line + "\n")
		}
	}
	flags("__fish_use_subcommand", app.Flags)
	for _, c := range app.Commands {
		fmt.Fprintf(&b, "complete -c qq -n __fish_use_subcommand -a %s -d %s\n", c.Name, fishQuote(c.Usage))
		for _, sub := range c.Subcommands {
			fmt.Fprintf(&b, "complete -c qq -n '__fish_seen_subcommand_from %s' -a %s -d %s\n",
				c.Name, sub.Name, fishQuote(sub.Usage))
		}
		flags("'__fish_seen_subcommand_from "+c.Name+"'", c.Flags)
	}
	return b.String()
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
