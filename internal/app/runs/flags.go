package runs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// DefaultLimit is how many rows a list has unless --limit says otherwise.
const DefaultLimit = 20

// Flags are the flags that choose among runs, as they were typed; what is empty
// excludes none.
type Flags struct {
	Status string // some, with commas
	Agent  string
	Batch  string
	Since  string
	Before string
	Live   bool
	Limit  int // 0 is all
}

// Filter reads the flags; now is what a time ago is counted from. Errors have a
// second line with a hint.
func (f Flags) Filter(now time.Time) (ledger.Filter, error) {
	to := ledger.Filter{Agent: strings.TrimSpace(f.Agent), Batch: strings.TrimSpace(f.Batch), Live: f.Live, Limit: f.Limit}
	if f.Limit < 0 {
		return to, fmt.Errorf("--limit is %d\nhint: accepted is a whole number from 0 on; 0 is all", f.Limit)
	}
	var err error
	if to.Status, err = parseStatus(f.Status); err != nil {
		return to, err
	}
	if to.Since, err = parseTime("--since", f.Since, now); err != nil {
		return to, err
	}
	if to.Until, err = parseTime("--before", f.Before, now); err != nil {
		return to, err
	}
	if !to.Since.IsZero() && !to.Until.IsZero() && !to.Since.Before(to.Until) {
		return to, fmt.Errorf("nothing is both since %s and before %s\nhint: --since is the earlier time", f.Since, f.Before)
	}
	return to, nil
}

func statuses() []task.Status {
	return []task.Status{task.Queued, task.Starting, task.Running, task.Waiting, task.Completed, task.Failed, task.Timeout, task.Idle,
		task.Cancelled, task.Refused, task.Interrupted, task.TurnLimit, task.Empty, task.Broken, task.NoResult, task.Killed,
		task.Unavailable, task.Limit, task.Misused, task.UnknownOutcome}
}

// parseStatus reads names of statuses with commas between them.
func parseStatus(s string) ([]task.Status, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var found []task.Status
	for word := range strings.SplitSeq(s, ",") {
		name := task.Status(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(word)), "-", "_"))
		if !slices.Contains(statuses(), name) {
			all := make([]string, len(statuses()))
			for i, known := range statuses() {
				all[i] = string(known)
			}
			return nil, fmt.Errorf("--status has no %q\nhint: accepted is, with commas between them: %s", word, strings.Join(all, ", "))
		}
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found, nil
}

// parseTime reads a day, a moment, or how long ago that was.
func parseTime(flag, s string, now time.Time) (time.Time, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return time.Time{}, nil
	}
	at, ok := moment(s, now.Location())
	if !ok {
		ago, ok := parseAgo(s)
		if !ok {
			return time.Time{}, fmt.Errorf("%s is %q\nhint: accepted is a time ago, like 90m, 2h, 3d or 1w, or a day or a moment, like 2026-11-20 or \"2026-11-20 15:04\"", flag, s)
		}
		at = now.Add(-ago)
	}
	if at.After(now) {
		return time.Time{}, fmt.Errorf("%s is %q, which is still to come\nhint: it is %s now", flag, s, now.Format(minute))
	}
	return at, nil
}

func moment(s string, here *time.Location) (time.Time, bool) {
	for _, layout := range []string{time.DateOnly, minute, time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, s, here); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// longest is the longest time ago: a century.
const longest = 100 * 366 * 24 * time.Hour

// parseAgo reads numbers with units, like 1d12h.
func parseAgo(s string) (time.Duration, bool) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	total := time.Duration(0)
	for s != "" {
		i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if i < 1 {
			return 0, false
		}
		n, err := strconv.ParseFloat(s[:i], 64)
		unit, known := units[s[i]]
		if err != nil || !known || n*float64(unit) > float64(longest-total) {
			return 0, false
		}
		total += time.Duration(n * float64(unit))
		s = s[i+1:]
	}
	return total, true
}
