package modelcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/approval/dialog"
	"qq/internal/config"
	"qq/internal/models"
	"qq/internal/models/servers"
	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/spelling"
	"qq/pkg/task"
)

// setup is the command that writes QQ_MODEL, and a key that a person pastes, into the .env of the user.
func (r commands) setup() *cli.Command {
	return &cli.Command{
		Name: "setup", Usage: "find a model, test it, and use it from now on", ArgsUsage: "[MODEL | SERVER]",
		Description: "Looks for Ollama, other model servers on this machine, and keys of hosted servers; proposes a " +
			"model, tests it, and writes it to your own .env. MODEL or SERVER proposes that one: qq setup openai",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Usage: "take the proposal without a question"},
			&cli.IntFlag{Name: "timeout", Value: 25, Usage: "seconds that each request of the test may take"},
			command.FlagQuiet, command.FlagNoColor,
		},
		Action: r.runSetup,
	}
}

// proposal is what setup would write.
type proposal struct {
	model  string // as --model takes it
	server servers.Server
	entry  config.Entry // names the server; zero if the file of the user does so already
	key    string       // that a person pasted; empty if there is none
	old    string       // the model that it replaces, which is not there; empty if there is none
}

// entries returns the lines for the .env of the user.
func (p proposal) entries() []config.Entry {
	entries := []config.Entry{{Name: "QQ_MODEL", Value: p.model}}
	if p.entry.Name != "" {
		entries = append(entries, p.entry)
	}
	if p.key != "" {
		entries = append(entries, config.Entry{Name: p.server.KeyName, Value: p.key})
	}
	return entries
}

// lines returns the entries as they are shown: without the key.
func (p proposal) lines() []string {
	var lines []string
	for _, e := range p.entries() {
		line := e.String()
		if p.key != "" && e.Name == p.server.KeyName {
			line = e.Name + "=(the key that you pasted)"
		}
		lines = append(lines, line)
	}
	return lines
}

// elsewhere returns where prompts go; "" if they stay on this machine.
func (p proposal) elsewhere() string {
	if p.server.IsHere() {
		if agents.Remote(strings.TrimPrefix(p.model, p.server.Name+":")) {
			return "another machine, to which " + p.server.Name + " passes them on"
		}
		return ""
	}
	if u, err := p.server.Address(); err == nil {
		return u.Host
	}
	return p.server.URL
}

// configuring is one run of setup.
type configuring struct {
	commands
	*reach
	file     string           // the .env of the user
	label    string           // names it in messages
	terminal *dialog.Terminal // nil if nobody can be asked
}

func (r commands) runSetup(c *cli.Context) error {
	asked, err := one(c)
	if err != nil {
		return err
	}
	o, err := r.OpenBare(c)
	if err != nil {
		return err
	}
	s := configuring{commands: r, reach: r.reach(o.Settings), file: config.UserFile(r.Env)}
	defer s.close()
	limit := time.Duration(c.Int("timeout")) * time.Second
	switch {
	case o.Settings.Depth > 0:
		return command.Usagef("run qq setup yourself", "the command of an agent cannot choose a model server")
	case s.file == "":
		return command.Usagef("set HOME or XDG_CONFIG_HOME to an absolute path", "there is no folder of your settings")
	case limit <= 0:
		return command.Usagef("accepted is a number of seconds from 1 on", "--timeout is %d", c.Int("timeout"))
	}
	s.label = s.file
	if rel, err := filepath.Rel(r.Env.Get("HOME"), s.file); err == nil && filepath.IsLocal(rel) {
		s.label = filepath.Join("~", rel)
	}
	r.listen()
	if !c.Bool("yes") {
		if t, err := dialog.OpenTerminal(r.Err.Terminal(), r.Coloured(r.Err), r.Screen); err == nil {
			s.terminal = t
			defer t.Close()
		}
	}
	p, err := s.propose(c.Context, asked)
	if err != nil {
		return err
	}
	return s.adopt(c, p, limit)
}

