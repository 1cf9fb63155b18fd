package admin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/approval/rulefile"
	"qq/internal/box"
	"qq/internal/config"
	"qq/internal/record/ledger"
	"qq/internal/sandbox"
	"qq/internal/tools/astgrep"
	"qq/internal/tools/web"
	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/proc"
	"qq/pkg/session"
	"qq/pkg/task"
)

// Finding is the result of one check of qq doctor.
type Finding struct {
	What  string `json:"what"`
	State string `json:"state"` // ok, note or bad
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

func (r commands) doctor() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "what works here and what does not, with one fix per line",
		Flags:  append([]cli.Flag{command.FlagModel}, append(command.LookFlags(), command.FlagNoColor)...),
		Action: r.examine,
	}
}

func (r commands) examine(c *cli.Context) error {
	o, err := r.Examine(c)
	if err != nil {
		return err
	}
	r.WarnBroken()
	cfg := o.Settings
	ctx, cancel := context.WithTimeout(c.Context, 10*time.Second)
	defer cancel()
	findings := append([]Finding{{"qq", "ok", r.Version, ""}}, r.models.Examine(ctx, cfg)...)
	host := proc.NewHost()
	defer host.Close()
	findings = append(findings,
		checkIsolation(host.Isolation()), checkSandbox(sandbox.Probe()), checkCommands(ctx, host),
		checkAstGrep(ctx, host, r.Env), checkSearch(cfg, r.Env.Get),
		checkFolder("home", cfg.Home, "set HOME, or set QQ_HOME to a folder that you may write to"),
	)
	if cfg.LogDir != "" {
		findings = append(findings, checkFolder("logs", cfg.LogDir, "set QQ_LOG_DIR to a folder that you may write to"))
	}
	if cfg.Home != "" {
		findings = append(findings, r.copies.Examine(ctx, host, cfg))
		findings = append(findings, checkSessions(session.Of(cfg.Home)), checkLedger(cfg.Home))
	}
	findings = append(findings, checkAgents(o.Agents))
	findings = append(findings, checkSettings(o)...)
	findings = append(findings, checkTrust(o), checkPermissions(r.Env.ConfigHome(), r.models.Rules(cfg)))
	if c.Bool("json") {
		err = output.WriteJSON(r.Out, findings)
	} else {
		err = r.printFindings(findings)
	}
	for _, f := range findings {
		if f.State == "bad" && err == nil {
			err = command.Said(1)
		}
	}
	return err
}

func (r commands) printFindings(findings []Finding) error {
	marks := map[string]string{"ok": "ok", "note": "note", "bad": "BAD"}
	colours := map[string]string{"ok": "\x1b[32m", "note": "\x1b[33m", "BAD": "\x1b[31m"}
	var t output.Table
	for _, f := range findings {
		t = append(t, []string{marks[f.State], f.What, figures.Spelled(f.Text)})
		if f.Fix != "" {
			t = append(t, []string{"", "", "fix: " + figures.Spelled(f.Fix)})
		}
	}
	var b strings.Builder
	for _, line := range t.Wrapped(r.Out.Width()) {
		if line == "" { // the columns before a fix that is below them
			continue
		}
		mark, rest, _ := strings.Cut(line, " ")
		if colour := colours[mark]; colour != "" && r.Coloured(r.Out) {
			line = colour + mark + "\x1b[0m " + rest
		}
		b.WriteString(line + "\n")
	}
	_, err := fmt.Fprint(r.Out.Raw(), b.String())
	return output.WriteError(err)
}

// Bad returns the finding for a check what that failed with err. The hint of err is its
// fix.
func Bad(what string, err error) Finding {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return Finding{what, "bad", e.Problem, e.Hint}
	}
	problem, hint := task.Explain(err)
	return Finding{what, "bad", problem, hint}
}

func checkIsolation(in string) Finding {
	f := Finding{"processes", "ok", in + ": nothing that a child starts outlives it", ""}
	switch in {
	case "subreaper":
		f.State, f.Text = "note", "subreaper: what children leave behind is ended, unless qq itself is killed"
		f.Fix = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces)"
	case "process group":
		f.State, f.Text, f.Fix = "note", "process group: a process that leaves its group can outlive its child",
			"use Linux"
	}
	return f
}

// checkSandbox reports which acts of agents the kernel can forbid.
func checkSandbox(s sandbox.Support) Finding {
	f := Finding{"sandbox", "ok", s.String(), ""}
	if !s.Enforced() {
		f.State, f.Text, f.Fix = "note", s.String()+"; read-only agents get no shell", s.Fix()
	}
	return f
}

// checkCommands reports what holds the commands of agents.
func checkCommands(ctx context.Context, host *proc.Host) Finding {
	exe, err := os.Executable()
	if err != nil {
		return Bad("commands", err)
	}
	s := box.Probe(ctx, host, exe)
	if !s.View {
		return Finding{"commands", "note", s.String(), "run qq as root, or allow user namespaces that may mount"}
	}
	return Finding{"commands", "ok", s.String(), ""}
}

