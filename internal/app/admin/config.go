package admin

import (
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/pkg/tool"
)

func (r commands) config() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "show every setting: value, default, where it came from",
		Flags: command.LookFlags(), Action: r.showConfig,
	}
}

// SettingRow is one setting in the JSON output of qq config. Source says where its value
// came from.
type SettingRow struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Source  string `json:"source"`
	Meaning string `json:"meaning"`
}

func (r commands) showConfig(c *cli.Context) error {
	cfg, _, err := r.Configure(c)
	if err != nil {
		return err
	}
	var rows []SettingRow
	for _, s := range cfg.Settings() {
		from := cfg.Source(s.Name)
		for _, c := range command.Ignored(r.Checkout.Lines()) {
			if c.Setting == s.Name {
				from += " (" + c.File + " ignored: not trusted)"
			}
		}
		rows = append(rows, SettingRow{s.Name, cfg.Value(s.Name), s.Default, from, s.Doc})
	}
	if c.Bool("json") {
		return output.WriteJSON(r.Out, rows)
	}
	t := output.Table{{"SETTING", "VALUE", "DEFAULT", "FROM"}}
	for _, row := range rows {
		t = append(t, []string{row.Name, tool.Visible(row.Value), row.Default, output.Spelled(row.Source)})
	}
	return r.print(strings.Join(t.Wrapped(r.Out.Width()), "\n") + "\n")
}
