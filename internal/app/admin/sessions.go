package admin

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/app/scratch"
	"qq/internal/config"
	"qq/pkg/session"
	"qq/pkg/task"
	"qq/pkg/tool"
)

func (r commands) sessions() *cli.Command {
	flags := command.LookFlags()
	prune := append([]cli.Flag{
		&cli.IntFlag{Name: "days", Value: 30, Usage: "delete what was not used for so many days"},
		&cli.BoolFlag{Name: "all", Usage: "delete all that is not in use"},
	}, flags...)
	return &cli.Command{
		Name: "sessions", Usage: "transcripts of earlier runs", Flags: flags, Action: r.listSessions,
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list them, the newest first", Flags: flags, Action: r.listSessions},
			{Name: "show", Usage: "print one", ArgsUsage: "ID", Flags: flags, Action: r.showSession},
			{Name: "rm", Usage: "delete some", ArgsUsage: "ID…", Flags: flags, Action: r.removeSessions},
			{
				Name: "prune", Usage: "delete those not used for a time, and kept outputs of that age",
				Flags: prune, Action: r.pruneSessions,
			},
		},
	}
}

func (r commands) store(c *cli.Context) (*session.Store, error) {
	cfg, _, err := r.Configure(c)
	if err != nil {
		return nil, err
	}
	return Store(cfg), nil
}

// Store returns the store of transcripts, which is a folder in the folder of qq.
func Store(cfg config.Config) *session.Store {
	return session.Open(filepath.Join(cfg.Home, "sessions"))
}

// SessionRow is one session in the JSON output of qq sessions list.
type SessionRow struct {
	ID       string    `json:"id"`
	Agent    string    `json:"agent"`
	Model    string    `json:"model"`
	Dir      string    `json:"dir"`
	Title    string    `json:"title"`
	Messages int       `json:"messages"`
	Created  time.Time `json:"created"`
	Modified time.Time `json:"modified"`
}

func (r commands) listSessions(c *cli.Context) error {
	if c.Args().Present() {
		return command.NoCommand(c)
	}
	store, err := r.store(c)
	if err != nil {
		return err
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	rows := []SessionRow{}
	for _, s := range all {
		if s.Damaged {
			r.Say("session %s is damaged: its first line cannot be read", s.ID)
			continue
		}
		rows = append(rows, SessionRow{s.ID, s.Agent, s.Model, s.Dir, s.Title, s.Messages, s.Created, s.Modified})
	}
	if c.Bool("json") {
		return output.WriteJSON(r.Out, rows)
	}
	if len(rows) == 0 {
		r.Say("no sessions yet")
		return nil
	}
	w := tabwriter.NewWriter(r.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tUSED\tAGENT\tMESSAGES\tTITLE")
	for _, row := range rows {
		used := row.Modified.Local().Format("2006-01-02 15:04")
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", row.ID, used, output.Spelled(row.Agent), row.Messages,
			output.Spelled(row.Title))
	}
	return output.WriteError(w.Flush())
}

func (r commands) showSession(c *cli.Context) error {
	if c.NArg() != 1 {
		return command.Usagef("qq sessions list shows them", "qq sessions show takes one id")
	}
	store, err := r.store(c)
	if err != nil {
		return err
	}
	t, err := store.Load(c.Args().First())
	if err != nil {
		return SessionError(err)
	}
	if c.Bool("json") {
		return output.WriteJSON(r.Out, t)
	}
	var b strings.Builder
	b.WriteString(output.Spelled(fmt.Sprintf("session %s, agent %s, model %s, in %s", t.Header.ID, t.Header.Agent,
		t.Header.Model, t.Header.Dir)) + "\n")
	for _, e := range t.Entries {
		who := string(e.Role)
		if e.Tool != "" {
			who += " " + e.Tool
		}
		fmt.Fprintf(&b, "\n── %s, %s\n", output.Spelled(who), e.Time.Local().Format("15:04:05"))
		for _, call := range e.Calls {
			fmt.Fprintf(&b, "→ %s\n", command.Printable(call.Line()))
		}
		if e.Content != "" {
			b.WriteString(strings.TrimRight(command.Printable(e.Content), "\n") + "\n")
		}
	}
	for _, d := range t.Damaged {
		r.Say("%s", d)
	}
	_, err = r.Out.WriteString(b.String())
	return output.WriteError(err)
}

func (r commands) removeSessions(c *cli.Context) error {
	if c.NArg() == 0 {
		return command.Usagef("qq sessions list shows them", "qq sessions rm takes one or more ids")
	}
	store, err := r.store(c)
	if err != nil {
		return err
	}
	for _, id := range c.Args().Slice() {
		if err := store.Remove(id); err != nil {
			return SessionError(err)
		}
	}
	return nil
}

func (r commands) pruneSessions(c *cli.Context) error {
	days := c.Int("days")
	switch {
	case c.Bool("all") && c.IsSet("days"):
		return command.Usagef("leave one of them out", "--all and --days %d disagree", days)
	case c.Bool("all"):
		days = 0
	case days == 0:
		return command.Usagef("qq sessions prune --all deletes them", "--days 0 would delete all sessions and outputs")
	case days < 0:
		return command.Usagef("accepted is a whole number from 1 on", "--days is %d", days)
	}
	cfg, _, err := r.Configure(c)
	if err != nil {
		return err
	}
	age := time.Duration(days) * 24 * time.Hour
	gone, err := Store(cfg).Prune(age)
	for _, id := range gone {
		fmt.Fprintln(r.Out, id)
	}
	files, outputErr := scratch.KeptIn(cfg.Home).Prune(age)
	for _, f := range files {
		fmt.Fprintln(r.Out, tool.Visible(f))
	}
	return errors.Join(err, outputErr)
}

// SessionError makes err a usage error if the user can correct it, for example a wrong id.
func SessionError(err error) error {
	_, hint := task.Explain(err)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInUse) || hint != "" {
		return command.Usage(command.Advised(err, "qq sessions list shows them"))
	}
	return err
}
