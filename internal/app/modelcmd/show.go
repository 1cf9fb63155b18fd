package modelcmd

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/models"
)

func (r commands) show(c *cli.Context) error {
	name, err := one(c)
	if err != nil {
		return err
	}
	set, _, err := r.Configure(c)
	if err != nil {
		return err
	}
	at := r.reach(set)
	defer at.close()
	if name, err = at.whole(name); err != nil {
		return err
	}
	if name == models.Auto {
		m, err := at.Resolve(c.Context, name)
		if err != nil {
			return err
		}
		name = m.String()
	}
	if name == models.Extract {
		return r.printModel(row{Model: name, Server: "none: it is built in"}, c.Bool("json"))
	}
	client, own, err := at.Open(c.Context, name)
	if err != nil {
		return err
	}
	defer client.Close()
	o, err := client.Look(c.Context, own)
	if err != nil {
		return at.Doubt(client.Server(), own, err)
	}
	m := rowOf(client.Server(), o)
	m.Address = client.Host()
	return r.printModel(m, c.Bool("json"))
}

// printModel prints all that is known about a model.
func (r commands) printModel(m row, asJSON bool) error {
	if asJSON {
		return output.WriteJSON(r.Out, m)
	}
	t := output.Table{{"model", figures.Spelled(m.Model)}, {"server", m.Server}}
	add := func(what, text string) { t = append(t, []string{what, figures.Spelled(text)}) }
	if m.Address != "" {
		add("address", m.Address)
		add("context", tokenCount(m.Context))
		add("longest answer", tokenCount(m.Answer))
		add("tools", yesNo(m.Tools))
		add("vision", yesNo(m.Vision))
		add("size", bytes(m.Size))
	}
	if m.Thinking {
		add("thinking", "yes")
	}
	if m.Modified != nil {
		add("modified", m.Modified.Local().Format("2006-01-02 15:04"))
	}
	if m.Remote != "" {
		add("runs at", m.Remote+", to which the server passes your text on")
	}
	_, err := fmt.Fprintln(r.Out, strings.Join(t.Wrapped(r.Out.Width()), "\n"))
	return output.WriteError(err)
}

func tokenCount(n int) string {
	if n == 0 {
		return unknown
	}
	return fmt.Sprintf("%d tokens", n)
}
