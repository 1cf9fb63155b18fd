package agent

import (
	"context"
	"slices"
	"time"

	"qq/internal/agent/contents"
)

// Limits of the look at a folder in which commands may change something that the task did not name: in a larger folder,
// or a slower one, nothing is known of what they changed.
const (
	maxWatched = 20_000 // files
	watchTime  = 2 * time.Second
	maxUnsaid  = 1000 // files that are reported
)

// watched returns the files in the working directory, for [run.unsaid]; nil if nothing has to be compared: the task has
// no targets, or its agent runs no commands.
func (r *run) watched(ctx context.Context) map[string]contents.Stamp {
	if len(r.job.Targets) == 0 || r.Setup.ReadOnly || !slices.Contains(r.tools.offered.Names(), shellTool) &&
		r.job.Check == "" {
		return nil
	}
	return r.glance(ctx)
}

// glance returns the stamps of the files in the working directory, or nil if these are too many.
func (r *run) glance(ctx context.Context) map[string]contents.Stamp {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), watchTime) // also if the time of the task is up
	defer cancel()
	files, err := r.stamps(ctx, maxWatched)
	if err != nil {
		return nil
	}
	return files
}

// unsaid returns the files that differ from before, if the run has run commands.
func (r *run) unsaid(ctx context.Context, before map[string]contents.Stamp) (files []string) {
	if did := r.deeds.did.OrNil(); before == nil || did == nil || len(did.Commands) == 0 {
		return nil
	}
	now := r.glance(ctx)
	if now == nil {
		return nil
	}
	files = contents.Differing(before, now)
	slices.Sort(files)
	return files[:min(len(files), maxUnsaid)]
}
