package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"qq/internal/approval"
	"qq/internal/config"
	"qq/internal/tools/astgrep"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// policy is what the settings say about calls.
func policy(set config.Config) approval.Policy {
	return approval.Policy{Mode: approval.Mode(set.Approve), Allow: set.Allow, Deny: set.Deny}
}

// setup is what the agent of that name, at work under an id, needs to know. Its
// files are private to it; clean removes what was only for the run.
func (e *Engine) setup(agent agents.Agent, m Model, id string, readOnly bool) (Setup, error) {
	set := e.cfg.Settings
	s := Setup{Model: m, Policy: policy(set), Writable: set.Writable, WebAllow: set.WebAllow, AstGrep: e.astGrep()}
	if agent.Allows("web_search") {
		s.Search = e.cfg.Search
	}
	if m.CallsTools() && !readOnly && agent.Changes() {
		dir, err := e.scratch.folder()
		if err != nil {
			return s, err
		}
		s.TempDir = tempDir(dir, id)
		if err := os.MkdirAll(s.TempDir, 0o700); err != nil {
			return s, fmt.Errorf("make a temporary folder: %w", err)
		}
	}
	if m.CallsTools() && agent.Allows("run_pty_cmd") {
		kept := outputs(set.Home)
		if err := os.MkdirAll(kept, 0o700); err != nil {
			return s, hinted(err, "QQ_HOME names a folder that you may write to", "make the folder for outputs")
		}
		s.ShellLog = shellLog(kept, id)
	}
	return s, nil
}

func tempDir(scratch, id string) string { return filepath.Join(scratch, id+".tmp") }

// PruneOutputs removes the outputs kept below home that nobody has written to
// for age, and returns their paths.
func PruneOutputs(home string, age time.Duration) (gone []string, err error) {
	dir := outputs(home)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list kept outputs: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < age {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := os.Remove(path); err != nil {
			return gone, fmt.Errorf("remove a kept output: %w", err)
		}
		gone = append(gone, path)
	}
	return gone, nil
}

// outputs is the folder of what is kept when it is too long to be handed on.
func outputs(home string) string { return filepath.Join(home, "outputs") }

func shellLog(kept, id string) string { return filepath.Join(kept, id+".commands.txt") }

// clean removes what was only for the run, and a log into which nothing was
// written.
func (s Setup) clean() {
	if s.TempDir != "" {
		_ = os.RemoveAll(s.TempDir)
	}
	if info, err := os.Stat(s.ShellLog); err == nil && info.Size() == 0 {
		_ = os.Remove(s.ShellLog)
	}
}

// findAstGrep looks for the program of the structural tools.
func findAstGrep(getenv func(string) string) string {
	path, err := astgrep.Find(getenv)
	if err != nil {
		return "" // doctor says why
	}
	return path
}

// prepare says what the child for job needs to know.
func (e *Engine) prepare(ctx context.Context, job task.Job) (childproc.Start, error) {
	agent, m, err := e.Staff(ctx, job.Task)
	if err != nil {
		return childproc.Start{}, err
	}
	readOnly := e.cfg.ReadOnly || job.ReadOnly || agent.Gathers()
	s, err := e.setup(agent, m, job.ExecutionID, readOnly)
	if err != nil {
		return childproc.Start{}, err
	}
	setup, err := json.Marshal(s)
	if err != nil {
		return childproc.Start{}, err
	}
	return childproc.Start{
		Agent: agent, ReadOnly: readOnly, Denied: append(slices.Clone(e.cfg.Settings.Deny), job.Denied...), Targets: job.Targets, Dir: job.Dir,
		References: job.RequireFileReferences, Schema: job.Schema, Setup: setup,
		CanDelegate: job.Depth+1 < e.cfg.Settings.MaxDepth, Events: e.stream.Wanted(), OneProcessor: e.oneProcessor,
		Retries: e.cfg.Settings.Retries, IdleMS: e.Idle(job).Milliseconds(), Reads: e.record.Caches(),
		Traceparent: e.cfg.Trace.Traceparent(job.ExecutionID),
	}, nil
}

// children fits the launcher of child processes to the supervisor, and removes
// what a child leaves behind in files.
type children struct {
	*childproc.Launcher
	e *Engine
}

// staged is a child that was started ahead of its turn.
type staged struct {
	supervisor.Staged
	e *Engine
}

// Launch implements supervisor.Launcher.
func (c children) Launch(ctx context.Context, job task.Job) task.Result {
	defer c.e.tidy(job)
	return c.e.signed(job, c.Launcher.Launch(ctx, job))
}

// Stage implements supervisor.Stager.
func (c children) Stage(job task.Job) supervisor.Staged {
	if s := c.Launcher.Stage(job); s != nil {
		return staged{s, c.e}
	}
	return nil // and not a nil pointer in an interface
}

// Launch implements supervisor.Launcher.
func (s staged) Launch(ctx context.Context, job task.Job) task.Result {
	defer s.e.tidy(job)
	return s.e.signed(job, s.Staged.Launch(ctx, job))
}

// signed is r with the model that did the job.
func (e *Engine) signed(job task.Job, r task.Result) task.Result {
	r.Model = e.modelOf(job.Task)
	return r
}

// tidy removes the files of a child that has ended.
func (e *Engine) tidy(job task.Job) {
	if dir := e.scratch.made(); dir != "" {
		Setup{TempDir: tempDir(dir, job.ExecutionID), ShellLog: shellLog(outputs(e.cfg.Settings.Home), job.ExecutionID)}.clean()
	}
}
