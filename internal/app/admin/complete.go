package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/manual"
	"qq/internal/record/ledger"
	"qq/pkg/agents"
	"qq/pkg/session"
	"qq/pkg/task"
)

// maxCompleted is how many runs or sessions are offered to complete a word: the newest ones.
const maxCompleted = 50

// complete is the command that the completion scripts of shells call. It prints what may be at the end of the command
// line that its arguments are: one line that says whether names of files may be there, then words, each with a tab and
// what it means. It is quiet: where something cannot be read, nothing is offered.
func (r commands) complete() *cli.Command {
	return &cli.Command{
		Name: manual.CompleteCommand, Hidden: true, ArgsUsage: "-- WORD…", Flags: []cli.Flag{command.FlagCwd},
		Action: func(c *cli.Context) error {
			w := manual.Complete(c.App, c.Args().Slice())
			words := append(w.Words, r.words(c, w)...)
			var b strings.Builder
			switch w.Kind {
			case manual.Files, manual.AgentsOrFiles:
				b.WriteString("files\n")
			case manual.Folders:
				b.WriteString("folders\n")
			default:
				b.WriteString("words\n")
			}
			typed := c.Args().Get(c.NArg() - 1)
			for _, word := range words {
				if strings.HasPrefix(word.Text, typed) {
					meaning := task.Shorten(word.Meaning, 60)
					fmt.Fprintf(&b, "%s\t%s\n", figures.Spelled(word.Text), figures.Spelled(meaning))
				}
			}
			return r.print(b.String())
		},
	}
}

// words returns what is there of the kind that is wanted.
func (r commands) words(c *cli.Context, w manual.Wanted) (words []manual.Word) {
	switch w.Kind {
	case manual.Agents, manual.AgentsOrFiles, manual.Models, manual.Servers, manual.Sessions, manual.Runs,
		manual.AtWork, manual.Batches, manual.Unfinished:
	default:
		return nil
	}
	if w.Dir != "" && c.Set("cwd", w.Dir) != nil {
		return nil
	}
	o, err := r.OpenAnyway(c)
	if err != nil {
		return nil
	}
	add := func(text, meaning string) {
		words = append(words, manual.Word{Text: w.Prefix + text, Meaning: meaning})
	}
	switch w.Kind {
	case manual.Agents, manual.AgentsOrFiles:
		for _, e := range o.Agents.List() {
			if e.Err == nil && agents.Plain(e.Agent.Name) {
				add(e.Agent.Name, e.Agent.Description)
			}
		}
	case manual.Models:
		add("auto", "a model on this machine, else extract")
		add("extract", "the built-in model")
		if set := o.Settings.Model; set != "auto" && set != "extract" {
			add(set, "QQ_MODEL")
		}
		for _, name := range slices.Sorted(maps.Keys(o.Settings.Aliases)) {
			add(name, o.Settings.Aliases[name])
		}
		for _, s := range o.Settings.UsableServers() {
			add(s.Name+":", "a model of "+s.URL)
		}
	case manual.Servers:
		for _, s := range o.Settings.UsableServers() {
			add(s.Name, s.URL)
		}
	case manual.Sessions:
		all, _ := session.Of(o.Settings.Home).List()
		for _, s := range all[:min(len(all), maxCompleted)] {
			add(s.ID, s.Title)
		}
	default:
		for _, word := range recent(o.Settings.Home, w.Kind) {
			add(word.Text, word.Meaning)
		}
	}
	return words
}

// recent returns the ids of what is in the ledger of a kind, the newest first.
func recent(home string, kind manual.Kind) (words []manual.Word) {
	if !ledger.Begun(home) {
		return nil
	}
	led, err := ledger.Open(home, ledger.Options{Wait: time.Second})
	if err != nil {
		return nil
	}
	defer led.Close()
	add := func(id, meaning string) { words = append(words, manual.Word{Text: id, Meaning: meaning}) }
	f := ledger.Filter{Limit: maxCompleted, Live: kind == manual.AtWork}
	if kind == manual.Unfinished {
		f.Limit = 10 * maxCompleted // many of them are complete
	}
	batches, _ := led.Batches(f)
	for _, b := range batches {
		if kind != manual.Unfinished || b.Status != task.Completed && !b.Live {
			add(b.ID, fmt.Sprintf("batch, %s, %s", b.Status, b.Dir))
		}
	}
	if kind == manual.Runs || kind == manual.AtWork {
		runs, _ := led.List(f)
		for _, run := range runs {
			add(run.ID, fmt.Sprintf("%s, %s: %s", run.Status, run.Agent, run.Task))
		}
		// Ids begin with their time.
		slices.SortStableFunc(words, func(a, b manual.Word) int { return strings.Compare(b.Text, a.Text) })
	}
	words = words[:min(len(words), maxCompleted)]
	for i := range words {
		words[i].Text = task.ShortID(words[i].Text)
	}
	return words
}
