package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"qq/internal/models"
	"qq/internal/record/ledger"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// modelOf names the model that t is done with, when that has been found out.
func (e *Engine) modelOf(t task.Task) string {
	if m, ok := e.models.Known(e.modelName(t)); ok {
		return m.String()
	}
	return ""
}

// cacheKey is what an answer to t depends on besides what is read for it: who
// answers, with which model, where, and what may not be used. It is empty for an
// agent that can change something.
func (e *Engine) cacheKey(ctx context.Context, t task.Task) string {
	agent, m, err := e.Staff(ctx, t)
	if err != nil || agent.Changes() && !t.ReadOnly && !e.cfg.ReadOnly {
		return ""
	}
	version := "" // of the model: the built-in one is the program itself
	if m.Kind == models.Extract {
		version = e.cfg.Version
	}
	set := e.cfg.Settings
	what, err := json.Marshal(struct {
		Agent    any
		Model    models.Model
		ReadOnly bool
		Output   int
		Deny     []string
		WebAllow []string
		Version  string
	}{agent, m, e.cfg.ReadOnly, set.MaxOutput, set.Deny, set.WebAllow, version})
	if err != nil {
		return ""
	}
	return ledger.Key(t, string(what), filepath.Join(e.cfg.Dir, t.WorkingDir), fmt.Sprint(set.MaxDepth))
}

// recorder is the record, or no interface at all.
func (e *Engine) recorder() supervisor.Recorder {
	if e.cfg.Ledger == nil {
		return nil
	}
	return e.record
}
