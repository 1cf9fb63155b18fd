package app

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"qq/internal/agent"
	"qq/internal/app/bounds"
	"qq/internal/app/staffing"
	"qq/internal/app/worker"
	"qq/internal/models"
	"qq/internal/record/ledger"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/task"
)

var (
	_ childproc.Program = (*wiring)(nil)
	_ ceiling.Models    = (*wiring)(nil)
)

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
	seats, err := w.Seats(ctx, def, m, job.Task)
	if err != nil {
		return childproc.Start{}, err
	}
	w.Live().Use(job.ExecutionID, m.String())
	s, err := w.setup(def, m, job, job.ExecutionID)
	if err != nil {
		return childproc.Start{}, err
	}
	place, err := w.place(def, &s, w.programEnv(job), job.ExecutionID)
	if err != nil {
		return childproc.Start{}, err
	}
	remote := w.children.Has(job.ExecutionID)
	if remote { // most children can run no commands
		b := w.box(agent.Agent{Definition: def, Setup: s}, w.dirOf(job), job.ExecutionID)
		remote = w.children.Serve(job.ExecutionID, b)
	}
	setup, err := json.Marshal(worker.Setup{
		Seats: seats, Agent: s, Events: w.stream.Watched(), OneProcessor: w.oneProcessor,
		Traceparent: w.cfg.Trace.Traceparent(job.ExecutionID),
		Checkout:    w.cfg.Dir, Trusted: w.cfg.Trusted, Transcripts: w.transcripts(), Attempt: job.Attempt,
		Remote: remote, Program: place,
	})
	return childproc.Start{Agent: def, Models: staffing.Names(seats), Setup: setup}, err
}

// transcripts returns the folder for the transcripts of children, or "" if they keep none. What is
// not in the ledger has no transcript: nobody would find or remove it.
func (w *wiring) transcripts() string {
	if w.cfg.Ledger == nil {
		return ""
	}
	return filepath.Join(ledger.Transcripts(w.cfg.Settings.Home), w.cfg.ID)
}

// dirOf returns the working directory of job.
func (w *wiring) dirOf(job task.Job) string {
	if filepath.IsAbs(job.WorkingDir) {
		return cmp.Or(job.Dir, job.WorkingDir)
	}
	return cmp.Or(job.Dir, filepath.Join(w.cfg.Dir, job.WorkingDir))
}

// Tidy implements childproc.Program: it ends the commands of the child and removes its temporary files.
func (w *wiring) Tidy(job task.Job) {
	w.strict.End(job.ExecutionID)
	for _, note := range w.children.Close(job.ExecutionID) {
		w.cfg.Person.Note("%s: %s", job.Agent, note)
	}
	w.tidy(job.ExecutionID)
}

// setup returns the setup of the agent def for job. The temporary folder and the log of
// commands belong to id: tidy removes them.
func (w *wiring) setup(def agents.Agent, m models.Model, job task.Job, id string) (s agent.Setup, err error) {
	s = w.plannedSetup(def, job)
	if !s.ReadOnly && (m.CallsTools() && def.Changes() || s.Checked) {
		if s.TempDir, err = w.scratch.MakeTemp(id); err != nil {
			return s, err
		}
		if !w.apart.Copied(job.ExecutionID) {
			s.Journal = w.cfg.Undo.Journal(w.dirOf(job))
		}
	}
	if m.CallsTools() && def.Allows("run_pty_cmd") || s.Checked {
		s.ShellLog, err = w.outputs().ShellLog(id)
	}
	return s, err
}

// plannedSetup returns the setup of the agent def for job, without files that must be made.
func (w *wiring) plannedSetup(def agents.Agent, job task.Job) agent.Setup {
	set := w.cfg.Settings
	s := agent.Setup{
		Policy: w.cfg.Policy, ReadOnly: w.cfg.ReadOnly || job.ReadOnly || def.Gathers(),
		CanDelegate: job.Depth+1 < set.MaxDepth, Retries: set.Retries, KeepReads: w.record.Caches(),
		Repairs: w.cfg.Repairs, Checked: job.HasGivenCheck(),
		Writable: bounds.Writable(set), WebAllow: set.WebAllow, AstGrep: w.astGrep(), Private: w.private(),
	}
	w.apart.Change(&s, job.ExecutionID)
	if w.cfg.Strict {
		s.Bounds = w.strict.Start(job, w.apart.Live(job.ExecutionID, w.dirOf(job)))
		s.Joined = w.apart.Bind(job.ExecutionID, s.Bounds)
	}
	s.Guide = w.guides.Text(w.dirOf(job), s.ReadOnly)
	if def.Allows("web_search") {
		s.Search = w.cfg.Search
	}
	if s.CanDelegate && def.Allows("delegate_task") {
		w.enrol(&s, ceiling.Ceiling{Agent: def, Task: job.Task, ReadOnly: w.cfg.ReadOnly})
	}
	return s
}

// enrol adds the agents that an agent with the ceiling c may ask to its roster.
func (w *wiring) enrol(s *agent.Setup, c ceiling.Ceiling) {
	for _, a := range w.Glance() {
		if c.MayOnlyRead() { // what an agent may change is not seen at a glance
			var err error
			if a, err = w.cfg.Agents.Lookup(a.Name); err != nil {
				continue
			}
		}
		if c.MayAsk(a) {
			s.Roster.Add(a)
		}
	}
}

// private returns the folders of qq itself.
func (w *wiring) private() []string {
	private := []string{w.cfg.Settings.Home}
	if home := w.cfg.Environ.ConfigHome(); home != "" {
		private = append(private, filepath.Join(home, "qq"))
	}
	return private
}

// tidy removes the temporary folder of the agent that ran under an execution id, and
// its log of commands if that is empty.
func (w *wiring) tidy(id string) {
	w.scratch.RemoveTemp(id)
	w.outputs().RemoveEmpty(id)
}
