package app

import (
	"context"
	"encoding/json"
	"os"

	"qq/internal/agent"
	"qq/internal/models"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/task"
)

var _ childproc.Program = (*wiring)(nil)

// childSetup is the part of a start frame that package childproc passes on without reading
// it.
type childSetup struct {
	Model models.Model `json:"model"`
	Agent agent.Setup  `json:"agent"`
}

// Args implements childproc.Program. The arguments look like a command that a person
// could type; the task itself comes through the control pipe.
func (w *wiring) Args(agent string) []string {
	return []string{os.Args[0], "--agent", agent, "--new-session", "-m", "-"}
}

// Scratch implements batch.Runner. It returns the private folder of this process, which is
// made at the first call and removed by Close.
func (w *wiring) Scratch() (string, error) { return w.scratch.Path() }

// Prepare implements childproc.Program: it makes the start frame of the child for job.
func (w *wiring) Prepare(ctx context.Context, job task.Job) (childproc.Start, error) {
	def, m, err := w.Staff(ctx, job.Task)
	if err != nil {
		return childproc.Start{}, err
	}
	set := w.cfg.Settings
	readOnly := w.cfg.ReadOnly || job.ReadOnly || def.Gathers()
	s, err := w.setup(def, m, job.ExecutionID, readOnly)
	if err != nil {
		return childproc.Start{}, err
	}
	setup, err := json.Marshal(childSetup{m, s})
	if err != nil {
		return childproc.Start{}, err
	}
	return childproc.Start{
		Agent: def, Model: m.String(), ReadOnly: readOnly, Denied: set.Deny, Setup: setup,
		CanDelegate: job.Depth+1 < set.MaxDepth, Events: w.stream.Wanted(), OneProcessor: w.oneProcessor,
		Retries: set.Retries, Reads: w.record.Caches(), Traceparent: w.cfg.Trace.Traceparent(job.ExecutionID),
	}, nil
}

// Tidy implements childproc.Program: it removes the temporary files of the child.
func (w *wiring) Tidy(job task.Job) { w.tidy(job.ExecutionID) }

// setup returns the setup of the agent def for the run with an execution id. The temporary
// folder and the log of commands belong to that id: tidy removes them.
func (w *wiring) setup(def agents.Agent, m models.Model, id string, readOnly bool) (s agent.Setup, err error) {
	s = w.treeSetup(def)
	if m.CallsTools() && !readOnly && def.Changes() {
		if s.TempDir, err = w.scratch.MakeTemp(id); err != nil {
			return s, err
		}
	}
	if m.CallsTools() && def.Allows("run_pty_cmd") {
		s.ShellLog, err = w.outputs().ShellLog(id)
	}
	return s, err
}

// treeSetup returns the part of a setup that is the same for all runs of the agent def.
func (w *wiring) treeSetup(def agents.Agent) agent.Setup {
	set := w.cfg.Settings
	s := agent.Setup{Policy: policy(set), Writable: set.Writable, WebAllow: set.WebAllow, AstGrep: w.astGrep()}
	if def.Allows("web_search") {
		s.Search = w.cfg.Search
	}
	return s
}

// tidy removes the temporary folder of the agent that ran under an execution id, and
// its log of commands if that is empty.
func (w *wiring) tidy(id string) {
	w.scratch.RemoveTemp(id)
	w.outputs().RemoveEmpty(id)
}
