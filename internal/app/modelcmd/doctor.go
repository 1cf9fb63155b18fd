// Package modelcmd has the commands about model servers and models: what doctor finds of them.
package modelcmd

import (
	"context"
	"fmt"

	"qq/internal/app/admin"
	"qq/internal/app/permissions"
	"qq/internal/config"
	"qq/internal/models"
)

// Examiner checks the model server and the model for qq doctor.
type Examiner struct{}

// Rules implements admin.Models.
func (Examiner) Rules(cfg config.Config) error { return permissions.Check(cfg) }

// Examine implements admin.Models.
func (Examiner) Examine(ctx context.Context, cfg config.Config) []admin.Finding {
	if cfg.Model == models.Extract {
		return []admin.Finding{{What: "model", State: "ok", Text: "extract, the built-in extractive model"}}
	}
	client, err := models.New(cfg.OllamaHost)
	if err != nil {
		return []admin.Finding{admin.Bad("model server", err)}
	}
	defer client.Close()
	v, err := client.Version(ctx)
	if err != nil {
		f := admin.Bad("model server", err)
		if cfg.Model == models.Auto {
			f.State, f.Text = "note", f.Text+": a single prompt uses extract, the built-in extractive model"
		}
		return []admin.Finding{f}
	}
	server := fmt.Sprintf("Ollama %s at %s", v, client.Host())
	found := []admin.Finding{{What: "model server", State: "ok", Text: server}}
	m, err := client.Find(ctx, cfg.Model)
	if err != nil {
		f := admin.Bad("model", err)
		if cfg.Model == models.Auto {
			f.State = "note"
		}
		return append(found, f)
	}
	found = append(found, admin.Finding{What: "model", State: "ok", Text: m.Name})
	f := admin.Finding{What: "context", State: "ok", Text: fmt.Sprintf("%d tokens", m.Context)}
	if m.Context > 0 && m.Context < 8192 {
		f.State, f.Fix = "note", "use a model with at least 8192 tokens: tools and documents need room"
	}
	found = append(found, f)
	f = admin.Finding{What: "tools", State: "ok", Text: "the model can call tools"}
	if !m.Tools {
		f.State, f.Text = "note", "the model cannot call tools: agents work without them"
		f.Fix = "use a model with tools, for example: ollama pull qwen3"
	}
	return append(found, f)
}
