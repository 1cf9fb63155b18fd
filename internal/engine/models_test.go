package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/qqtest"
	"qq/pkg/llm"
)

// TestAutoWaits: a server that fails for the moment is no reason to do without it.
func TestAutoWaits(t *testing.T) {
	for name, fault := range map[string]qqtest.Fault{
		"busy":         {Status: 503, Times: 1},
		"broke off":    {Status: 200, Body: "{", Times: 1, Header: map[string][]string{"Content-Length": {"9"}}},
		"asked to":     {Status: 429, Times: 1, Header: map[string][]string{"Retry-After": {"1"}}},
		"nothing ever": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := qqtest.Start(t, qqtest.Faulty("/api/tags", fault))
			var notes []string
			m := &resolver{host: server.URL, run: Auto, retries: 1, note: func(f string, _ ...any) { notes = append(notes, f) }}
			found, err := m.resolve(t.Context(), "")
			require.NoError(t, err)
			assert.Equal(t, "ollama:"+qqtest.DefaultModel, found.String())
			assert.Empty(t, notes)
		})
	}
}

// TestAutoDoesWithout: only where no Ollama is, or none that has a model.
func TestAutoDoesWithout(t *testing.T) {
	const tags = "/api/tags"
	for name, tt := range map[string]struct {
		option qqtest.Option
		kind   llm.Kind // empty is the built-in model
	}{
		"always busy":  {qqtest.Faulty(tags, qqtest.Fault{Status: 503}), llm.Busy},
		"breaks off":   {qqtest.Faulty(tags, qqtest.Fault{Status: 200, Body: "{", Header: map[string][]string{"Content-Length": {"9"}}}), llm.BrokenStream},
		"fails":        {qqtest.Faulty(tags, qqtest.Fault{Status: 500}), llm.Server},
		"no Ollama":    {qqtest.Faulty(tags, qqtest.Fault{Status: 404}), ""},
		"hangs up":     {qqtest.Faulty(tags, qqtest.Fault{Break: qqtest.Reset}), ""},
		"has no model": {qqtest.Models(qqtest.Model{Name: "far", RemoteHost: "ollama.com"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := qqtest.Start(t, tt.option)
			notes := 0
			m := &resolver{host: server.URL, run: Auto, note: func(string, ...any) { notes++ }}
			found, err := m.resolve(t.Context(), "")
			if tt.kind == "" {
				require.NoError(t, err)
				assert.Equal(t, Extract, found.Kind)
				assert.Equal(t, 1, notes, "it is said")
				return
			}
			var fault *llm.Error
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, tt.kind, fault.Kind)
			assert.Zero(t, notes)
			_, known := m.known("")
			assert.False(t, known, "the next one asks again")
		})
	}
}
