package changes

import (
	"slices"

	"qq/pkg/supervisor/targets"
)

// allSteps is how much work comparing files with globs may be, for each time that it is asked. That is less than a
// second. Files that are not compared then are outside.
const allSteps = 50_000_000

// cover is what the targets of a task cover: the paths that they name with all below, and what their globs match.
type cover struct {
	all    []targets.Target
	budget *targets.Budget
}

func newCover(texts []string) cover {
	c := cover{budget: targets.NewBudget(allSteps)}
	for _, text := range texts {
		if t := targets.Parse(text, false); t.Decided() {
			c.all = append(c.all, t)
		}
	}
	return c
}

// has reports whether a target covers the file.
func (c cover) has(file string) bool {
	f := targets.Literal(file, false).AsFile()
	return slices.ContainsFunc(c.all, func(t targets.Target) bool {
		return c.budget.Overlap(t, f) && !c.budget.Spent()
	})
}
