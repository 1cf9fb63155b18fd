package app

import (
	"fmt"
	"path/filepath"

	"qq/internal/agent"
	"qq/internal/app/lodging"
	"qq/internal/foreign"
	"qq/pkg/agents"
	"qq/pkg/agents/program"
	"qq/pkg/childproc"
	"qq/pkg/task"
)

// Find implements staffing.Programs.
func (w *wiring) Find(p program.Program) (string, error) { return p.Find(w.cfg.Environ.Get("PATH")) }

// place makes the place for the program that runs the agent def, and notes its folder in s. base is the environment of
// commands of the agent, and id the execution whose temporary folder it is in. It is nil if qq runs the agent.
func (w *wiring) place(def agents.Agent, s *agent.Setup, base []string, id string) (*foreign.Place, error) {
	if def.Runs.IsZero() {
		return nil, nil
	}
	temp, err := w.scratch.MakeTemp(id)
	if err != nil {
		return nil, err
	}
	s.State = filepath.Join(temp, "program")
	at, err := lodging.Make(s.State, def, w.cfg.Environ, base)
	if err != nil {
		return nil, err
	}
	at.MaxCost = w.cfg.Settings.MaxCost
	if price, ok := w.cfg.Settings.Price(foreign.Model(def).String()); ok {
		at.Price = &price
	}
	return &at, nil
}

// programEnv returns the environment of commands of the child for job.
func (w *wiring) programEnv(job task.Job) []string {
	return append(w.cfg.Settings.Keyless(w.cfg.Environ), fmt.Sprintf("%s=%d", childproc.DepthVar, job.Depth),
		fmt.Sprintf("QQ_EXECUTION_ID_%d=%s", job.Depth, job.ExecutionID),
		"TRACEPARENT="+w.cfg.Trace.Traceparent(job.ExecutionID))
}
