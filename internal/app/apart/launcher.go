package apart

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"qq/internal/box"
	"qq/internal/isolate"
	"qq/internal/isolate/worktree"
	"qq/pkg/supervisor"
	"qq/pkg/supervisor/changes"
	"qq/pkg/task"
)

// Launcher returns a Launcher that isolates tasks and launches them with next.
func (t *Trees) Launcher(next supervisor.Stager) supervisor.Stager {
	if t == nil {
		return next
	}
	return launcher{t, next}
}

type launcher struct {
	*Trees
	next supervisor.Stager
}

// Stage implements supervisor.Stager. A copy is made when the task starts, so that it has what others wrote until then.
func (l launcher) Stage(job task.Job) supervisor.Staged {
	if l.at(job.Parent) != nil || l.Isolates(job) {
		return nil
	}
	staged := l.next.Stage(job)
	if staged == nil || l.batch == nil || job.BatchID == "" {
		return staged
	}
	return begun{staged, l.batch}
}

// Launch implements supervisor.Launcher.
func (l launcher) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	w, ok := p.(worker)
	if in := l.at(job.Parent); in != nil && ok {
		r := l.next.Launch(ctx, l.moved(job, in), l.enter(job, in, w))
		l.inside(&r, in)
		return r
	}
	isolated := ok && l.Isolates(job)
	if l.batch != nil && job.BatchID != "" {
		l.batch.begin(job.Index, isolated)
	}
	if !isolated {
		return l.next.Launch(ctx, job, p)
	}
	in, err := l.copy(ctx, fmt.Sprintf("%s-%d", job.ExecutionID, l.made.Add(1)), l.dir(job))
	if err != nil {
		r := job.Fail(err)
		r.Hindered = task.MachineFault(err)
		if ctx.Err() != nil {
			r.Stop(context.Cause(ctx))
		}
		return r
	}
	in.Task = called(job)
	r := l.next.Launch(ctx, l.moved(job, in), l.enter(job, in, w))
	if l.hindered(&r, in) { // it is launched again
		l.remove(in)
		return r
	}
	w.Settle(&r, func(changed []string) {
		l.finish(ctx, &r, job, in, w, append(changed, r.ChangedFiles...))
		r.Effects = r.Effects && (in.joined || l.outside(in))
		l.remove(in)
	})
	return r
}

// called returns what people call the task of a job.
func called(job task.Job) string {
	switch {
	case job.ID != "":
		return "task " + task.Shorten(job.ID, 60)
	case job.BatchID != "":
		return fmt.Sprintf("task %d", job.Index+1)
	}
	return "a task of " + job.Agent
}

// dir returns the working directory of a job, in the tree.
func (t *Trees) dir(job task.Job) string {
	if filepath.IsAbs(job.WorkingDir) {
		return cmp.Or(job.Dir, job.WorkingDir)
	}
	return cmp.Or(job.Dir, filepath.Join(t.Dir, job.WorkingDir))
}

// moved returns job with its working directory in a copy. The overlay has the path of the tree.
func (t *Trees) moved(job task.Job, in *place) task.Job {
	dir, err := filepath.EvalSymlinks(t.dir(job))
	if err != nil || in.Mode != isolate.Worktree {
		return job
	}
	job.WorkingDir = in.Path(dir)
	if job.Dir != "" {
		job.Dir = job.WorkingDir
	}
	return job
}

