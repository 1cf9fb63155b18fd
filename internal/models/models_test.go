package models

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// TestAutoWaits: a server that fails for the moment is no reason to do without it.
func TestAutoWaits(t *testing.T) {
	for name, fault := range map[string]standin.Fault{
		"busy":         {Status: 503, Times: 1},
		"broke off":    {Status: 200, Body: "{", Times: 1, Header: map[string][]string{"Content-Length": {"9"}}},
		"asked to":     {Status: 429, Times: 1, Header: map[string][]string{"Retry-After": {"1"}}},
		"nothing ever": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := standin.Start(t, standin.Faulty("/api/tags", fault))
			var notes []string
			m := &Resolver{Servers: ollamaAt(server.URL), Run: Auto, Retries: 1, Notes: noted(func(f string, _ ...any) {
				notes = append(notes, f)
			})}
			found, err := m.Resolve(t.Context(), "")
			require.NoError(t, err)
			assert.Equal(t, "ollama:"+standin.DefaultModel, found.String())
			assert.Empty(t, notes)
		})
	}
}

// TestAutoDoesWithout: only where no Ollama is, or none that has a model.
func TestAutoDoesWithout(t *testing.T) {
	const tags = "/api/tags"
	for name, tt := range map[string]struct {
		option standin.Option
		kind   llm.Kind // empty is the built-in model
	}{
		"always busy": {standin.Faulty(tags, standin.Fault{Status: 503}), llm.Busy},
		"breaks off": {standin.Faulty(tags, standin.Fault{Status: 200, Body: "{",
			Header: map[string][]string{"Content-Length": {"9"}}}), llm.BrokenStream},
		"fails":        {standin.Faulty(tags, standin.Fault{Status: 500}), llm.Server},
		"no Ollama":    {standin.Faulty(tags, standin.Fault{Status: 404}), ""},
		"hangs up":     {standin.Faulty(tags, standin.Fault{Break: standin.Reset}), ""},
		"has no model": {standin.Models(standin.Model{Name: "far", RemoteHost: "ollama.com"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := standin.Start(t, tt.option)
			notes := 0
			note := noted(func(string, ...any) { notes++ })
			m := &Resolver{Servers: ollamaAt(server.URL), Run: Auto, Notes: note, Warnings: note}
			found, err := m.Resolve(t.Context(), "")
			if tt.kind == "" {
				require.NoError(t, err)
				assert.Equal(t, Extract, found.Kind)
				assert.Equal(t, 1, notes, "it is said")
				require.Len(t, m.Replaced(), 1)

				strict := &Resolver{Servers: ollamaAt(server.URL), Run: Auto, Strict: true}
				_, err = strict.Resolve(t.Context(), "")
				assert.Equal(t, task.Unavailable, task.StatusOf(err), "nothing replaces it")
				assert.Contains(t, err.Error(), "; or choose the built-in model with --model extract; "+
					"qq setup looks for other servers")
				assert.Empty(t, strict.Replaced())
				return
			}
			assert.Empty(t, m.Replaced())
			var fault *llm.Error
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, tt.kind, fault.Kind)
			assert.Zero(t, notes)
			_, known := m.Known("")
			assert.False(t, known, "the next one asks again")
		})
	}
}

// TestResolve: the server is asked once for each name, by however many.
func TestResolve(t *testing.T) {
	server := standin.Start(t, standin.Models(standin.Model{Name: "stand-in"},
		standin.Model{Name: "plain", Capabilities: []string{"completion"}}))
	var notes []string
	m := &Resolver{Servers: ollamaAt(server.URL), Run: "ollama:stand-in", Notes: noted(func(f string, args ...any) {
		notes = append(notes, fmt.Sprintf(f, args...))
	})}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			found, err := m.Resolve(t.Context(), "")
			assert.NoError(t, err)
			assert.Equal(t, "ollama:stand-in", found.String())
		})
	}
	wg.Wait()
	assert.Equal(t, 1, server.Count("/api/show"))
	assert.Empty(t, notes)

	found, err := m.Resolve(t.Context(), "plain")
	require.NoError(t, err)
	assert.False(t, found.CallsTools())
	assert.Equal(t, []string{"model plain cannot call tools: agents work without them"}, notes)

	_, err = m.Resolve(t.Context(), "ollama:none")
	var wrong *llm.Error
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, llm.UnknownModel, wrong.Kind)
	assert.Contains(t, wrong.Hint, "; the server has: ")
	assert.Contains(t, wrong.Hint, "stand-in")
}

// TestResolveWithoutServer: only auto does without.
func TestResolveWithoutServer(t *testing.T) {
	notes := 0
	m := &Resolver{Servers: ollamaAt("127.0.0.1:1"), Run: Auto, Warnings: noted(func(string, ...any) { notes++ })}
	found, err := m.Resolve(t.Context(), "")
	require.NoError(t, err)
	assert.Contains(t, found.Instead, "ollama serve")
	found.Instead = ""
	assert.Equal(t, Model{Kind: Extract}, found)
	assert.Equal(t, 1, notes)
	_, err = m.Resolve(t.Context(), "stand-in")
	assert.Error(t, err)

	m = &Resolver{Servers: ollamaAt("ftp://host"), Run: "stand-in"}
	_, err = m.Resolve(t.Context(), "")
	var wrong *llm.Error
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, task.Misused, wrong.TaskStatus(), "a mistake of a person")
	assert.Contains(t, err.Error(), "\nhint: qq config shows where OLLAMA_HOST comes from")
}

// noted is a function as gate.Notes.
type noted func(format string, args ...any)

func (n noted) Note(format string, args ...any) { n(format, args...) }
