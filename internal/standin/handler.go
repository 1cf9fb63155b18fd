package standin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"qq/internal/standin/form"
)

const maxBody = 64 << 20

// scratch holds the buffers of one request, which later requests reuse.
type scratch struct {
	in  bytes.Buffer
	out []byte
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	mem := s.scratch.Get().(*scratch)
	defer s.scratch.Put(mem)
	mem.in.Reset()
	if _, err := mem.in.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		fail(w, form.Ollama{}, http.StatusBadRequest, err.Error())
		return
	}
	body := mem.in.Bytes()
	s.log.request(r, body)
	if f := form.Of(r.Method, r.URL.Path); f != nil {
		s.chat(w, r, f, mem)
		return
	}
	if f := s.strike(r.URL.Path, nil); f != nil {
		switch {
		case !s.wait(r, f.BeforeFirst):
			return
		case f.Status != 0:
			failStatus(w, form.Ollama{}, f)
			return
		case f.Break != "":
			s.breakOff(w, r, f, form.Ollama{}, false)
			return
		}
	}
	switch r.Method + " " + r.URL.Path {
	case "POST /api/show":
		s.show(w, body)
	case "GET /api/tags":
		s.tags(w)
	case "GET /v1/models":
		s.list(w, r.Header.Get("Anthropic-Version") != "")
	case "GET " + form.GeminiModels:
		s.listGemini(w)
	case "GET /props":
		s.props(w)
	case "GET /api/version", "HEAD /api/version":
		reply(w, map[string]string{"version": Version})
	case "GET /", "HEAD /":
		_, _ = w.Write([]byte("Ollama is running"))
	default:
		http.Error(w, "404 page not found", http.StatusNotFound)
	}
}

// model finds a model by its name, with or without ":latest".
func (s *Server) model(name string) *Model {
	if s.byName {
		return namedModel(name)
	}
	for i := range s.models {
		if m := &s.models[i]; strings.TrimSuffix(m.Name, ":latest") == strings.TrimSuffix(name, ":latest") {
			return m
		}
	}
	return nil
}

func (s *Server) show(w http.ResponseWriter, body []byte) {
	var asked struct{ Model string }
	if err := json.Unmarshal(body, &asked); err != nil {
		fail(w, form.Ollama{}, http.StatusBadRequest, err.Error())
		return
	}
	m := s.model(asked.Model)
	if m == nil {
		fail(w, form.Ollama{}, http.StatusNotFound, "model '"+asked.Model+"' not found")
		return
	}
	reply(w, map[string]any{
		"parameters":   "num_ctx 8192",
		"template":     "{{ .Prompt }}",
		"details":      details(),
		"model_info":   map[string]any{"general.architecture": "llama", "llama.context_length": m.Context},
		"capabilities": m.Capabilities,
		"modified_at":  m.Modified,
		"remote_host":  m.RemoteHost,
	})
}

func (s *Server) tags(w http.ResponseWriter) {
	type entry struct {
		Name       string         `json:"name"`
		Model      string         `json:"model"`
		RemoteHost string         `json:"remote_host,omitempty"`
		Modified   time.Time      `json:"modified_at"`
		Size       int64          `json:"size"`
		Digest     string         `json:"digest"`
		Details    map[string]any `json:"details"`
	}
	list := make([]entry, len(s.models))
	for i, m := range s.models {
		list[i] = entry{m.Name, m.Name, m.RemoteHost, m.Modified, 1 << 20, strings.Repeat("0", 64), details()}
	}
	reply(w, map[string]any{"models": list})
}

// list lists the models as vLLM does, or as Anthropic does.
func (s *Server) list(w http.ResponseWriter, anthropic bool) {
	list := make([]map[string]any, len(s.models))
	for i, m := range s.models {
		if anthropic {
			list[i] = map[string]any{"type": "model", "id": m.Name, "created_at": m.Modified,
				"max_input_tokens": m.Context}
		} else {
			list[i] = map[string]any{"object": "model", "id": m.Name, "created": m.Modified.Unix(),
				"owned_by": "vllm", "max_model_len": m.Context}
		}
	}
	reply(w, map[string]any{"object": "list", "data": list, "has_more": false})
}

func (s *Server) listGemini(w http.ResponseWriter) {
	list := make([]map[string]any, len(s.models))
	for i, m := range s.models {
		list[i] = map[string]any{"name": "models/" + m.Name, "inputTokenLimit": m.Context,
			"supportedGenerationMethods": []string{"generateContent"}, "thinking": m.can("thinking")}
	}
	reply(w, map[string]any{"models": list})
}

// props says how large the context is, as llama.cpp does beside chat completions: that of the first model.
func (s *Server) props(w http.ResponseWriter) {
	reply(w, map[string]any{"default_generation_settings": map[string]any{"n_ctx": s.models[0].Context}})
}

func details() map[string]any {
	return map[string]any{
		"format": "gguf", "family": "llama", "families": []string{"llama"}, "parameter_size": "1M",
		"quantization_level": "F32",
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v)
}
