package access

import (
	"slices"

	"qq/pkg/supervisor/targets"
)

// named are the targets that jobs have named so far, each with the lease of the parent.
type named struct {
	index targets.Index[*family]
	known map[naming]bool
}

// naming is one target of the children of one job.
type naming struct {
	target targets.Target
	parent *family
}

// family is a job as long as its descendants are asked about: what it has named, and its parent.
type family struct {
	parent *family
	own    []targets.Target
}

// add notes what a job has named. A job that asks again for its lease adds nothing.
func (n *named) add(f *family) {
	for _, t := range f.own {
		if key := (naming{t, f.parent}); !n.known[key] {
			if n.known == nil {
				n.known = map[naming]bool{}
			}
			n.known[key] = true
			n.index.Add(t, f.parent)
		}
	}
}

// byOther reports whether the path was named by a job that is no ancestor of f.
func (n *named) byOther(f *family, path targets.Target) bool {
	return slices.ContainsFunc(n.index.Overlapping(path, nil), func(at targets.Ref) bool {
		t, parent := n.index.At(at)
		for a := f; a != nil; a = a.parent {
			if a.parent == parent && slices.Contains(a.own, t) {
				return false
			}
		}
		return true
	})
}

// Paths finds the real paths of what a task in dir names.
type Paths interface {
	Targets(dir string, texts []string) []targets.Target
}

// maxFiles is how many files of a job are looked at.
const maxFiles = 1000

// Unnamed returns those of the files, which are relative to dir, that no other job has named so far: a change of them
// was not made by a job that was allowed to. Without leases nothing is known, and there are none.
func (l *Lease) Unnamed(files []string, dir string, paths Paths) (unnamed []string) {
	if l == nil || paths == nil {
		return nil
	}
	for _, file := range files[:min(len(files), maxFiles)] {
		real := paths.Targets(dir, []string{file})
		l.tree.mu.Lock()
		if !slices.ContainsFunc(real, func(t targets.Target) bool { return l.tree.named.byOther(l.family, t) }) {
			unnamed = append(unnamed, file)
		}
		l.tree.mu.Unlock()
	}
	return unnamed
}
