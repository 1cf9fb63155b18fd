package app

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"qq/internal/app/apart"
	"qq/internal/app/reread"
	"qq/internal/models"
	"qq/internal/record"
	"qq/pkg/task"
)

// past answers questions of the record about tasks, which tell whether an earlier answer
// still holds.
type past struct {
	*wiring
	reread.Reader
}

var _ record.Tasks = (*past)(nil)

// ModelOf implements [record.Tasks]. It returns "" until the model of t is resolved.
func (p *past) ModelOf(t task.Task) string {
	if _, m, found := p.Named(t); found {
		return m.String()
	}
	return ""
}

// Left implements [record.Tasks].
func (p *past) Left(executionID string, t task.Task) []string {
	return apart.Left(p.cfg.Settings.Home, string(p.outputs()), p.cfg.Dir, t.WorkingDir, executionID)
}

// CacheKey implements [record.Tasks]. The key holds what an answer to t depends on
// besides the files that the agent reads: the agent, its model, the working directory
// and what is denied. It is empty for an agent that can change something.
func (p *past) CacheKey(ctx context.Context, t task.Task) string {
	def, m, err := p.Staff(ctx, t)
	if err != nil || def.Changes() && !t.ReadOnly && !p.cfg.ReadOnly {
		return ""
	}
	m.Vision, m.MaySee = false, false // what was seen is in the calls that read it
	version := ""                     // of the model: the built-in one is the program itself
	if m.Kind == models.Extract {
		version = p.cfg.Version
	}
	set := p.cfg.Settings
	guide := p.guides.Text(filepath.Join(p.cfg.Dir, t.WorkingDir), true) // what changes something is not cached
	what, err := json.Marshal(struct {
		Agent    any
		Model    models.Model
		ReadOnly bool
		Output   int
		Deny     []string
		WebAllow []string
		Version  string
		Guide    string `json:",omitempty"`
	}{def, m, p.cfg.ReadOnly, set.MaxOutput, set.Deny, set.WebAllow, version, guide})
	if err != nil {
		return ""
	}
	return record.Key(t, string(what), filepath.Join(p.cfg.Dir, t.WorkingDir), fmt.Sprint(set.MaxDepth))
}