// checkAstGrep checks for ast-grep, the program behind the tools ast_grep and
// ast_grep_replace.
func checkAstGrep(ctx context.Context, host *proc.Host, env command.Environment) Finding {
	path, err := astgrep.Find(env.Get)
	if err != nil {
		_, fix, _ := strings.Cut(err.Error(), ": ")
		return Finding{"ast-grep", "note", "not installed: agents have no ast_grep and ast_grep_replace", fix}
	}
	version, err := astgrep.Version(ctx, astgrep.Config{Host: host, Program: path, Env: env})
	if err != nil {
		return Bad("ast-grep", err)
	}
	return Finding{"ast-grep", "ok", version + ", " + path, ""}
}

// checkSearch reports which search engine web_search uses.
func checkSearch(cfg config.Config, getenv func(string) string) Finding {
	search, err := web.NewSearch(cfg.Search, getenv)
	switch {
	case err != nil:
		return Bad("web search", err)
	case search.Engine == "":
		const fix = "set QQ_SEARCH=searxng=URL, brave or tavily"
		return Finding{"web search", "note", "not configured: agents have no web_search", fix}
	}
	return Finding{"web search", "ok", search.Engine, ""}
}

func checkFolder(what, dir, fix string) Finding {
	if dir == "" {
		return Finding{what, "bad", "there is no folder for what qq keeps", fix}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Finding{what, "bad", err.Error(), fix}
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return Finding{what, "bad", err.Error(), fix}
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, 4096)); err != nil {
		return Finding{what, "bad", err.Error(), "free some disk space"}
	}
	return Finding{what, "ok", dir, ""}
}

// checkLedger checks that the ledger can be opened. It does not create one: that there is
// none yet is fine.
func checkLedger(home string) Finding {
	if !ledger.Begun(home) {
		return Finding{"ledger", "ok", "none yet", ""}
	}
	led, err := ledger.Open(home, ledger.Options{Wait: 2 * time.Second})
	if err != nil {
		return Bad("ledger", err)
	}
	live, err := led.List(ledger.Filter{Live: true})
	err = errors.Join(err, led.Close())
	info, missing := os.Stat(ledger.Path(home))
	if err = errors.Join(err, missing); err != nil {
		return Bad("ledger", err)
	}
	text := fmt.Sprintf("%s, %d KiB, %d runs at work", ledger.Path(home), info.Size()>>10, len(live))
	return Finding{"ledger", "ok", text, ""}
}

func checkSessions(store *session.Store) Finding {
	all, err := store.List()
	if err != nil {
		return Bad("sessions", err)
	}
	return Finding{"sessions", "ok", fmt.Sprintf("%d", len(all)), ""}
}

// checkSettings reports each mistake in the settings. With one of them no agent runs.
func checkSettings(o *command.Checkout) (found []Finding) {
	if o.Broken != nil {
		found = append(found, Bad("settings", o.Broken))
	}
	for _, mistake := range o.Mistakes {
		found = append(found, Bad("settings", mistake))
	}
	if len(found) == 0 {
		found = append(found, Finding{"settings", "ok", "qq config shows them", ""})
	}
	return found
}

// checkPermissions reports whether the lasting rules of the user can be read. wrong is a mistake in the rules of the
// settings, or nil.
func checkPermissions(home string, wrong error) Finding {
	if wrong != nil {
		return Bad("permissions", wrong)
	}
	if home == "" {
		return Finding{"permissions", "note", "no lasting rules: there is no folder of your settings",
			"set HOME or XDG_CONFIG_HOME to an absolute path"}
	}
	n, err := rulefile.Open(filepath.Join(home, "qq")).Check()
	if err != nil {
		return Bad("permissions", err)
	}
	return Finding{"permissions", "ok", fmt.Sprintf("%d lasting rules", n), ""}
}

// checkTrust reports what the files of the working directory say and what does not count.
func checkTrust(o *command.Checkout) Finding {
	if err := o.Unreadable(); err != nil {
		return Bad("trust", err)
	}
	if o.Broken != nil {
		return Finding{"trust", "note", ".env cannot be read: nothing in it counts", "mend it, see settings"}
	}
	claims := o.Claims()
	ignored := command.Ignored(claims)
	switch {
	case len(o.Mistakes) > 0 && len(ignored) < len(claims):
		return Finding{"trust", "note", "what is trusted counts only without mistakes", "mend the settings"}
	case len(ignored) == 0:
		return Finding{"trust", "ok", "nothing in this folder needs it", ""}
	}
	var texts []string
	for _, c := range ignored {
		texts = append(texts, c.Text+" in "+c.File)
	}
	return Finding{"trust", "note", "ignored: not trusted: " + strings.Join(texts, "; "), "look at it: qq trust"}
}

func checkAgents(reg *agents.Registry) Finding {
	n := 0
	var broken, warnings []string
	for _, e := range reg.List() {
		if e.Err != nil {
			broken = append(broken, e.Err.Error())
			continue
		}
		n++
		for _, w := range e.Agent.Warnings {
			warnings = append(warnings, agents.Located(e.Agent.Source, w))
		}
	}
	switch {
	case len(broken) > 0:
		return Finding{"agents", "bad", someOf(broken), "mend or remove each file, see qq agents check"}
	case len(warnings) > 0:
		text := fmt.Sprintf("%d agents; %s", n, someOf(warnings))
		return Finding{"agents", "note", text, "look at it: qq agents check"}
	}
	return Finding{"agents", "ok", fmt.Sprintf("%d", n), ""}
}

// someOf returns the first few texts, and how many there are besides.
func someOf(texts []string) string {
	const most = 3
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, "; ")
}
