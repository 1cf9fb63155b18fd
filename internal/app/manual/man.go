package manual

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/config"
)

// roff escapes s for the source of a man page, which is in the language roff.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "").Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n.br\n")
}

// ManPage returns the commands, flags and settings as a man page in roff.
func ManPage(app *cli.App) string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	fmt.Fprintf(&b, ".TH QQ 1 \"\" \"qq %s\"\n", roff(app.Version))
	section("NAME")
	fmt.Fprintf(&b, "qq \\- %s\n", roff(app.Usage))
	section("SYNOPSIS")
	b.WriteString(roff(app.UsageText) + "\n")
	section("FLAGS")
	manFlags(&b, app.Flags)
	section("COMMANDS")
	for _, c := range app.Commands {
		if c.Hidden {
			continue
		}
		manCommandText(&b, "qq "+c.Name, c)
		for _, sub := range c.Subcommands {
			manCommandText(&b, "qq "+c.Name+" "+sub.Name, sub)
		}
	}
	section("ENVIRONMENT")
	for _, s := range config.Settings() {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s (default: %s)\n", roff(s.Name), roff(s.Doc), roff(s.Default))
	}
	section("EXIT STATUS")
	for _, e := range ExitCodes() {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", e.Code, roff(e.Meaning))
	}
	return b.String()
}

func manCommandText(b *strings.Builder, name string, c *cli.Command) {
	fmt.Fprintf(b, ".SS %s\n%s.\n", roff(strings.TrimSpace(name+" "+c.ArgsUsage)), roff(c.Usage))
	if c.Description != "" {
		fmt.Fprintf(b, ".PP\n%s\n", roff(c.Description))
	}
	if len(c.Subcommands) == 0 {
		manFlags(b, c.Flags)
	}
}

func manFlags(b *strings.Builder, flags []cli.Flag) {
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(flagNames(f)), roff(d.GetUsage()))
	}
}

// flagNames returns the spellings of a flag, such as "-m, --message VALUE".
func flagNames(f cli.Flag) string {
	var names []string
	for _, n := range f.Names() {
		if len(n) == 1 {
			names = append(names, "-"+n)
		} else {
			names = append(names, "--"+n)
		}
	}
	text := strings.Join(names, ", ")
	if d, ok := f.(cli.DocGenerationFlag); ok && d.TakesValue() {
		text += " VALUE"
	}
	return text
}

// ExitCode is an exit code and what it means.
type ExitCode struct {
	Code    int
	Meaning string
}

// ExitCodes returns the exit codes that scripts may rely on.
func ExitCodes() []ExitCode {
	return []ExitCode{
		{0, "done"},
		{1, "the task failed"},
		{2, "usage or configuration"},
		{3, "the model server cannot be reached, its quota is used up, or another temporary error"},
		{4, "some tasks of a batch failed"},
		{5, "a limit: children, tokens, cost, or the depth of a qq that an agent's command starts"},
		{124, "timeout"},
		{129, "hung up: the terminal was closed"},
		{130, "interrupted"},
		{131, "quit: Ctrl-\\"},
		{134, "qq itself broke down, for want of memory or by a fault of its own"},
		{141, "the reader of stdout went away"},
		{143, "terminated"},
	}
}