// finish joins what a task changed, or keeps it, and completes the result. said are the files that agents said they
// changed, with their tools.
func (l launcher) finish(
	ctx context.Context, r *task.Result, job task.Job, in *place, w worker, said []string,
) {
	r.ChangedFiles = nil
	waits := ctx
	ctx = context.WithoutCancel(ctx) // a completed task is joined also when the run is to end
	patch, err := in.Patch(ctx)
	if err != nil {
		fail(r, err, l.kept(in))
		return
	}
	prefix, _ := filepath.Rel(in.Tree(), in.dir)
	below := func(path string) string { // relative to the working directory of the task
		if rel, err := filepath.Rel(prefix, path); err == nil {
			return filepath.ToSlash(rel)
		}
		return path
	}
	r.Unsaid = nil // the patch has all that changed
	warn(r, "not joined, because git ignores it", patch.Ignored, below, "")
	warn(r, "not joined, because it is neither a file nor a folder", patch.Left, below, "")
	if patch.Spoiled != "" && r.Status == task.Completed {
		where := ""
		if len(patch.Changes) > 0 {
			where = "; " + l.keep(in, patch)
		}
		r.End(task.Conflict, "nothing was joined: "+patch.Spoiled+where+"\nhint: run the task again")
		return
	}
	if len(patch.Changes) == 0 {
		return
	}
	if r.Status != task.Completed {
		r.Warnings = append(r.Warnings, "nothing was joined, because it was not completed; "+l.keep(in, patch))
		return
	}
	if err := confine(r, patch, in, below); err != nil {
		fail(r, err, l.kept(in))
		return
	}
	if err := l.hold(r, patch, in, said, below); err != nil {
		fail(r, err, l.kept(in))
		return
	}
	if len(changes.Outside(job.Targets, files(patch, below))) > 0 || len(job.Targets) == 0 {
		if l.batch != nil && job.BatchID != "" {
			if !l.batch.due(job.Index) && l.outside(in) { // it would not run again if this process were killed now
				if file, err := in.tree.Keep(patch); err == nil {
					defer os.Remove(file)
				}
			}
			w.Await(func() { err = l.batch.wait(waits, job.Index) })
		}
	}
	if err != nil {
		r.Stop(err)
		r.Warnings = append(r.Warnings, "nothing was joined, because it was cancelled; "+l.keep(in, patch))
		return
	}
	in.joined = true
	patch.Witness = w // it is the first effect of the task
	kept := l.Undo.Join(in.Tree(), files(patch, func(path string) string { return path }))
	out, err := in.tree.Join(ctx, patch)
	kept.Done()
	if err != nil {
		fail(r, err, l.keep(in, patch))
		return
	}
	conclude(r, out[0], in, below)
}

// hold takes files that programs obey, and that a command wrote, from a patch, and keeps them.
func (l launcher) hold(
	r *task.Result, patch *isolate.Patch, in *place, said []string, below func(string) string,
) error {
	var others []string
	for _, c := range patch.Changes {
		if !slices.Contains(said, below(c.Path)) {
			others = append(others, c.Path)
		}
	}
	if len(others) == 0 {
		return nil
	}
	held, told := box.New(box.Config{Dir: in.Tree(), Writable: l.Writable}).Obeyed(others)
	warn(r, "new or changed, and programs obey it: look at it first", told, below, "")
	if len(held) == 0 {
		return nil
	}
	file, err := in.tree.Keep(patch.Part(held))
	if err != nil {
		return err
	}
	warn(r, "not joined, because programs obey it and a command wrote it", held, below, ": it is kept in "+file)
	return nil
}

// conclude completes the result of a task with what became of its patch.
func conclude(r *task.Result, out isolate.Outcome, in *place, below func(string) string) {
	for _, file := range out.Files {
		r.ChangedFiles = append(r.ChangedFiles, below(file))
	}
	warn(r, "changed by somebody else while it was joined", out.Kept, func(s string) string { return s },
		": what the task wrote is there")
	if len(out.Conflicts) == 0 {
		return
	}
	first := out.Conflicts[0]
	problem := fmt.Sprintf("nothing was joined: %s: %s", below(first.Path), first.Reason)
	if more := len(out.Conflicts) - 1; more > 0 {
		problem += fmt.Sprintf(" (and %d more conflicts)", more)
	}
	r.End(task.Conflict, fmt.Sprintf("%s; to take what fits: %s\nhint: run the task again, or take what fits of it",
		problem, worktree.Apply(in.Tree(), out.File)))
}

// fail ends a completed task whose changes could not be joined.
func fail(r *task.Result, err error, where string) {
	if r.Status != task.Completed {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %s", where, task.Line(err.Error())))
		return
	}
	r.End(task.Failed, fmt.Sprintf("its changes were not joined: %s; %s\nhint: see whether the disk has room, and run "+
		"the task again", task.Line(err.Error()), where))
}

// warn adds a warning about paths to a result, if there are any.
func warn(r *task.Result, what string, all []string, below func(string) string, end string) {
	if len(all) == 0 {
		return
	}
	var shown []string
	for _, p := range all {
		shown = append(shown, below(p))
	}
	r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %s%s", what, names(shown), end))
}

// files are the paths in a patch without folders.
func files(p *isolate.Patch, below func(string) string) (all []string) {
	for _, c := range p.Changes {
		if !c.New.Mode.IsDir() && !(c.Base.Mode.IsDir() && c.New.None()) {
			all = append(all, below(c.Path))
		}
	}
	return all
}
