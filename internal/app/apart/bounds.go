package apart

import (
	"path"
	"slices"

	"qq/internal/isolate"
	"qq/pkg/supervisor/changes"
	"qq/pkg/task"
)

// Bind notes what targets let the job with an execution id change. It returns how many of the bounds, the first ones,
// need no sandbox: those of the task for which a copy was made. Its commands may write in the whole copy, and only what
// the targets cover is joined. In the tree there are none, and a task that works in the copy of another one may have
// more bounds than that.
func (t *Trees) Bind(executionID string, bounds changes.Bounds) (joined int) {
	p := t.at(executionID)
	if p == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.ids[0] == executionID {
		p.bounds = bounds
	}
	return len(p.bounds)
}

// confine takes what the targets of an isolated task do not cover from its patch, and keeps it. If the task has a
// check, that made it: the agent looks before, see [contained.Wrote].
func confine(r *task.Result, patch *isolate.Patch, in *place, below func(string) string) error {
	var strays []string
	above := map[string]bool{} // folders of changes that stay
	// What is in a folder comes before the folder.
	for _, c := range slices.Backward(patch.Changes) {
		if in.bounds.Bar(below(c.Path)) != nil && !(above[c.Path] && c.Base.None() && c.New.Mode.IsDir()) {
			strays = append(strays, c.Path)
			continue
		}
		for dir := path.Dir(c.Path); !c.New.None() && dir != "."; dir = path.Dir(dir) {
			above[dir] = true
		}
	}
	if len(strays) == 0 {
		return nil
	}
	slices.Sort(strays)
	file, err := in.tree.Keep(patch.Part(strays))
	if err != nil {
		return err
	}
	warn(r, "not joined, because it is outside of the targets (--strict-targets)", strays, below,
		": it is kept in "+file)
	return nil
}
