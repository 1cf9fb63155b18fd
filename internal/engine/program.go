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

	"qq/internal/agent"
	"qq/internal/models"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/task"
)

var _ childproc.Program = (*Engine)(nil)

// childSetup is what only this program reads of a start frame.
type childSetup struct {
	Model models.Model `json:"model"`
	Agent agent.Setup  `json:"agent"`
}

// Args implements childproc.Program: a command line that a person could type.
func (e *Engine) Args(agent string) []string {
	return []string{os.Args[0], "--agent", agent, "--new-session", "-m", "-"}
}

// Scratch returns the private folder of this process, made when it is first
// asked for. Close removes it.
func (e *Engine) Scratch() (string, error) { return e.scratch.folder() }

// Prepare implements childproc.Program: it says what the child for job needs to know.
func (e *Engine) Prepare(ctx context.Context, job task.Job) (childproc.Start, error) {
	def, m, err := e.Staff(ctx, job.Task)
	if err != nil {
		return childproc.Start{}, err
	}
	set := e.cfg.Settings
	readOnly := e.cfg.ReadOnly || job.ReadOnly || def.Gathers()
	s, err := e.setup(def, m, job.ExecutionID, readOnly)
	if err != nil {
		return childproc.Start{}, err
	}
	setup, err := json.Marshal(childSetup{m, s})
	if err != nil {
		return childproc.Start{}, err
	}
	return childproc.Start{
		Agent: def, Model: m.String(), ReadOnly: readOnly, Denied: append(slices.Clone(set.Deny), job.Denied...), Targets: job.Targets, Dir: job.Dir,
		References: job.RequireFileReferences, Schema: job.Schema, Setup: setup,
		CanDelegate: job.Depth+1 < set.MaxDepth, Events: e.stream.Wanted(), OneProcessor: e.oneProcessor,
		Retries: set.Retries, Reads: e.record.Caches(), Traceparent: e.cfg.Trace.Traceparent(job.ExecutionID),
	}, nil
}

// Tidy implements childproc.Program.
func (e *Engine) Tidy(job task.Job) {
	if dir := e.scratch.made(); dir != "" {
		clean(agent.Setup{TempDir: tempDir(dir, job.ExecutionID), ShellLog: shellLog(outputs(e.cfg.Settings.Home), job.ExecutionID)})
	}
}

// setup is what an agent, at work under an id, needs to know. Its files are private to
// it; clean removes what was only for the run.
func (e *Engine) setup(def agents.Agent, m models.Model, id string, readOnly bool) (agent.Setup, error) {
	set := e.cfg.Settings
	s := agent.Setup{Policy: policy(set), Writable: set.Writable, WebAllow: set.WebAllow, AstGrep: e.astGrep()}
	if def.Allows("web_search") {
		s.Search = e.cfg.Search
	}
	if m.CallsTools() && !readOnly && def.Changes() {
		dir, err := e.scratch.folder()
		if err != nil {
			return s, err
		}
		s.TempDir = tempDir(dir, id)
		if err := os.MkdirAll(s.TempDir, 0o700); err != nil {
			return s, fmt.Errorf("make a temporary folder: %w", err)
		}
	}
	if m.CallsTools() && def.Allows("run_pty_cmd") {
		kept := outputs(set.Home)
		if err := os.MkdirAll(kept, 0o700); err != nil {
			return s, hinted(err, "QQ_HOME names a folder that you may write to", "make the folder for outputs")
		}
		s.ShellLog = shellLog(kept, id)
	}
	return s, nil
}

// clean removes what was only for the run, and a log into which nothing was written.
func clean(s agent.Setup) {
	if s.TempDir != "" {
		_ = os.RemoveAll(s.TempDir)
	}
	if info, err := os.Stat(s.ShellLog); err == nil && info.Size() == 0 {
		_ = os.Remove(s.ShellLog)
	}
}

func tempDir(scratch, id string) string { return filepath.Join(scratch, id+".tmp") }

func shellLog(kept, id string) string { return filepath.Join(kept, id+".commands.txt") }

// outputs is the folder of what is kept when it is too long to be handed on.
func outputs(home string) string { return filepath.Join(home, "outputs") }

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
