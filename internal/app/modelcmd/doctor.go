package modelcmd

import (
	"context"
	"errors"
	"fmt"

	"qq/internal/app/admin"
	"qq/internal/app/command"
	"qq/internal/app/permissions"
	"qq/internal/config"
	"qq/internal/models"
	"qq/internal/models/servers"
	"qq/pkg/llm"
)

// Examiner checks the model server and the model for qq doctor.
type Examiner struct{ *command.Invocation }

var _ admin.Models = Examiner{}

// Rules implements admin.Models.
func (Examiner) Rules(cfg config.Config) error { return permissions.Check(cfg) }

// silent drops notes: the findings say what they would.
type silent struct{}

// Note implements gate.Notes.
func (silent) Note(string, ...any) {}

// Examine implements admin.Models.
func (e Examiner) Examine(ctx context.Context, cfg config.Config) []admin.Finding {
	at := reachOf(e.Invocation, cfg)
	defer at.close()
	at.Notes, at.Warnings = silent{}, silent{}
	switch name := at.Whole(cfg.Model); name {
	case models.Extract:
		return []admin.Finding{{What: "model", State: "ok", Text: "extract, the built-in extractive model"}}
	case models.Auto:
		return at.examineAuto(ctx)
	default:
		found, _ := at.examine(ctx, name)
		return found
	}
}

// examineAuto says which model auto is. That it is extract is no mistake, only good to know.
func (r *reach) examineAuto(ctx context.Context) []admin.Finding {
	found, ok := r.examine(ctx, models.Auto)
	if ok {
		return found
	}
	last := &found[len(found)-1] // says why not
	m, err := r.Resolve(ctx, models.Auto)
	last.State = "note"
	switch {
	case err != nil: // the server may soon answer
		last.State = "bad"
	case m.Kind != models.Extract:
		last.Text += ": auto uses " + m.String()
		more, _ := r.examine(ctx, m.String())
		return append(found, more...)
	case last.What == "model server":
		last.Text += ": a single prompt uses extract, the built-in extractive model"
		last.Fix += "; qq setup looks for other servers"
	}
	return found
}

// examine says what is known about a model and its server. ok is false if the model cannot be used: the last finding
// says why.
func (r *reach) examine(ctx context.Context, name string) (found []admin.Finding, ok bool) {
	add := func(what, state, text, fix string) {
		found = append(found, admin.Finding{What: what, State: state, Text: text, Fix: fix})
	}
	client, own, err := r.Open(ctx, name)
	if err != nil {
		return []admin.Finding{admin.Bad("model server", err)}, false
	}
	defer client.Close()
	s := client.Server()
	if s.Kind == servers.Ollama {
		v, err := client.Version(ctx)
		if err != nil {
			return []admin.Finding{admin.Bad("model server", err)}, false
		}
		title := "Ollama"
		if s.Name != servers.Ollama {
			title = s.Name + ", Ollama"
		}
		add("model server", "ok", fmt.Sprintf("%s %s at %s", title, v, client.Host()), "")
	}
	o, err := r.offerOf(ctx, client, own)
	if e, is := errors.AsType[*llm.Error](err); s.Kind != servers.Ollama {
		if err != nil && (!is || e.Kind != llm.UnknownModel) {
			return append(r.keyFinding(s), admin.Bad("model server", err)), false
		}
		add("model server", "ok", fmt.Sprintf("%s at %s, speaks %s", s.Name, client.Host(), s.Kind), "")
	}
	found = append(found, r.keyFinding(s)...)
	if err != nil {
		return append(found, admin.Bad("model", err)), false
	}
	text := o.Name
	if s.Name != servers.Ollama {
		text = o.String()
	}
	add("model", "ok", text, "")
	return append(found, contextFinding(s, o), toolsFinding(o)), true
}

// offerOf returns the model of that name, or the one that auto chooses.
func (r *reach) offerOf(ctx context.Context, client *models.Client, name string) (models.Offer, error) {
	if name == models.Auto {
		m, err := client.Pick(ctx)
		if err != nil {
			return models.Offer{}, err
		}
		name = m.Name
	}
	return client.Look(ctx, name)
}

// keyFinding says where the key of a server comes from, and never what it is. A server that needs none has no finding.
func (r *reach) keyFinding(s servers.Server) []admin.Finding {
	f := admin.Finding{What: "key", State: "ok"}
	switch {
	case s.KeyCommand != "":
		f.Text = "printed by the key_cmd of " + s.Setting()
	case s.KeyName != "":
		f.Text = s.KeyName + ", from " + r.settings.SecretSource(s.KeyName)
	default:
		return nil
	}
	return []admin.Finding{f}
}

// contextFinding says how large the context of a model is.
func contextFinding(s servers.Server, o models.Offer) admin.Finding {
	f := admin.Finding{What: "context", State: "ok", Text: fmt.Sprintf("%d tokens", o.Context)}
	switch {
	case o.Context == 0:
		f.State, f.Text = "note", "not known: if the server cuts a prompt that is too long, qq cannot notice it"
		f.Fix = "add context=TOKENS to " + s.Setting() + ", for example context=32768"
		if !s.Own && s.Kind != servers.Ollama {
			line := s.Kind + " " + s.URL
			if s.KeyName != "" {
				line += " key=" + s.KeyName
			}
			f.Fix = fmt.Sprintf("say its size: %s=%q", s.Setting(), line+" context=32768")
		} else if !s.Own {
			f.Fix = "update Ollama, or use another model"
		}
	case o.Context < 8192:
		f.State, f.Fix = "note", "use a model with at least 8192 tokens: tools and documents need room"
	}
	return f
}

// toolsFinding says whether a model can call tools.
func toolsFinding(o models.Offer) admin.Finding {
	f := admin.Finding{What: "tools", State: "ok", Text: "the model can call tools"}
	switch {
	case !o.Tools:
		f.State, f.Text = "note", "the model cannot call tools: agents work without them"
		if f.Fix = "use a model with tools: qq models list shows them"; o.Kind == servers.Ollama {
			f.Fix = "use a model with tools, for example: ollama pull qwen3"
		}
	case o.ToolCalls == nil:
		f.State, f.Text = "note", "the server does not say whether the model can call tools"
		f.Fix = "try it: qq models test " + o.String()
	}
	return f
}