// adopt asks whether p is wanted, tests it and writes it. What is written already is only tested.
func (s configuring) adopt(c *cli.Context, p proposal, limit time.Duration) error {
	if strings.ContainsFunc(p.model, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }) {
		return command.Usagef("name another one: qq setup MODEL", "%q is no name that a setting can have", p.model)
	}
	if p.server.Own {
		p.entry = s.naming(p.server)
	}
	if p.old != "" && c.Bool("yes") {
		return command.Usagef("to replace it: qq setup "+p.model+" --yes",
			"nothing is written: %s says QQ_MODEL=%s, which is not there now", s.label, p.old)
	}
	ctx, same := c.Context, p.key == "" && p.entry.Name == "" && s.set() == p.model
	if !same && !c.Bool("yes") {
		if err := s.confirm(ctx, p); err != nil {
			return err
		}
	}
	t, err := s.try(ctx, p.model, limit, true, checkPrinter{commands: s.commands, shown: true})
	if err != nil {
		problem, hint := task.Explain(p.blame(err))
		return &task.Error{Status: task.StatusOf(err), Problem: "nothing is written: " + problem, Hint: hint, Err: err}
	}
	if last := t.Checks[len(t.Checks)-1]; !last.OK {
		s.Say("agents need a model that calls tools: with %s they can only answer", p.model)
	}
	changed, err := config.WriteUser(s.file, p.entries())
	switch {
	case err != nil:
		return fmt.Errorf("write %s: %w", s.label, err)
	case changed:
		s.Note("%s now says %s", s.label, strings.Join(p.lines(), " and "))
		if name := s.fromShell(p); name != "" {
			s.Note("%s is not in it: each shell needs it in its environment, or write it into that file", name)
		}
	default:
		s.Note("%s says %s already", s.label, strings.Join(p.lines(), " and "))
	}
	return s.overridden(c, p.model)
}

// fromShell returns the variable of the environment without which p does not work in another shell; empty if there is
// none.
func (s configuring) fromShell(p proposal) string {
	if p.server.Name == servers.Ollama && s.settings.Source("OLLAMA_HOST") == "environment" {
		return "OLLAMA_HOST"
	}
	name := p.server.KeyName
	if p.server.KeyCommand != "" || p.key != "" || s.settings.SecretSource(name) != "the environment" {
		return ""
	}
	return name
}

// naming returns the line that names the server, if only the environment does so: without it, the model would be one of
// a server that nobody knows.
func (s configuring) naming(server servers.Server) config.Entry {
	for _, setting := range s.settings.Settings() {
		if strings.EqualFold(setting.Name, server.Setting()) && s.settings.Source(setting.Name) == "environment" {
			return config.Entry{Name: setting.Name, Value: s.Env.Get(setting.Name)} // with its key command
		}
	}
	return config.Entry{}
}

// overridden warns if another source of settings is stronger than the file of the user.
func (s configuring) overridden(c *cli.Context, model string) error {
	o, err := s.OpenAnyway(c)
	if err == nil && o.Settings.Model != model {
		s.Say("here QQ_MODEL is %s all the same (%s)", o.Settings.Model, o.Settings.Source("QQ_MODEL"))
	}
	return err
}

// confirm asks whether p is wanted. An error says that it is not written.
func (s configuring) confirm(ctx context.Context, p proposal) error {
	lines := p.lines()
	if p.old != "" {
		lines = append(lines, "It replaces QQ_MODEL="+p.old+", which is not there now.")
	}
	if host := p.elsewhere(); host != "" {
		lines = append(lines, "Your prompts, and what agents read, then go to "+host+".")
	}
	if s.terminal == nil {
		for _, line := range lines {
			fmt.Fprintln(s.Out, figures.Spelled(line))
		}
		return command.Usagef("qq setup --yes takes it; or write that line into "+s.label,
			"nothing is written: nobody can be asked here")
	}
	yes, err := s.terminal.Confirm(ctx, dialog.Confirmation{
		Head: "This goes into " + s.label + ":", Lines: lines, Whole: lines,
		Question: "Test " + p.model + " and write it?",
	})
	switch {
	case ctx.Err() != nil:
		return task.Hinted("", "nothing is written: %v", context.Cause(ctx))
	case err != nil:
		return command.Usagef("qq setup --yes takes it without a question", "nothing is written: %v", err)
	case !yes:
		s.Note("nothing is written; for another model: qq setup MODEL, see qq models list")
		return command.Said(1)
	}
	return nil
}

