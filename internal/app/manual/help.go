// Package manual writes what a person reads about the commands of qq, and what a shell completes: help, the man page
// and completions, all from the one tree of commands.
package manual

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/columns"
	"qq/internal/config"
)

// SetHelp makes the help of app and of its commands the one of this package, for a terminal with that many columns; 0
// means that no line is broken.
func SetHelp(app *cli.App, width int) {
	app.CustomAppHelpTemplate = template(columns.Wrap(Help(app), width))
	for _, c := range app.Commands {
		setHelp(c, app.Name+" "+c.Name, width)
	}
}

func setHelp(c *cli.Command, name string, width int) {
	c.CustomHelpTemplate = template(columns.Wrap(commandHelp(c, name), width))
	for _, sub := range c.Subcommands {
		setHelp(sub, name+" "+sub.Name, width)
	}
}

// template returns text as a template of package text/template.
func template(text string) string { return strings.ReplaceAll(text, "{{", `{{"{{"}}`) }

// commandHelp returns the text of --help of a command, such as qq runs list.
func commandHelp(c *cli.Command, name string) string {
	var b strings.Builder
	usage := name + " [flags]"
	if len(c.Subcommands) > 0 {
		usage = name + " [COMMAND] [flags]"
	}
	fmt.Fprintf(&b, "%s - %s\n\nUSAGE\n  %s\n", name, c.Usage, strings.TrimSpace(usage+" "+c.ArgsUsage))
	if c.Description != "" {
		fmt.Fprintf(&b, "\n  %s\n", strings.ReplaceAll(c.Description, "\n", "\n  "))
	}
	if len(c.Subcommands) > 0 {
		b.WriteString("\nCOMMANDS\n")
		for _, sub := range c.Subcommands {
			column(&b, strings.TrimSpace(sub.Name+" "+sub.ArgsUsage), sub.Usage)
		}
	}
	if len(c.Flags) > 0 {
		b.WriteString("\nFLAGS\n")
		flags(&b, c.Flags)
	}
	return b.String()
}

// flags writes a list of flags, each with its default where the flag says none itself.
func flags(b *strings.Builder, list []cli.Flag) {
	for _, f := range list {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		usage := d.GetUsage()
		if value := d.GetValue(); d.TakesValue() && value != "" && value != "0" {
			usage += " (default " + value + ")"
		}
		column(b, flagNames(f), usage)
	}
}

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
	flags(&b, app.Flags)
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
