package modelcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/models"
	"qq/internal/models/servers"
	"qq/pkg/llm"
	"qq/pkg/spelling"
	"qq/pkg/task"
)

// answerTime is how long a server may take to list its models.
const answerTime = 3 * time.Second

// answered is what one server says about its models.
type answered struct {
	servers.Server
	offers []models.Offer
	err    error
}

// unused reports whether nothing listens at the address of a server on this machine that no setting names: it is not
// in use.
func (a answered) unused() bool {
	e, ok := errors.AsType[*llm.Error](a.err)
	return ok && e.Kind == llm.Unreachable && !a.Own && a.IsHere()
}

// askAll asks several servers at once. The answers are in the order of the servers.
func (r *reach) askAll(ctx context.Context, which []servers.Server) []answered {
	all := make([]answered, len(which))
	var asked sync.WaitGroup
	for i, s := range which {
		asked.Go(func() {
			offers, err := r.ask(ctx, s)
			all[i] = answered{s, offers, err}
		})
	}
	asked.Wait()
	return all
}

// ask returns the models of the server s.
func (r *reach) ask(ctx context.Context, s servers.Server) ([]models.Offer, error) {
	client, _, err := r.Open(ctx, s.Name+":") // a key command may take longer than the server
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, &llm.Error{Kind: llm.Unreachable,
		Problem: fmt.Sprintf("no answer from %s within %v", s.Name, answerTime)})
	defer cancel()
	return client.Offers(ctx)
}

// row is a model in the JSON output of qq models. What is missing, the server does not say.
type row struct {
	Model    string     `json:"model"` // as --model takes it
	Server   string     `json:"server"`
	Address  string     `json:"address,omitempty"`
	Context  int        `json:"context,omitempty"` // tokens
	Answer   int        `json:"answer,omitempty"`  // tokens of the longest one
	Tools    *bool      `json:"tools,omitempty"`
	Vision   *bool      `json:"vision,omitempty"`
	Thinking bool       `json:"thinking,omitempty"`
	Size     int64      `json:"size,omitempty"` // bytes
	Modified *time.Time `json:"modified,omitempty"`
	Remote   string     `json:"remote,omitempty"` // the host to which the server passes requests on
}

func rowOf(s servers.Server, o models.Offer) row {
	r := row{
		Model: s.Name + ":" + o.Name, Server: s.Name, Context: o.Context, Answer: o.Answer, Tools: o.ToolCalls,
		Vision: o.Seen(), Thinking: o.Thinking, Size: o.Size,
	}
	if s.Kind == servers.Ollama {
		r.Remote = o.Remote
	}
	if !o.Modified.IsZero() {
		r.Modified = &o.Modified
	}
	return r
}

func (r commands) list(c *cli.Context) error {
	if c.Args().Present() {
		return command.NoCommand(c)
	}
	set, _, err := r.Configure(c)
	if err != nil {
		return err
	}
	at := r.reach(set)
	defer at.close()
	which, only := set.UsableServers(), c.String("server")
	if c.IsSet("server") {
		if which, err = named(set.AllServers(), only); err != nil {
			return err
		}
	}
	r.doing("asking the model servers")
	all := at.askAll(c.Context, which)
	r.doing("")
	if only != "" && all[0].err != nil {
		return all[0].err
	}
	rows := []row{} // an empty list, not null
	for _, a := range all {
		for _, o := range a.offers {
			rows = append(rows, rowOf(a.Server, o))
		}
	}
	if !slices.ContainsFunc(all, func(a answered) bool { return a.err == nil }) {
		r.tell(all)
		return &task.Error{Status: task.Unavailable, Problem: "no model server answers",
			Hint: "start one, or set the key of one; qq setup looks for what is there"}
	}
	if c.Bool("json") {
		err = output.WriteJSON(r.Out, rows)
	} else {
		err = r.print(rows)
	}
	// Nobody needs to hear of the usual ports of servers that he does not have. Ollama is the one that runs ask first.
	r.tell(slices.DeleteFunc(all, func(a answered) bool { return a.unused() && a.Name != servers.Ollama }))
	return err
}

// named returns the server of that name, or an error that says which there are.
func named(all []servers.Server, name string) ([]servers.Server, error) {
	i := slices.IndexFunc(all, func(s servers.Server) bool { return s.Name == strings.ToLower(name) })
	if i >= 0 {
		return all[i : i+1], nil
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return nil, command.Usagef(spelling.DidYouMean(spelling.Nearest(name, names))+"there are "+
		strings.Join(names, ", ")+"; QQ_SERVER_NAME adds one, and a model of Ollama is written ollama:NAME",
		"no server is called %q", name)
}

// print prints a table of models.
func (r commands) print(rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	t := output.Table{{"MODEL", "CONTEXT", "TOOLS", "VISION", "SIZE"}}
	for _, m := range rows {
		name := figures.Spelled(m.Model)
		t = append(t, []string{name, number(m.Context), yesNo(m.Tools), yesNo(m.Vision), bytes(m.Size)})
	}
	_, err := fmt.Fprintln(r.Out, strings.Join(t.Wrapped(r.Out.Width()), "\n"))
	return output.WriteError(err)
}

// tell prints why servers have not listed models, a line each.
func (r commands) tell(all []answered) {
	for _, a := range all {
		switch {
		case a.err == nil && len(a.offers) == 0:
			hint := ""
			if a.Kind == servers.Ollama {
				hint = "; to get one: qq models pull qwen3:4b"
			}
			r.Note("%s answers, and has no models%s", a.Name, hint)
		case a.err != nil:
			problem, _ := task.Explain(a.err)
			if a.unused() {
				r.Note("%s", problem)
			} else {
				r.Say("%s", problem)
			}
		}
	}
}

// unknown is what tables show of what a server does not say.
const unknown = "-"

func number(n int) string {
	if n == 0 {
		return unknown
	}
	return fmt.Sprint(n)
}

func yesNo(said *bool) string {
	switch {
	case said == nil:
		return unknown
	case *said:
		return "yes"
	}
	return "no"
}

// bytes formats a size as people do: 2.5 GB.
func bytes(n int64) string {
	switch {
	case n == 0:
		return unknown
	case n < 1e6:
		return fmt.Sprintf("%.0f kB", max(float64(n)/1e3, 1))
	case n < 1e9:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
