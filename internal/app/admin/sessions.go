package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/app/output/transcript"
	"qq/internal/app/scratch"
	"qq/internal/record/ledger"
	"qq/internal/record/ledger/alive"
	"qq/pkg/session"
	"qq/pkg/task"
	"qq/pkg/tool"
)

func (r commands) sessions() *cli.Command {
	flags := command.LookFlags()
	list := append([]cli.Flag{
		&cli.BoolFlag{Name: "children", Usage: "those of children: agents that a batch or an agent has started"},
		&cli.IntFlag{Name: "limit", Value: 100, Usage: "with --children: at most so many; 0 is all"},
	}, flags...)
	prune := append([]cli.Flag{
		&cli.IntFlag{Name: "days", Value: 30, Usage: "delete what was not used for so many days"},
		&cli.BoolFlag{Name: "all", Usage: "delete all that is not in use"},
	}, flags...)
	return &cli.Command{
		Name: "sessions", Usage: "transcripts of earlier runs", Flags: list, Action: r.listSessions,
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list them, the newest first", Flags: list, Action: r.listSessions},
			{Name: "show", Usage: "print one", ArgsUsage: "ID", Flags: flags, Action: r.showSession},
			{Name: "rm", Usage: "delete some", ArgsUsage: "ID…", Flags: flags, Action: r.removeSessions},
			{
				Name: "prune", Usage: "delete those not used for a time, and kept outputs of that age",
				Flags: prune, Action: r.pruneSessions,
			},
		},
	}
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
	all, err := r.summaries(c)
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
	t := output.Table{{"SESSION", "USED", "AGENT", "MESSAGES", "TITLE"}}
	for _, row := range rows {
		id := row.ID
		if c.Bool("children") {
			id = task.ShortID(id) // enough to name it
		}
		t = append(t, []string{id, row.Modified.Local().Format("2006-01-02 15:04"), output.OneLine(row.Agent),
			fmt.Sprint(row.Messages), output.OneLine(row.Title)})
	}
	_, err = r.Out.WriteString(strings.Join(t.Lines(r.Out.Width()), "\n") + "\n")
	return output.WriteError(err)
}

// summaries returns the sessions to list.
func (r commands) summaries(c *cli.Context) ([]session.Summary, error) {
	limit := c.Int("limit")
	if limit < 0 {
		return nil, command.Usagef("accepted is a whole number from 0 on; 0 is all", "--limit is %d", limit)
	}
	cfg, _, err := r.Configure(c)
	if err != nil {
		return nil, err
	}
	if !c.Bool("children") {
		return session.Of(cfg.Home).List()
	}
	all, more, err := session.Archive{Dir: ledger.Transcripts(cfg.Home)}.List(limit)
	if more && !c.Bool("json") {
		r.Note("there are more (--limit is %d): --limit 0 shows all", limit)
	}
	return all, err
}

func (r commands) showSession(c *cli.Context) error {
	if c.NArg() != 1 {
		return command.Usagef("qq sessions list shows them", "qq sessions show takes one id")
	}
	cfg, _, err := r.Configure(c)
	if err != nil {
		return err
	}
	in, id, err := find(cfg.Home, c.Args().First())
	if err != nil {
		return SessionError(err)
	}
	t, err := in.Load(id)
	if err != nil {
		return SessionError(err)
	}
	if c.Bool("json") {
		return output.WriteJSON(r.Out, t)
	}
	head := figures.Spelled(fmt.Sprintf("session %s, agent %s, model %s, in %s", t.Header.ID, t.Header.Agent,
		t.Header.Model, t.Header.Dir)) + "\n"
	for _, d := range t.Damaged {
		r.Say("%s", d)
	}
	_, err = r.Out.WriteString(head + transcript.Text(t.Entries, nil))
	return output.WriteError(err)
}

// find returns the full id of the session with that id, or else of the transcript of a child, and the
// store that it is in.
func find(home, id string) (in *session.Store, whole string, err error) {
	in = session.Of(home)
	whole, err = in.Find(id)
	if !errors.Is(err, session.ErrNotFound) {
		return in, whole, err
	}
	child, whole, childErr := session.Archive{Dir: ledger.Transcripts(home)}.Find(id)
	if errors.Is(childErr, session.ErrNotFound) {
		return nil, "", err
	}
	return child, whole, childErr
}

// shortest is how many characters of an id must be given to delete something.
const shortest = 4

func (r commands) removeSessions(c *cli.Context) error {
	if c.NArg() == 0 {
		return command.Usagef("qq sessions list shows them", "qq sessions rm takes one or more ids")
	}
	cfg, _, err := r.Configure(c)
	if err != nil {
		return err
	}
	type found struct {
		in *session.Store
		id string
	}
	var all []found // before the first is deleted: one id that is wrong deletes nothing
	for _, id := range c.Args().Slice() {
		if len(id) < shortest { // a word that was meant otherwise would delete what happens to begin so
			return command.Usagef("qq sessions list shows them, with --children those of children",
				"delete %q: an id has at least %d characters", id, shortest)
		}
		in, whole, err := find(cfg.Home, id)
		if err != nil {
			return SessionError(err)
		}
		one := found{in, whole}
		same := func(other found) bool { return other.id == one.id }
		if !slices.ContainsFunc(all, same) {
			all = append(all, one)
		}
	}
	for _, one := range all {
		if err := one.in.Remove(one.id); err != nil {
			return SessionError(err)
		}
		fmt.Fprintln(r.Out, one.id)
	}
	return nil
}

func (r commands) pruneSessions(c *cli.Context) error {
	days := c.Int("days")
	switch {
	case c.Bool("all") && c.IsSet("days") && days != 0: // 0 says the same
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
	gone, err := session.Of(cfg.Home).Prune(age)
	var children []string
	atWork, childErr := alive.Dir{Path: ledger.Journals(cfg.Home)}.Live()
	if childErr == nil {
		children, childErr = session.Archive{Dir: ledger.Transcripts(cfg.Home)}.Prune(age, atWork)
	}
	for _, id := range append(gone, children...) {
		fmt.Fprintln(r.Out, id)
	}
	files, outputErr := scratch.KeptIn(cfg.Home).Prune(age)
	for _, f := range files {
		fmt.Fprintln(r.Out, tool.Visible(f))
	}
	if err = errors.Join(err, childErr, outputErr); err == nil && len(gone)+len(children)+len(files) == 0 {
		text := "nothing to delete"
		if days > 0 {
			text += fmt.Sprintf(": all was used in the last %d days", days)
		}
		r.Note("%s", text)
	}
	return err
}

// SessionError makes err a usage error if the user can correct it, for example a wrong id.
func SessionError(err error) error {
	_, hint := task.Explain(err)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInUse) || hint != "" {
		return command.Usage(command.Advised(err, "qq sessions list shows them"))
	}
	return err
}
