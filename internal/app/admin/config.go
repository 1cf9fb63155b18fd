package admin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/config"
	"qq/pkg/tool"
)

func (r commands) config() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "show every setting: value, default, where it came from",
		Flags: command.LookFlags(), Before: r.refuseValue, Action: r.showConfig,
	}
}

// refuseValue returns an error if qq config is called with arguments. A person may want to set a setting.
func (r commands) refuseValue(c *cli.Context) error {
	if !c.Args().Present() {
		return nil
	}
	name, value := "QQ_MODEL", "extract"
	words := strings.Fields(strings.ReplaceAll(strings.Join(c.Args().Slice(), " "), "=", " "))
	for i, word := range words {
		for _, s := range config.Settings() {
			if strings.EqualFold(word, s.Name) || s.Flag != "" && word == s.Flag {
				name, value = s.Name, "…"
				if i+2 == len(words) && !strings.Contains(words[i+1], "'") {
					value = words[i+1]
				}
			}
		}
	}
	set, dir := fmt.Sprintf("echo '%s=%s' >> ", name, value), filepath.Join(r.Env.ConfigHome(), "qq")
	if _, err := os.Stat(dir); err != nil {
		set = fmt.Sprintf("mkdir -p %s && ", dir) + set
	}
	return command.Usagef(fmt.Sprintf("qq config lists every setting; to set one: %s%s%s", set,
		filepath.Join(dir, ".env"), command.AsPrompt(c)), "qq config takes no argument: %q", c.Args().First())
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
		t = append(t, []string{row.Name, tool.Visible(row.Value), row.Default, figures.Spelled(row.Source)})
	}
	return r.print(strings.Join(t.Wrapped(r.Out.Width()), "\n") + "\n")
}