// set returns the model that the file of the user names; "" if it names none, or one that needs no server.
func (s configuring) set() string {
	from, model := s.settings.Source("QQ_MODEL"), s.settings.Model
	if from == "default" || from == "environment" || model == models.Auto || model == models.Extract {
		return ""
	}
	return model
}

// propose finds what to propose. asked is the model or the server that a person named; "" means any.
func (s configuring) propose(ctx context.Context, asked string) (proposal, error) {
	if asked != "" {
		return s.proposeNamed(ctx, asked)
	}
	s.doing("looking for model servers")
	all := s.askAll(ctx, s.settings.UsableServers())
	s.doing("")
	if err := ctx.Err(); err != nil {
		return proposal{}, context.Cause(ctx)
	}
	slices.SortStableFunc(all, func(a, b answered) int { return rank(a.Server) - rank(b.Server) })
	if err := s.findings(all); err != nil {
		return proposal{}, err
	}
	for _, a := range all { // what is written already, if it is there
		for _, o := range a.offers {
			if set := s.set(); set != "" && a.Name+":"+o.Name == s.Whole(set) {
				return proposal{model: set, server: a.Server}, nil
			}
		}
	}
	for _, a := range all {
		if best, ok := models.Best(a.offers); ok {
			return proposal{model: a.Name + ":" + best.Name, server: a.Server, old: s.set()}, nil
		}
	}
	return s.proposeHosted(ctx)
}

// rank orders servers by how near they are.
func rank(s servers.Server) int {
	switch {
	case s.Name == servers.Ollama:
		return 0
	case s.IsHere():
		return 1
	case s.Own:
		return 2
	}
	return 3
}

// findings prints what was found.
func (s configuring) findings(all []answered) error {
	t := output.Table{}
	for _, a := range all {
		mark, text := "ok", fmt.Sprintf("%d models at %s", len(a.offers), hostOf(a.Server))
		switch {
		case a.err != nil:
			mark = "-"
			if text, _ = task.Explain(a.err); a.unused() {
				text = "nothing answers at " + hostOf(a.Server)
			}
		case len(a.offers) == 0 && a.Kind == servers.Ollama:
			mark, text = "-", "answers, and has no models; to get one: qq models pull qwen3:4b"
		case len(a.offers) == 1:
			text = a.offers[0].Name + " at " + hostOf(a.Server)
		}
		if rest, ok := strings.CutPrefix(text, a.Name+" needs "); ok { // its name stands before it
			text = "needs " + rest
		}
		if from := s.settings.SecretSource(a.KeyName); a.KeyName != "" && from != "" {
			text += "; " + a.KeyName + " from " + from
		}
		t = append(t, []string{mark, a.Name, figures.Spelled(text)})
	}
	if keys := s.hosted(); len(keys) > 0 {
		var names []string
		for _, h := range keys {
			names = append(names, h.Name)
		}
		t = append(t, []string{"-", "hosted", "no key of " + command.OneOf(names)})
	}
	_, err := fmt.Fprintln(s.Out, strings.Join(t.Wrapped(s.Out.Width()), "\n"))
	return output.WriteError(err)
}

// hostOf returns the address of a server without its path.
func hostOf(s servers.Server) string {
	if u, err := s.Address(); err == nil {
		return u.Host
	}
	return s.URL
}

// hosted returns the built-in servers whose key is not set.
func (s configuring) hosted() []servers.Server {
	return slices.DeleteFunc(s.settings.AllServers(), func(one servers.Server) bool {
		return one.Own || one.KeyName == "" || s.settings.SecretSource(one.KeyName) != ""
	})
}

// proposeNamed proposes the model or the server that a person named.
func (s configuring) proposeNamed(ctx context.Context, asked string) (proposal, error) {
	if asked == models.Auto || asked == models.Extract {
		return proposal{}, command.Usagef("for example: qq setup ollama:qwen3:4b", "%s needs no setup", asked)
	}
	name, model := s.split(asked)
	if model != "" { // of Ollama without its server, as Ollama names it
		asked = name + ":" + model
	}
	found, err := named(s.settings.AllServers(), name)
	if err != nil {
		return proposal{}, err
	}
	p := proposal{model: asked, server: found[0]}
	if err := s.wantKey(ctx, &p); err != nil {
		return p, err
	}
	if model != "" {
		return p, nil
	}
	err = s.chooseAt(ctx, &p)
	return p, p.blame(err)
}

