package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/output"
	"qq/internal/config"
	"qq/internal/engine"
	"qq/pkg/session"
)

func (r *root) sessionsCommand() *cli.Command {
	flags := []cli.Flag{flagCwd, flagPlain, flagQuiet}
	return &cli.Command{
		Name: "sessions", Usage: "transcripts of earlier runs", Flags: flags, Action: r.listSessions,
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list them, the newest first", Flags: flags, Action: r.listSessions},
			{Name: "show", Usage: "print one", ArgsUsage: "ID", Flags: flags, Action: r.showSession},
			{Name: "rm", Usage: "delete some", ArgsUsage: "ID…", Flags: flags, Action: r.removeSessions},
			{Name: "prune", Usage: "delete those not used for a time, and kept outputs of that age", Flags: append([]cli.Flag{
				&cli.IntFlag{Name: "days", Value: 30, Usage: "delete what was not used for so many days"}}, flags...), Action: r.pruneSessions},
		},
	}
}

func (r *root) store(c *cli.Context) (*session.Store, error) {
	cfg, _, err := r.configure(c)
	if err != nil {
		return nil, err
	}
	return openStore(cfg), nil
}

func openStore(cfg config.Config) *session.Store {
	return session.Open(filepath.Join(cfg.Home, "sessions"))
}

// sessionRow is one session for scripts.
type sessionRow struct {
	ID       string    `json:"id"`
	Agent    string    `json:"agent"`
	Model    string    `json:"model"`
	Dir      string    `json:"dir"`
	Title    string    `json:"title"`
	Messages int       `json:"messages"`
	Created  time.Time `json:"created"`
	Modified time.Time `json:"modified"`
}

func (r *root) listSessions(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("accepted is list, show ID, rm ID… or prune", "qq sessions has no command %q", c.Args().First())
	}
	store, err := r.store(c)
	if err != nil {
		return err
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	rows := []sessionRow{}
	for _, s := range all {
		if s.Damaged {
			r.say("session %s is damaged: its first line cannot be read", s.ID)
			continue
		}
		rows = append(rows, sessionRow{s.ID, s.Agent, s.Model, s.Dir, s.Title, s.Messages, s.Created, s.Modified})
	}
	if c.Bool("json") {
		return output.WriteJSON(r.Out, rows)
	}
	if len(rows) == 0 {
		r.say("no sessions yet")
		return nil
	}
	w := tabwriter.NewWriter(r.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tUSED\tAGENT\tMESSAGES\tTITLE")
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", row.ID, row.Modified.Local().Format("2006-01-02 15:04"), row.Agent, row.Messages, output.Printable(row.Title))
	}
	return output.WriteError(w.Flush())
}

func (r *root) showSession(c *cli.Context) error {
	if c.NArg() != 1 {
		return usagef("qq sessions list shows them", "qq sessions show takes one id")
	}
	store, err := r.store(c)
	if err != nil {
		return err
	}
	t, err := store.Load(c.Args().First())
	if err != nil {
		return sessionError(err)
	}
	if c.Bool("json") {
		return output.WriteJSON(r.Out, t)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "session %s, agent %s, model %s, in %s\n", t.Header.ID, t.Header.Agent, t.Header.Model, t.Header.Dir)
	for _, e := range t.Entries {
		who := string(e.Role)
		if e.Tool != "" {
			who += " " + e.Tool
		}
		fmt.Fprintf(&b, "\n── %s, %s\n", who, e.Time.Local().Format("15:04:05"))
		for _, call := range e.Calls {
			fmt.Fprintf(&b, "→ %s\n", output.Printable(call.Name+" "+string(call.Arguments)))
		}
		if e.Content != "" {
			b.WriteString(strings.TrimRight(output.Printable(e.Content), "\n") + "\n")
		}
	}
	for _, d := range t.Damaged {
		r.say("%s", d)
	}
	_, err = r.Out.WriteString(b.String())
	return output.WriteError(err)
}

func (r *root) removeSessions(c *cli.Context) error {
	if c.NArg() == 0 {
		return usagef("qq sessions list shows them", "qq sessions rm takes one or more ids")
	}
	store, err := r.store(c)
	if err != nil {
		return err
	}
	for _, id := range c.Args().Slice() {
		if err := store.Remove(id); err != nil {
			return sessionError(err)
		}
	}
	return nil
}

func (r *root) pruneSessions(c *cli.Context) error {
	days := c.Int("days")
	if days < 0 {
		return usagef("accepted is a whole number from 0 on", "--days is %d", days)
	}
	cfg, _, err := r.configure(c)
	if err != nil {
		return err
	}
	age := time.Duration(days) * 24 * time.Hour
	gone, err := openStore(cfg).Prune(age)
	for _, id := range gone {
		fmt.Fprintln(r.Out, id)
	}
	files, outputErr := engine.PruneOutputs(cfg.Home, age)
	for _, f := range files {
		fmt.Fprintln(r.Out, f)
	}
	return errors.Join(err, outputErr)
}

// sessionError marks the mistakes of a person.
func sessionError(err error) error {
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInUse) || strings.Contains(err.Error(), "hint:") {
		return usage(advised(err, "qq sessions list shows them"))
	}
	return err
}

func sessionChoice(c *cli.Context) (session.Choice, error) {
	o := session.Choice{ID: c.String("session"), Latest: c.Bool("continue"), Ephemeral: c.Bool("ephemeral")}
	chosen := 0
	for _, is := range []bool{o.ID != "", o.Latest, c.Bool("new-session"), o.Ephemeral} {
		if is {
			chosen++
		}
	}
	if chosen > 1 {
		return o, usagef("leave all but one out", "--session, --continue, --new-session and --ephemeral exclude each other")
	}
	if c.IsSet("session") && o.ID == "" {
		return o, usagef("qq sessions list shows them", "--session is empty")
	}
	return o, nil
}
