package app

import (
	"os"
	"path/filepath"

	"qq/internal/agent"
	"qq/internal/app/bounds"
	"qq/internal/app/scratch"
	"qq/internal/box"
	"qq/internal/sandbox"
	"qq/pkg/childproc"
	"qq/pkg/proc"
	"qq/pkg/task"
)

var (
	_ childproc.Commander = (*wiring)(nil)
	_ childproc.Placer    = (*wiring)(nil)
)

// Place implements childproc.Placer.
func (w *wiring) Place(job task.Job, c *proc.Command) error { return w.apart.Place(job, c) }

// Commands implements childproc.Commander. The root starts the commands of a child: the child is in a sandbox, so that
// it cannot give them a view of the file system, and it may be killed before what they changed is put back.
func (w *wiring) Commands(job task.Job) (*os.File, error) {
	if def, err := w.Agent(job.Agent); err != nil || !def.Allows("run_pty_cmd") && !job.HasGivenCheck() {
		return nil, nil // Prepare reports err
	}
	return w.children.Open(job.ExecutionID)
}

// box returns what starts the commands of the agent a, which works in the folder dir under an execution id.
func (w *wiring) box(a agent.Agent, dir, id string) *box.Box {
	cfg := box.Config{
		Host: w.host, Exe: w.exe, Dir: dir, Rules: a.CommandRules(dir),
		Confined: sandbox.Probe().Enforced(), Mounts: true,
		Namespace: true, Writable: w.cfg.Settings.Writable, Limits: bounds.Commands(w.cfg.Settings),
		Hidden: []string{w.cfg.Settings.Home}, Servers: box.Servers(w.cfg.Environ.Get, os.Getuid()),
	}
	if boxed := a.Setup.Bounds[a.Setup.Joined:]; len(boxed) > 0 {
		cfg.Open = boxed
	}
	if home := w.cfg.Environ.ConfigHome(); home != "" {
		cfg.Hidden = append(cfg.Hidden, filepath.Join(home, "qq"))
	}
	if own := w.scratch.Made(); own != "" {
		cfg.Log = scratch.Placeholders(own)
	}
	w.apart.Box(&cfg, id)
	return box.New(cfg)
}
