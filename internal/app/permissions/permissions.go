// Package permissions makes of the settings and the files of a person what calls of tools
// are allowed: the [Policy] of a run, and the [Lasting] rules, which are made by the answer
// "always in this folder" to a question. [Command] is qq permissions, which lists and
// removes those. See packages qq/internal/approval/rules for the rules and rulefile for their file.
package permissions

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/approval/rulefile"
	"qq/pkg/tool"
)

// permissions is the command.
type permissions struct{ *command.Invocation }

// Command returns the command qq permissions.
func Command(i *command.Invocation) *cli.Command {
	p := permissions{i}
	flags := []cli.Flag{command.FlagCwd, command.FlagJSON, command.FlagQuiet}
	return &cli.Command{
		Name: "permissions", Usage: "what you allowed for good, by folder", Flags: flags, Action: p.list,
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list the rules of all folders", Flags: flags, Action: p.list},
			{
				Name: "rm", Usage: "remove rules, by their number in the list or by their text",
				ArgsUsage: "NUMBER|RULE…",
				Flags:     flags, Action: p.remove,
			},
		},
	}
}

// Row is one rule in the JSON output of qq permissions list.
type Row struct {
	Number int `json:"number"`
	rulefile.Entry
}

// SetRow is one rule of QQ_ALLOW in the JSON output of qq permissions list. It is in no file of rules.
type SetRow struct {
	Rule   string `json:"rule"`
	Source string `json:"source"` // such as "QQ_ALLOW (environment)"
}

// set returns the rules of QQ_ALLOW that count here.
func (p permissions) set() []SetRow {
	settings := p.Checkout.Settings
	rows := []SetRow{}
	for _, rule := range settings.Allow {
		rows = append(rows, SetRow{rule, "QQ_ALLOW (" + settings.Source("QQ_ALLOW") + ")"})
	}
	return rows
}

// open returns the store and its rules.
func (p permissions) open(c *cli.Context) (s rulefile.Store, rows []Row, err error) {
	if _, _, err = p.Configure(c); err != nil {
		return s, nil, err
	}
	home := p.Env.ConfigHome()
	if home == "" {
		return s, nil, command.Usagef("set HOME or XDG_CONFIG_HOME to an absolute path",
			"there is no folder of your settings")
	}
	s = rulefile.Open(filepath.Join(home, "qq"))
	entries, err := s.List()
	if err != nil {
		return s, nil, command.Usage(err)
	}
	rows = []Row{}
	for i, e := range entries {
		rows = append(rows, Row{i + 1, e})
	}
	return s, rows, nil
}

func (p permissions) list(c *cli.Context) error {
	if c.Args().Present() {
		return command.NoCommand(c)
	}
	_, rows, err := p.open(c)
	if err != nil {
		return err
	}
	set := p.set()
	if c.Bool("json") {
		all := []any{}
		for _, r := range rows {
			all = append(all, r)
		}
		for _, r := range set {
			all = append(all, r)
		}
		return output.WriteJSON(p.Out, all)
	}
	if len(rows) == 0 {
		p.Say("no lasting rules yet: the answer \"always in this folder\" to a question makes one")
	}
	if len(rows)+len(set) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NUMBER\tADDED\tFOLDER\tRULE")
	for _, r := range rows {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", r.Number, r.Added.Local().Format("2006-01-02 15:04"),
			oneLine(r.Folder), oneLine(r.Rule))
	}
	for _, r := range set {
		fmt.Fprintf(w, "-\t%s\there\t%s\n", oneLine(r.Source), oneLine(r.Rule))
	}
	return output.WriteError(w.Flush())
}

// oneLine spells out what a person could not see, and what would look like another row of the list.
func oneLine(text string) string {
	return strings.NewReplacer("\n", "␊", "\t", "␉").Replace(tool.Visible(text))
}

func (p permissions) remove(c *cli.Context) error {
	if c.NArg() == 0 {
		return command.Usagef("qq permissions list shows them", "qq permissions rm takes one or more rules")
	}
	s, rows, err := p.open(c)
	if err != nil {
		return err
	}
	gone := []Row{}
	for _, arg := range c.Args().Slice() {
		row, err := pick(rows, arg)
		if err != nil {
			return err
		}
		gone = append(gone, row)
	}
	entries := make([]rulefile.Entry, len(gone))
	for i, r := range gone {
		entries[i] = r.Entry
	}
	if err := s.Remove(entries); err != nil {
		return command.Usage(err)
	}
	if c.Bool("json") {
		return output.WriteJSON(p.Out, gone)
	}
	for _, r := range gone {
		p.Note("removed: %s in %s", oneLine(r.Rule), oneLine(r.Folder))
	}
	if len(rows) > len(gone) {
		p.Note("the others have new numbers: qq permissions list shows them")
	}
	return nil
}

// pick returns the row that arg means: its number, or the text of its rule.
func pick(rows []Row, arg string) (found Row, err error) {
	n, noNumber := strconv.Atoi(arg)
	matches := 0
	for _, r := range rows {
		if noNumber == nil && r.Number == n || r.Rule == arg {
			found, matches = r, matches+1
		}
	}
	switch matches {
	case 0:
		return found, command.Usagef("qq permissions list shows them", "there is no lasting rule %q", arg)
	case 1:
		return found, nil
	}
	return found, command.Usagef("give its number: qq permissions list shows it", "%d folders have the rule %q",
		matches,
		arg)
}
