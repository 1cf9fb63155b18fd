// Package doctor finds out what works on this machine and what does not: the
// model server and its model, what keeps processes and files apart, programs and
// services that tools need, folders.
//
// It looks and changes nothing, except that folders that qq would make are made.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"qq/internal/config"
	"qq/internal/models"
	"qq/internal/record/ledger"
	"qq/internal/sandbox"
	"qq/internal/tools/astgrep"
	"qq/internal/tools/web"
	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/proc"
	"qq/pkg/session"
)

// Finding is one thing that was looked at.
type Finding struct {
	What  string `json:"what"`
	State string `json:"state"` // ok, note or bad
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

// Patient is what there is to look at.
type Patient struct {
	Version  string
	Settings config.Config
	Environ  []string
	Getenv   func(string) string
	Agents   *agents.Registry
	Sessions *session.Store
}

// Examine looks at everything.
func Examine(ctx context.Context, p Patient) []Finding {
	findings := append([]Finding{{"qq", "ok", p.Version, ""}}, checkModel(ctx, p.Settings)...)
	host := proc.NewHost()
	defer host.Close()
	return append(findings,
		checkIsolation(host.Isolation()), checkSandbox(sandbox.Probe()), checkAstGrep(ctx, host, p.Environ, p.Getenv),
		checkSearch(p.Settings, p.Getenv),
		checkFolder("home", p.Settings.Home, "set QQ_HOME to a folder that you may write to"),
		checkFolder("logs", p.Settings.LogDir, "set QQ_LOG_DIR to a folder that you may write to"),
		checkSessions(p.Sessions), checkLedger(p.Settings.Home), checkAgents(p.Agents),
	)
}

// checkModel looks at the model server and the model that a run would use.
func checkModel(ctx context.Context, cfg config.Config) []Finding {
	if cfg.Model == models.Extract {
		return []Finding{{"model", "ok", "extract, the built-in extractive model", ""}}
	}
	client, err := models.New(cfg.OllamaHost)
	if err != nil {
		return []Finding{bad("model server", err)}
	}
	defer client.Close()
	v, err := client.Version(ctx)
	if err != nil {
		f := bad("model server", err)
		if cfg.Model == models.Auto {
			f.State, f.Text = "note", f.Text+": extract, the built-in extractive model, is used"
		}
		return []Finding{f}
	}
	found := []Finding{{"model server", "ok", fmt.Sprintf("Ollama %s at %s", v, client.Host()), ""}}
	m, err := client.Find(ctx, cfg.Model)
	if err != nil {
		f := bad("model", err)
		if cfg.Model == models.Auto {
			f.State = "note"
		}
		return append(found, f)
	}
	found = append(found, Finding{"model", "ok", m.Name, ""})
	f := Finding{"context", "ok", fmt.Sprintf("%d tokens", m.Context), ""}
	if m.Context > 0 && m.Context < 8192 {
		f.State, f.Fix = "note", "use a model with at least 8192 tokens: tools and documents need room"
	}
	found = append(found, f)
	f = Finding{"tools", "ok", "the model can call tools", ""}
	if !m.Tools {
		f = Finding{"tools", "note", "the model cannot call tools: agents work without them", "use a model with tools, for example: ollama pull qwen3"}
	}
	return append(found, f)
}

// bad is the finding for an error, with its hint as the fix.
func bad(what string, err error) Finding {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return Finding{what, "bad", e.Problem, e.Hint}
	}
	problem, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	return Finding{what, "bad", problem, hint}
}

func checkIsolation(in string) Finding {
	f := Finding{"processes", "ok", in + ": nothing that a child starts outlives it", ""}
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
func checkSandbox(s sandbox.Support) Finding {
	f := Finding{"sandbox", "ok", s.String(), ""}
	if !s.Enforced() {
		f.State, f.Text, f.Fix = "note", s.String()+"; read-only agents get no shell", s.Fix()
	}
	return f
}

// checkAstGrep looks for the program behind ast_grep and ast_grep_replace.
func checkAstGrep(ctx context.Context, host *proc.Host, env []string, getenv func(string) string) Finding {
	path, err := astgrep.Find(getenv)
	if err != nil {
		_, fix, _ := strings.Cut(err.Error(), ": ")
		return Finding{"ast-grep", "note", "not installed: agents have no ast_grep and ast_grep_replace", fix}
	}
	version, err := astgrep.Version(ctx, astgrep.Config{Host: host, Program: path, Env: env, NewID: func() string { return "doctor" }})
	if err != nil {
		return bad("ast-grep", err)
	}
	return Finding{"ast-grep", "ok", version + ", " + path, ""}
}

// checkSearch says where web_search searches.
func checkSearch(cfg config.Config, getenv func(string) string) Finding {
	search, err := web.NewSearch(cfg.Search, getenv)
	switch {
	case err != nil:
		return bad("web search", err)
	case search.Engine == "":
		return Finding{"web search", "note", "not configured: agents have no web_search", "set QQ_SEARCH=searxng=URL, brave or tavily"}
	}
	return Finding{"web search", "ok", search.Engine, ""}
}

func checkFolder(what, dir, fix string) Finding {
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

// checkLedger opens the ledger, as the next batch would. None is made for the look.
func checkLedger(home string) Finding {
	info, err := os.Stat(ledger.Path(home))
	if errors.Is(err, fs.ErrNotExist) {
		return Finding{"ledger", "ok", "none yet", ""}
	}
	if err != nil {
		return bad("ledger", err)
	}
	led, err := ledger.Open(home, ledger.Options{Wait: 2 * time.Second})
	if err != nil {
		return bad("ledger", err)
	}
	live, err := led.List(ledger.Filter{Live: true})
	if err = errors.Join(err, led.Close()); err != nil {
		return bad("ledger", err)
	}
	return Finding{"ledger", "ok", fmt.Sprintf("%s, %d KiB, %d runs at work", ledger.Path(home), info.Size()>>10, len(live)), ""}
}

func checkSessions(store *session.Store) Finding {
	all, err := store.List()
	if err != nil {
		return bad("sessions", err)
	}
	return Finding{"sessions", "ok", fmt.Sprintf("%d", len(all)), ""}
}

func checkAgents(reg *agents.Registry) Finding {
	n := 0
	for _, e := range reg.List() {
		if e.Err != nil {
			return Finding{"agents", "bad", e.Err.Error(), "mend or remove the file"}
		}
		n++
	}
	return Finding{"agents", "ok", fmt.Sprintf("%d", n), ""}
}
