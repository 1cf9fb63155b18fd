package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/worker"
	"qq/internal/models"
	"qq/pkg/task"
)

// pulled is a server with one model that was modified at that time. With a zero time the
// server does not tell.
func pulled(t *testing.T, at *time.Time) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/api/show", r.URL.Path, "nothing else is asked")
		said := map[string]any{"capabilities": []string{"completion", "tools"}}
		if !at.IsZero() {
			said["modified_at"] = *at
		}
		assert.NoError(t, json.NewEncoder(w).Encode(said))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// The key changes when the model with the same name is pulled again.
func TestCacheKeyOfAModel(t *testing.T) {
	var at time.Time
	host := pulled(t, &at)
	one := time.Date(2026, 1, 1, 9, 0, 0, 123_456_789, time.FixedZone("", 7200))
	key := func(modified time.Time) string {
		at = modified
		e := newTestWiring(
			t,
			func(c *wiringConfig) { c.Settings.Model, c.Settings.OllamaHost, c.Dir = "m", host, "/d" },
		)
		key := (&past{wiring: e}).CacheKey(t.Context(), task.Task{Text: "x", Agent: task.DefaultAgent})
		require.NotEmpty(t, key)

		// Children are told the same.
		start, err := e.Prepare(t.Context(), task.Job{Task: task.Task{Agent: task.DefaultAgent}})
		require.NoError(t, err)
		var setup worker.Setup
		require.NoError(t, json.Unmarshal(start.Setup, &setup))
		known, ok := e.models.Known("m")
		require.True(t, ok)
		assert.Equal(t, known, setup.Seats[0].Model)
		assert.True(t, modified.Equal(setup.Seats[0].Model.Modified))
		assert.Equal(t, key, (&past{wiring: e}).CacheKey(t.Context(), task.Task{Text: "x", Agent: task.DefaultAgent}))
		return key
	}
	assert.Equal(t, key(one), key(one.UTC()), "the same moment")
	assert.NotEqual(t, key(one), key(one.Add(1)))
	assert.NotEqual(t, key(one), key(time.Time{}))
}

// The key changes with the version of the program for the built-in model, but not for a
// model of a server.
func TestCacheKeyOfAVersion(t *testing.T) {
	at := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	host := pulled(t, &at)
	for model, differs := range map[string]bool{models.Extract: true, "m": false} {
		keys := map[string]bool{}
		for i := range 2 {
			e := newTestWiring(t, func(c *wiringConfig) {
				c.Settings.Model, c.Settings.OllamaHost, c.Dir, c.Version = model, host, "/d", fmt.Sprint(i)
			})
			key := (&past{wiring: e}).CacheKey(t.Context(), task.Task{Text: "x", Agent: task.DefaultAgent})
			require.NotEmpty(t, key)
			keys[key] = true
		}
		assert.Equal(t, differs, len(keys) == 2, model)
	}
}
