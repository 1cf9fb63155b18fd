package apart

import (
	"context"
	"os"

	"qq/internal/app/admin"
	"qq/internal/config"
	"qq/internal/isolate"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// Examiner tells qq doctor which copies tasks can get in the working directory.
type Examiner struct {
	Env []string // for git
}

var _ admin.Copies = Examiner{}

// Examine implements admin.Copies. It makes a copy and removes it.
func (e Examiner) Examine(ctx context.Context, host *proc.Host, cfg config.Config) admin.Finding {
	found := admin.Finding{What: "copies", State: "ok"}
	dir, err := os.Getwd()
	if err != nil {
		return admin.Bad(found.What, err)
	}
	exe, err := os.Executable()
	if err != nil {
		return admin.Bad(found.What, err)
	}
	t := open(Config{Mode: string(isolate.Auto), Dir: dir, Home: cfg.Home, Host: host, Exe: exe, Env: e.Env,
		Writable: cfg.Writable})
	defer t.Close()
	p, err := t.copy(ctx, "try-"+task.NewID(), dir)
	switch {
	case err != nil:
		problem, hint := task.Explain(err)
		found.State, found.Text, found.Fix = "note", "none, --isolate does not work here: "+problem, hint
	case p.Mode == isolate.Overlay:
		found.Text = "overlay: with --isolate auto, each task that can write gets one"
	default:
		found.Text = "worktree of git, with --isolate auto; " + p.Why
	}
	if err == nil {
		_ = p.Remove() // Close tries it again
	}
	return found
}