// split returns the server and the model that asked means; the model is "" if asked is the name of a server alone.
func (s configuring) split(asked string) (server, model string) {
	if _, alias := s.settings.Aliases[asked]; !alias && !strings.Contains(asked, ":") {
		return asked, ""
	}
	server, model, _ = strings.Cut(s.Whole(asked), ":")
	return server, model
}

// blame makes the hint of err, if the server does not accept a key that a person pasted, one about that key: it stands
// in no setting that could be checked.
func (p proposal) blame(err error) error {
	if e, ok := errors.AsType[*llm.Error](err); ok && p.key != "" && e.Status == http.StatusUnauthorized {
		e.Hint = "it is the key that you pasted; to paste another one: qq setup " + p.server.Name
	}
	return err
}

// chooseAt makes p propose a model of its server.
func (s configuring) chooseAt(ctx context.Context, p *proposal) error {
	offers, err := s.ask(ctx, p.server)
	if err != nil {
		return err
	}
	best, ok := models.Best(offers)
	if !ok {
		hint := "load one"
		if p.server.Kind == servers.Ollama {
			hint = "to get one: qq models pull " + p.server.Name + ":qwen3:4b"
		}
		return &task.Error{Status: task.Unavailable, Problem: p.server.Name + " has no model that can chat", Hint: hint}
	}
	p.model = p.server.Name + ":" + best.Name
	return nil
}

// wantKey asks for the key of the server of p if it needs one and none is set.
func (s configuring) wantKey(ctx context.Context, p *proposal) error {
	name := p.server.KeyName
	if p.server.KeyCommand != "" || name == "" || s.settings.SecretSource(name) != "" || s.terminal == nil {
		return nil // without a key, the look-up says what to do
	}
	key, err := s.terminal.Line(ctx,
		p.server.Name+" needs a key. Paste it, it is not shown; Enter alone leaves.", name+": ", true)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case key == "":
		return command.Usagef("or set "+name+" in the environment, then: qq setup "+p.server.Name,
			"nothing is written: there is no key")
	case strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' || c == '\'' }):
		return command.Usagef("copy it again", "nothing is written: that has characters that no key has")
	}
	p.key, s.Keys = key, pasted{s.Keys, name, key}
	return nil
}

// pasted are keys with one that a person has pasted.
type pasted struct {
	models.Keys
	name, key string
}

// Key implements models.Keys.
func (p pasted) Key(ctx context.Context, s servers.Server) (string, error) {
	if s.KeyName == p.name && s.KeyCommand == "" {
		return p.key, nil
	}
	return p.Keys.Key(ctx, s)
}

// errNothing says that there is nothing to propose.
var errNothing = &task.Error{Status: task.Unavailable,
	Problem: "nothing to propose: no server answers that has a model",
	Hint: "install Ollama (https://ollama.com), then: qq models pull qwen3:4b; or, with a key of a hosted server: " +
		"qq setup openai"}

// proposeHosted asks for the name of a hosted server whose key the person has.
func (s configuring) proposeHosted(ctx context.Context) (proposal, error) {
	if s.terminal == nil {
		return proposal{}, errNothing
	}
	var names []string
	for _, h := range s.hosted() {
		names = append(names, h.Name)
	}
	text := "No model is on this machine. If you have a key of " + command.OneOf(names) + ", type that name"
	for {
		name, err := s.terminal.Line(ctx, text+"; Enter alone leaves.", "name: ", false)
		switch {
		case ctx.Err() != nil:
			return proposal{}, context.Cause(ctx)
		case err != nil && !errors.Is(err, os.ErrClosed):
			return proposal{}, err
		case name == "":
			return proposal{}, errNothing
		}
		server, _ := s.split(name)
		if _, err = named(s.settings.AllServers(), server); err == nil {
			return s.proposeNamed(ctx, name)
		}
		problem, _ := task.Explain(err)
		text = problem + ": type " + cmp.Or(spelling.Nearest(server, names), command.OneOf(names))
	}
}
