package planned

import (
	"path"
	"slices"
	"strings"

	"qq/internal/imports"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/targets"
	"qq/pkg/supervisor/targets/realpath"
)

// addImported adds to the targets of each task that reads the files that another task may change and that a file of
// the reader imports. So the reader waits for a writer before it, and a writer behind it waits for the reader. root is
// the working directory as targets have it.
func (r Rules) addImported(tasks []plan.Task, root string) {
	if r.Imports == nil {
		return
	}
	var readers targets.Index[int]
	for i, t := range tasks {
		if t.Effect == targets.Reads {
			for _, target := range t.Targets {
				readers.Add(target, i)
			}
		}
	}
	fold := realpath.Folds(root)
	for _, file := range changed(tasks, r.Imports, root, fold) {
		imported := targets.Literal(path.Join(root, file), fold).AsFile()
		for _, importer := range r.Imports.Importers(file) {
			at := targets.Literal(path.Join(root, importer), fold).AsFile()
			for _, ref := range readers.Overlapping(at, nil) {
				_, i := readers.At(ref)
				if !slices.Contains(tasks[i].Targets, imported) {
					tasks[i].Targets = append(tasks[i].Targets, imported)
				}
			}
		}
	}
}

// changed returns the source files that tasks may change, relative to root: those that there are, and those that a
// target names. A task without targets may change any file, and is held apart from all others anyway.
func changed(tasks []plan.Task, g *imports.Graph, root string, fold bool) (files []string) {
	var writes targets.Index[struct{}]
	for _, t := range tasks {
		if t.Effect != targets.Writes {
			continue
		}
		for _, target := range t.Targets {
			writes.Add(target, struct{}{})
			name, inside := strings.CutPrefix(target.String(), root+"/")
			if inside && !strings.ContainsAny(name, "*?[{\\") {
				files = append(files, name)
			}
		}
	}
	for _, file := range g.Files() {
		if len(writes.Overlapping(targets.Literal(path.Join(root, file), fold).AsFile(), nil)) > 0 {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
