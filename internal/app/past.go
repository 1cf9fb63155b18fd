package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"qq/internal/agent"
	"qq/internal/models"
	"qq/internal/record"
	"qq/internal/tools/files"
	"qq/pkg/supervisor"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// past answers what the record asks about tasks.
type past struct {
	*wiring
	mu     sync.Mutex
	folder string // where tools works
	root   *os.Root
	tools  tool.Set
}

var (
	_ record.Tasks        = (*past)(nil)
	_ supervisor.Recorder = (*record.Record)(nil)
)

// ModelOf implements [record.Tasks].
func (p *past) ModelOf(t task.Task) string { return p.modelOf(t) }

// CacheKey implements [record.Tasks].
func (p *past) CacheKey(ctx context.Context, t task.Task) string { return p.cacheKey(ctx, t) }

// Read implements [record.Reader]. The call is made as the agent made it, so whatever it
// saw is compared: a file, a part of one, a list of names.
func (p *past) Read(ctx context.Context, dir string, r task.Read) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.root == nil || p.folder != dir {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", err
		}
		if p.root != nil {
			_ = p.root.Close() // it was only read
		}
		p.root, p.folder, p.tools = root, dir, files.Open(root).Reading()
	}
	call, ok := p.tools.Lookup(r.Tool)
	if !ok {
		return "", fmt.Errorf("%s: no such tool", r.Tool)
	}
	return agent.Digest(call.Run(ctx, r.Arguments)), nil
}

// modelOf names the model that t is done with, when that has been found out.
func (w *wiring) modelOf(t task.Task) string {
	if m, ok := w.models.Known(w.modelName(t)); ok {
		return m.String()
	}
	return ""
}

// cacheKey is what an answer to t depends on besides what is read for it: who
// answers, with which model, where, and what may not be used. It is empty for an
// agent that can change something.
func (w *wiring) cacheKey(ctx context.Context, t task.Task) string {
	def, m, err := w.Staff(ctx, t)
	if err != nil || def.Changes() && !t.ReadOnly && !w.cfg.ReadOnly {
		return ""
	}
	version := "" // of the model: the built-in one is the program itself
	if m.Kind == models.Extract {
		version = w.cfg.Version
	}
	set := w.cfg.Settings
	what, err := json.Marshal(struct {
		Agent    any
		Model    models.Model
		ReadOnly bool
		Output   int
		Deny     []string
		WebAllow []string
		Version  string
	}{def, m, w.cfg.ReadOnly, set.MaxOutput, set.Deny, set.WebAllow, version})
	if err != nil {
		return ""
	}
	return record.Key(t, string(what), filepath.Join(w.cfg.Dir, t.WorkingDir), fmt.Sprint(set.MaxDepth))
}

// recorder is the record, or no interface at all.
func (w *wiring) recorder() supervisor.Recorder {
	if w.cfg.Ledger == nil {
		return nil
	}
	return w.record
}
