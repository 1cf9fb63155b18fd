package filter

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

var now = time.Date(2026, 11, 21, 15, 0, 0, 0, time.FixedZone("", 3600))

// words are flags as they were typed.
type words map[string]string

func (w words) String(name string) string { return w[name] }

func (w words) Bool(name string) bool { return w[name] == "true" }

func (w words) Int(name string) int { n, _ := strconv.Atoi(w[name]); return n }

func TestFilter(t *testing.T) {
	got, err := Read(words{}, now)
	require.NoError(t, err)
	assert.Equal(t, ledger.Filter{}, got, "nothing excludes nothing")

	got, err = Read(words{
		"status": " failed,Timeout,turn-limit,failed", "agent": " coder ", "batch": "ba01", "since": "2h",
		"before": "90m",
		"live":   "true", "limit": "7",
	}, now)
	require.NoError(t, err)
	assert.Equal(t, ledger.Filter{Status: []task.Status{task.Failed, task.Timeout, task.TurnLimit}, Agent: "coder",
		Batch: "ba01",
		Since: now.Add(-2 * time.Hour), Until: now.Add(-90 * time.Minute), Live: true, Limit: 7}, got)
}

func TestSince(t *testing.T) {
	here := now.Location()
	for s, want := range map[string]time.Time{
		"90s": now.Add(-90 * time.Second), "1d12h": now.Add(-36 * time.Hour), "1.5h": now.Add(-90 * time.Minute),
		"3d": now.Add(-72 * time.Hour),
		"1w": now.Add(-168 * time.Hour), "0s": now,
		"2026-11-20":                time.Date(2026, 11, 20, 0, 0, 0, 0, here),
		" 2026-11-20 15:04 ":        time.Date(2026, 11, 20, 15, 4, 0, 0, here),
		"2026-11-20T15:04":          time.Date(2026, 11, 20, 15, 4, 0, 0, here),
		"2026-11-20 15:04:05":       time.Date(2026, 11, 20, 15, 4, 5, 0, here),
		"2026-11-20T15:04:05Z":      time.Date(2026, 11, 20, 15, 4, 5, 0, time.UTC),
		"2026-11-20T15:04:05+05:30": time.Date(2026, 11, 20, 9, 34, 5, 0, time.UTC),
	} {
		got, err := Read(words{"since": s}, now)
		require.NoError(t, err, s)
		assert.True(t, want.Equal(got.Since), "%s: %v", s, got.Since)
	}
}

func TestFlagErrors(t *testing.T) {
	const times = "\nhint: accepted is a time ago, like 90m, 2h, 3d or 1w, or a day or a moment, like 2026-11-20 " +
		"or \"2026-11-20 15:04\""
	const (
		toCome = "--since is \"2026-11-22\", which is still to come\nhint: it is 2026-11-21 15:00 now"
		noFail = "--status has no \"fail\"\nhint: accepted is, with commas between them: " +
			"queued, starting, running, waiting, "
	)
	for want, f := range map[string]words{
		"--limit is -1\nhint: accepted is a whole number from 0 on; 0 is all": {"limit": "-1"},
		"--since is \"yesterday\"" + times:                                    {"since": "yesterday"},
		"--since is \"3\"" + times:                                            {"since": "3"},
		"--since is \"-3d\"" + times:                                          {"since": "-3d"},
		"--since is \"3x\"" + times:                                           {"since": "3x"},
		"--since is \"1.2.3h\"" + times:                                       {"since": "1.2.3h"},
		"--since is \"999999999999999d\"" + times:                             {"since": "999999999999999d"},
		"--since is \"99y\"" + times:                                          {"since": "99y"},
		"--since is \"2026-13-01\"" + times:                                   {"since": "2026-13-01"},
		"--before is \"h\"" + times:                                           {"before": "h"},

		toCome: {"since": "2026-11-22"},
		"nothing is both since 1h and before 2h\nhint: --since is the earlier time": {"since": "1h", "before": "2h"},
		noFail: {"status": "failed,fail"},
		"--status has no \"\"\nhint: accepted is": {"status": "failed,"},
	} {
		_, err := Read(f, now)
		require.Error(t, err, want)
		assert.True(t, strings.HasPrefix(err.Error(), want), err)
		assert.Equal(t, 1, strings.Count(err.Error(), "\n"))
	}
}

func FuzzSince(f *testing.F) {
	for _, s := range []string{"2h", "1d12h", "2026-11-20", "1e9w", ".d", "9999999h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Read(words{"since": s}, now)
		if err == nil && got.Since.After(now) {
			t.Fatalf("%q is %v", s, got.Since)
		}
	})
}
