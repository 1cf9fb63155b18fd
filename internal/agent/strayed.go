package agent

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"qq/internal/agent/loop"
	"qq/pkg/supervisor/changes"
)

// copied is a starter of commands in a copy of the folder.
type copied interface {
	// Wrote returns those of files, relative to the working directory, that were changed in the copy, and not by
	// others in the folder.
	Wrote(files []string) ([]string, error)
}

// bounded reports whether the run works in a copy of which only what targets cover is joined.
func (r *run) bounded() bool {
	n := len(r.Setup.Bounds)
	return n > 0 && n == r.Setup.Joined && !r.Setup.ReadOnly
}

// strayed returns a fault if the work changed files that are not joined: a check with these would say nothing about the
// rest. What an earlier check made does not count.
func (v *verifier) strayed(ctx context.Context) *loop.Fault {
	const atOnce = 200
	now, _ := v.stamps(ctx, math.MaxInt)
	files := slices.DeleteFunc(v.since(now), func(f string) bool {
		made, was := v.checked[f]
		is, after := now[f]
		return v.Setup.Bounds.Bar(f) == nil || v.checked != nil && was == after && made == is
	})
	slices.Sort(files)
	if c, ok := v.Process.Commands.(copied); ok {
		var ours []string
		for part := range slices.Chunk(files, atOnce) {
			found, err := c.Wrote(part)
			if err != nil {
				return &loop.Fault{Problem: "the check was not run: " + err.Error()}
			}
			ours = append(ours, found...)
		}
		files = ours
	}
	if len(files) == 0 {
		return nil
	}
	named := some(files, ", ")
	return &loop.Fault{
		Problem: fmt.Sprintf("the check was not run, because files were changed %s (--strict-targets): %s\nhint: give "+
			"these among the targets, or leave --strict-targets out", changes.OutsideOfTargets, named),
		Message: fmt.Sprintf("Your work was not checked, because you have changed files outside of the targets of the "+
			"task: %s\nThe targets are: %s\nOther changes are not kept. Take these back with commands: remove new "+
			"files, and restore the others. When that is done, give your whole answer again.",
			named, strings.Join(v.Setup.Bounds[len(v.Setup.Bounds)-1].Targets, ", ")),
	}
}
