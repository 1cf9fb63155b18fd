package engine

import (
	"context"
	"encoding/json"
	"os"
	"slices"

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
func (e *Engine) Scratch() (string, error) { return e.scratch.Path() }

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
	e.tidy(job.ExecutionID)
}

// setup is what an agent, at work under an id, needs to know. Its files are private to
// it; clean removes what was only for the run.
func (e *Engine) setup(def agents.Agent, m models.Model, id string, readOnly bool) (s agent.Setup, err error) {
	set := e.cfg.Settings
	s = agent.Setup{Policy: policy(set), Writable: set.Writable, WebAllow: set.WebAllow, AstGrep: e.astGrep()}
	if def.Allows("web_search") {
		s.Search = e.cfg.Search
	}
	if m.CallsTools() && !readOnly && def.Changes() {
		if s.TempDir, err = e.scratch.MakeTemp(id); err != nil {
			return s, err
		}
	}
	if m.CallsTools() && def.Allows("run_pty_cmd") {
		s.ShellLog, err = e.outputs.ShellLog(id)
	}
	return s, err
}

// tidy removes what was only for the agent under an id.
func (e *Engine) tidy(id string) {
	e.scratch.RemoveTemp(id)
	e.outputs.RemoveEmpty(id)
}
