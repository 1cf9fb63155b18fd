package apart

import (
	"io/fs"
	"path/filepath"
	"syscall"

	"qq/internal/isolate"
	"qq/internal/isolate/worktree"
	"qq/pkg/task"
)

// keep keeps a patch that is not joined in a file, or the copy if that cannot be. It returns what to do with it.
func (t *Trees) keep(in *place, patch *isolate.Patch) string {
	file, err := in.tree.Keep(patch)
	if err != nil {
		return t.kept(in)
	}
	return "to take what it changed: " + worktree.Apply(in.Tree(), file)
}

// kept keeps a copy of which there is no patch, and returns where. A full disk may be the reason, and tasks wait for
// room on it: so a person is told at once.
func (t *Trees) kept(in *place) string {
	dir, err := in.Keep()
	if err != nil {
		return "what it changed is lost: " + task.Line(err.Error())
	}
	t.Person.Say("warning: what %s changed is kept in the folder %s (%.0f MB)\n  hint: take what you need of it and "+
		"remove it: that makes room on the disk of QQ_HOME", in.Task, dir, max(1, float64(taken(dir))/1e6))
	return "what it changed is kept in the folder " + dir
}

// taken returns how many bytes of the disk the files in a folder take.
func taken(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read is not counted
		}
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				size += st.Blocks * 512
			}
		}
		return nil
	})
	return size
}
