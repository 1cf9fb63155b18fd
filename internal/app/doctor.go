package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/config"
	"qq/internal/engine"
	"qq/internal/ollama"
	"qq/internal/output"
	"qq/internal/proc"
	"qq/internal/sandbox"
	"qq/internal/toolbox/syntax"
	"qq/internal/toolbox/web"
	"qq/pkg/llm"
)

func (r *root) doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "what works here and what does not, with one fix per line",
		Flags: []cli.Flag{flagModel, flagCwd, flagJSON, flagQuiet, flagNoColor}, Action: r.doctor,
	}
}

// finding is one line of the doctor.
type finding struct {
	What  string `json:"what"`
	State string `json:"state"` // ok, note or bad
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

func (r *root) doctor(c *cli.Context) error {
	cfg, dir, err := r.configure(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, 10*time.Second)
	defer cancel()
	findings := []finding{{"qq", "ok", Version(), ""}}
	findings = append(findings, checkModel(ctx, cfg)...)
	host := proc.NewHost()
	findings = append(findings, checkIsolation(host.Isolation()), checkSandbox(sandbox.Probe()), checkAstGrep(ctx, host, r.env))
	host.Close()
	findings = append(findings, r.checkSearch(cfg))
	findings = append(findings,
		checkFolder("home", cfg.Home, "set QQ_HOME to a folder that you may write to"),
		checkFolder("logs", cfg.LogDir, "set QQ_LOG_DIR to a folder that you may write to"),
		checkSessions(cfg), r.checkAgents(dir),
	)
	if c.Bool("json") {
		err = output.WriteJSON(r.Out, findings)
	} else {
		err = r.printFindings(findings)
	}
	for _, f := range findings {
		if f.State == "bad" && err == nil {
			err = said(1)
		}
	}
	return err
}

func (r *root) printFindings(findings []finding) error {
	marks := map[string]string{"ok": "ok", "note": "note", "bad": "BAD"}
	if r.coloured(r.Out) {
		marks = map[string]string{"ok": "\x1b[32mok\x1b[0m", "note": "\x1b[33mnote\x1b[0m", "bad": "\x1b[31mBAD\x1b[0m"}
	}
	w := tabwriter.NewWriter(r.Out, 0, 4, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", marks[f.State], f.What, f.Text)
		if f.Fix != "" {
			fmt.Fprintf(w, "%s\t\tfix: %s\n", strings.Replace(marks["ok"], "ok", "  ", 1), f.Fix)
		}
	}
	return output.WriteError(w.Flush())
}

// checkModel looks at the model server and the model that a run would use.
func checkModel(ctx context.Context, cfg config.Config) []finding {
	if cfg.Model == engine.Extract {
		return []finding{{"model", "ok", "extract, the built-in extractive model", ""}}
	}
	client, err := ollama.New(cfg.OllamaHost)
	if err != nil {
		return []finding{bad("model server", err)}
	}
	defer client.Close()
	v, err := client.Version(ctx)
	if err != nil {
		f := bad("model server", err)
		if cfg.Model == engine.Auto {
			f.State, f.Text = "note", f.Text+": extract, the built-in extractive model, is used"
		}
		return []finding{f}
	}
	found := []finding{{"model server", "ok", fmt.Sprintf("Ollama %s at %s", v, client.Host()), ""}}
	m, err := engine.Ask(ctx, client, cfg.Model)
	if err != nil {
		f := bad("model", err)
		if cfg.Model == engine.Auto {
			f.State = "note"
		}
		return append(found, f)
	}
	found = append(found, finding{"model", "ok", m.Name, ""})
	f := finding{"context", "ok", fmt.Sprintf("%d tokens", m.Context), ""}
	if m.Context > 0 && m.Context < 8192 {
		f.State, f.Fix = "note", "use a model with at least 8192 tokens: tools and documents need room"
	}
	found = append(found, f)
	f = finding{"tools", "ok", "the model can call tools", ""}
	if !m.Tools {
		f = finding{"tools", "note", "the model cannot call tools: agents work without them", "use a model with tools, for example: ollama pull qwen3"}
	}
	return append(found, f)
}

// bad is the finding for an error, with its hint as the fix.
func bad(what string, err error) finding {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return finding{what, "bad", e.Problem, e.Hint}
	}
	problem, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	return finding{what, "bad", problem, hint}
}

func checkIsolation(in string) finding {
	f := finding{"processes", "ok", in + ": nothing that a child starts outlives it", ""}
	switch in {
	case "subreaper":
		f.State, f.Text = "note", "subreaper: what children leave behind is ended, unless qq itself is killed"
		f.Fix = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces)"
	case "process group":
		f.State, f.Text, f.Fix = "note", "process group: a process that leaves its group can outlive its child", "use Linux"
	}
	return f
}

// checkSandbox says what the kernel can keep agents from.
func checkSandbox(s sandbox.Support) finding {
	f := finding{"sandbox", "ok", s.String(), ""}
	if !s.Enforced() {
		f.State, f.Text, f.Fix = "note", s.String()+"; read-only agents get no shell", s.Fix()
	}
	return f
}

// checkAstGrep looks for the program behind ast_grep and ast_grep_replace.
func checkAstGrep(ctx context.Context, host *proc.Host, env environment) finding {
	path, err := syntax.Find(env.get)
	if err != nil {
		_, fix, _ := strings.Cut(err.Error(), ": ")
		return finding{"ast-grep", "note", "not installed: agents have no ast_grep and ast_grep_replace", fix}
	}
	version, err := syntax.Version(ctx, syntax.Config{Host: host, Program: path, Env: env, NewID: func() string { return "doctor" }})
	if err != nil {
		return bad("ast-grep", err)
	}
	return finding{"ast-grep", "ok", version + ", " + path, ""}
}

// checkSearch says where web_search searches.
func (r *root) checkSearch(cfg config.Config) finding {
	search, err := web.NewSearch(cfg.Search, r.env.get)
	switch {
	case err != nil:
		return bad("web search", err)
	case search.Engine == "":
		return finding{"web search", "note", "not configured: agents have no web_search", "set QQ_SEARCH=searxng=URL, brave or tavily"}
	}
	return finding{"web search", "ok", search.Engine, ""}
}

func checkFolder(what, dir, fix string) finding {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return finding{what, "bad", err.Error(), fix}
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return finding{what, "bad", err.Error(), fix}
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, 4096)); err != nil {
		return finding{what, "bad", err.Error(), "free some disk space"}
	}
	return finding{what, "ok", dir, ""}
}

func checkSessions(cfg config.Config) finding {
	all, err := openStore(cfg).List()
	if err != nil {
		return bad("sessions", err)
	}
	return finding{"sessions", "ok", fmt.Sprintf("%d", len(all)), ""}
}

func (r *root) checkAgents(dir string) finding {
	n := 0
	for _, e := range loadAgents(dir, r.env).List() {
		if e.Err != nil {
			return finding{"agents", "bad", e.Err.Error(), "mend or remove the file"}
		}
		n++
	}
	return finding{"agents", "ok", fmt.Sprintf("%d", n), ""}
}
