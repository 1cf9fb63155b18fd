package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

func TestFilter(t *testing.T) {
	got, err := choice{}.filter(now)
	require.NoError(t, err)
	assert.Equal(t, ledger.Filter{}, got, "nothing excludes nothing")

	got, err = choice{Status: " failed,Timeout,turn-limit,failed", Agent: " coder ", Batch: "ba01", Since: "2h", Before: "90m", Live: true, Limit: 7}.filter(now)
	require.NoError(t, err)
	assert.Equal(t, ledger.Filter{Status: []task.Status{task.Failed, task.Timeout, task.TurnLimit}, Agent: "coder", Batch: "ba01",
		Since: now.Add(-2 * time.Hour), Until: now.Add(-90 * time.Minute), Live: true, Limit: 7}, got)
}

func TestSince(t *testing.T) {
	here := now.Location()
	for s, want := range map[string]time.Time{
		"90s": now.Add(-90 * time.Second), "1d12h": now.Add(-36 * time.Hour), "1.5h": now.Add(-90 * time.Minute), "3d": now.Add(-72 * time.Hour),
		"1w": now.Add(-168 * time.Hour), "0s": now,
		"2026-11-20":                time.Date(2026, 11, 20, 0, 0, 0, 0, here),
		" 2026-11-20 15:04 ":        time.Date(2026, 11, 20, 15, 4, 0, 0, here),
		"2026-11-20T15:04":          time.Date(2026, 11, 20, 15, 4, 0, 0, here),
		"2026-11-20 15:04:05":       time.Date(2026, 11, 20, 15, 4, 5, 0, here),
		"2026-11-20T15:04:05Z":      time.Date(2026, 11, 20, 15, 4, 5, 0, time.UTC),
		"2026-11-20T15:04:05+05:30": time.Date(2026, 11, 20, 9, 34, 5, 0, time.UTC),
	} {
		got, err := choice{Since: s}.filter(now)
		require.NoError(t, err, s)
		assert.True(t, want.Equal(got.Since), "%s: %v", s, got.Since)
	}
}

func TestFlagErrors(t *testing.T) {
	const times = "\nhint: accepted is a time ago, like 90m, 2h, 3d or 1w, or a day or a moment, like 2026-11-20 or \"2026-11-20 15:04\""
	for want, f := range map[string]choice{
		"--limit is -1\nhint: accepted is a whole number from 0 on; 0 is all": {Limit: -1},
		"--since is \"yesterday\"" + times:                                    {Since: "yesterday"},
		"--since is \"3\"" + times:                                            {Since: "3"},
		"--since is \"-3d\"" + times:                                          {Since: "-3d"},
		"--since is \"3x\"" + times:                                           {Since: "3x"},
		"--since is \"1.2.3h\"" + times:                                       {Since: "1.2.3h"},
		"--since is \"999999999999999d\"" + times:                             {Since: "999999999999999d"},
		"--since is \"99y\"" + times:                                          {Since: "99y"},
		"--since is \"2026-13-01\"" + times:                                   {Since: "2026-13-01"},
		"--before is \"h\"" + times:                                           {Before: "h"},
		"--since is \"2026-11-22\", which is still to come\nhint: it is 2026-11-21 15:00 now":                         {Since: "2026-11-22"},
		"nothing is both since 1h and before 2h\nhint: --since is the earlier time":                                   {Since: "1h", Before: "2h"},
		"--status has no \"fail\"\nhint: accepted is, with commas between them: queued, starting, running, waiting, ": {Status: "failed,fail"},
		"--status has no \"\"\nhint: accepted is":                                                                     {Status: "failed,"},
	} {
		_, err := f.filter(now)
		require.Error(t, err, want)
		assert.True(t, strings.HasPrefix(err.Error(), want), err)
		assert.Equal(t, 1, strings.Count(err.Error(), "\n"))
	}
}

// TestStatuses: whatever can stand in the ledger can be asked for.
func TestStatuses(t *testing.T) {
	final := 0
	for _, s := range statuses() {
		got, err := parseStatus(string(s))
		require.NoError(t, err)
		assert.Equal(t, []task.Status{s}, got)
		if s.Final() {
			final++
		}
	}
	assert.Equal(t, 16, final, "as many as Final knows")
}

func FuzzSince(f *testing.F) {
	for _, s := range []string{"2h", "1d12h", "2026-11-20", "1e9w", ".d", "9999999h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := choice{Since: s}.filter(now)
		if err == nil && got.Since.After(now) {
			t.Fatalf("%q is %v", s, got.Since)
		}
	})
}
