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
// the working directory as targets have it. The result says why, for each task and file that was added.
func (r Rules) addImported(tasks []plan.Task, root string) (why map[int]map[string]string) {
	if r.Imports == nil {
		return nil
	}
	why = map[int]map[string]string{}
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
				if slices.Contains(tasks[i].Targets, imported) {
					continue
				}
				tasks[i].Targets = append(tasks[i].Targets, imported)
				if why[i] == nil {
					why[i] = map[string]string{}
				}
				why[i][file] = importer + " imports " + file
				if r.Imports.Unsure(importer) {
					why[i][file] = importer + " cannot be parsed, so it counts as one that imports " + file
				}
			}
		}
	}
	return why
}

// explain adds to d why tasks that read touch files that they do not name.
func explain(d plan.Description, why map[int]map[string]string) {
	if len(why) == 0 {
		return
	}
	at := map[string]int{}
	for i, t := range d.Tasks {
		at[t.ID] = i
	}
	for i, t := range d.Tasks {
		for k, b := range t.WaitsFor {
			reader := i
			if b.Reason == plan.WriteAfter {
				reader = at[b.ID]
			}
			var all []string
			for _, path := range b.Paths {
				if text := why[reader][path]; text != "" {
					all = append(all, text)
				}
			}
			if len(all) == len(b.Paths) {
				t.WaitsFor[k].Imports = all
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
