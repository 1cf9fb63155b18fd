// Package manual writes what a person reads about the commands of qq, and what a shell completes: help, the man page
// and completions, all from the one tree of commands.
package manual

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/config"
)

// Help returns the text of qq --help, the most important parts first.
func Help(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s - %s\n\nUSAGE\n", app.Name, app.Usage)
	for _, line := range strings.Split(app.UsageText, "\n") {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	b.WriteString("\nFOR EXAMPLE\n" +
		"  qq \"Summarize README.md\"\n" +
		"  git diff | qq \"write a commit message\"\n" +
		"  qq batch -m \"Summarize {}\" docs/*.md\n\nCOMMANDS (qq COMMAND --help says more)\n")
	b.WriteString(Commands(app))
	b.WriteString("\nFLAGS\n")
	for _, f := range app.Flags {
		if d, ok := f.(cli.DocGenerationFlag); ok {
			column(&b, flagNames(f), d.GetUsage())
		}
	}
	b.WriteString("\nSETTINGS (environment or .env; qq config shows their values)\n")
	for _, s := range config.Settings() {
		column(&b, s.Name, fmt.Sprintf("%s (default %s)", strings.ReplaceAll(s.Doc, "`", ""), s.Default))
	}
	b.WriteString("\nEXIT CODES\n")
	for _, e := range ExitCodes() {
		column(&b, fmt.Sprint(e.Code), e.Meaning)
	}
	return b.String()
}

// Commands returns the list of commands, each with what it does. README.md has the same
// list.
func Commands(app *cli.App) string {
	var b strings.Builder
	for _, c := range app.Commands {
		if c.Hidden {
			continue
		}
		name := c.Name
		for i, sub := range c.Subcommands {
			name += map[bool]string{true: " ", false: "|"}[i == 0] + sub.Name
		}
		column(&b, name, c.Usage)
	}
	return b.String()
}

// column writes a term and its meaning. The meaning goes on the next line if the term is
// long.
func column(b *strings.Builder, term, meaning string) {
	const width = 26
	if len(term) > width {
		fmt.Fprintf(b, "  %s\n  %-*s  %s\n", term, width, "", meaning)
		return
	}
	fmt.Fprintf(b, "  %-*s  %s\n", width, term, meaning)
}
