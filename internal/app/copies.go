package app

import (
	"path/filepath"
	"strings"

	"qq/internal/agent"
	"qq/internal/app/apart"
	"qq/internal/box"
	"qq/internal/isolate"
	"qq/internal/sandbox"
	"qq/pkg/childproc"
	"qq/pkg/proc"
	"qq/pkg/task"
)

var (
	_ childproc.Placer = (*wiring)(nil)
	_ apart.Rights     = (*wiring)(nil)
)

// openCopies removes what killed processes left of copies of folders, and makes what gives tasks copies.
func (w *wiring) openCopies() {
	set := w.cfg.Settings
	cfg := isolate.Config{
		Dir: w.cfg.Dir, State: filepath.Join(set.Home, "copies"), Patches: string(w.outputs()),
		Host: w.host, Exe: w.exe, Env: w.cfg.Environ,
	}
	kept, err := isolate.Sweep(cfg.State, cfg.Patches)
	if err != nil {
		w.cfg.Person.Say("warning: clear up after a run that was killed: %v", err)
	}
	if len(kept) > 0 {
		w.cfg.Person.Say("warning: a run was killed while it wrote files that were changed since: its versions are %s",
			strings.Join(kept, ", "))
	}
	w.apart = apart.New(apart.Config{Mode: set.Isolate, Isolate: cfg, Rights: w, Writable: set.Writable,
		Confined: sandbox.Probe().Enforced()})
}

// Place implements childproc.Placer.
func (w *wiring) Place(job task.Job, c *proc.Command) error { return w.apart.Place(job, c) }

// Writes implements apart.Rights. A check that a person gave is a command, whatever tools the agent has.
func (w *wiring) Writes(job task.Job) bool {
	def, err := w.Agent(job.Agent)
	return err == nil && !w.cfg.ReadOnly && !job.ReadOnly && (def.Changes() || job.HasGivenCheck())
}

// Obeyed implements apart.Rights.
func (w *wiring) Obeyed(dir string, paths []string) (held, told []string) {
	return box.New(box.Config{Dir: dir, Writable: w.cfg.Settings.Writable}).Obeyed(paths)
}

// isolated changes the setup of an agent that works in a copy. A worktree has another path than the tree: the rules of
// a person are about both, and it is in a folder of qq, which is else not for agents.
func isolated(s *agent.Setup, c *isolate.Copy) {
	if c.Mode != isolate.Worktree {
		return
	}
	s.Policy.Root, s.Writable = c.Path(s.Policy.Root), apart.Beside(c, s.Writable)
	var private []string
	for _, dir := range s.Private {
		if !sandbox.Within(c.Dir, dir) {
			private = append(private, c.Path(dir))
		}
	}
	s.Private = private
}
