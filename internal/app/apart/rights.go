package apart

import (
	"path/filepath"
	"slices"

	"qq/internal/agent"
	"qq/internal/box"
	"qq/internal/isolate"
	"qq/internal/sandbox"
)

// Change changes the setup of the agent that works under an execution id, if that is in a copy. A worktree has another
// path than the tree, in a folder of qq. The rules of a person are about both paths.
func (t *Trees) Change(s *agent.Setup, executionID string) {
	p := t.at(executionID)
	if p == nil || p.Mode != isolate.Worktree {
		return
	}
	s.Policy.Root, s.Writable = p.Path(s.Policy.Root), p.beside(s.Writable)
	var private []string
	for _, dir := range s.Private {
		if !sandbox.Within(p.Dir, dir) {
			private = append(private, p.Path(dir))
		}
	}
	s.Private = private
}

// Box changes the box for the commands of the agent that works under an execution id, if that is in a copy.
func (t *Trees) Box(cfg *box.Config, executionID string) {
	p := t.at(executionID)
	if p == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	cfg.Witness = p.jobs[executionID]
	if p.Mode == isolate.Worktree {
		cfg.Writable = p.beside(cfg.Writable)
	} else {
		cfg.Overlay = &box.Overlay{File: p.File(), Dir: p.Tree()}
	}
}

// Live returns the path in the tree of a folder in which the job with an execution id works.
func (t *Trees) Live(executionID, dir string) string {
	if p := t.at(executionID); p != nil {
		return p.Copy.Live(dir)
	}
	return dir
}

// beside returns those of the paths that are not in the tree: a task in a worktree must not write there.
func (p *place) beside(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		real, err := filepath.EvalSymlinks(path)
		return err != nil || sandbox.Within(real, p.Tree())
	})
}
