// Package values reads the values of flags: times and statuses, which several commands have, sizes, and when a batch
// ends early.
package values

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"qq/internal/app/command"
	"qq/pkg/spelling"
	"qq/pkg/task"
)

const (
	minute   = "2006-01-02 15:04"
	timeHint = "accepted is a time ago, like 90m, 2h, 3d or 1w, or a day or a moment, " +
		"like 2026-11-20 or \"2026-11-20 15:04\""
)

// ParseTime parses the value of a flag that is a time: a date, a date with a time of day,
// or a duration before now such as 2h. An empty value is the zero time.
func ParseTime(flag, s string, now time.Time) (time.Time, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return time.Time{}, nil
	}
	at, ok := moment(s, now.Location())
	if !ok {
		ago, ok := parseAgo(s)
		if !ok {
			return time.Time{}, command.Usagef(timeHint, "%s is %q", flag, s)
		}
		at = now.Add(-ago)
	}
	if at.After(now) {
		return time.Time{}, command.Usagef("it is "+now.Format(minute)+" now",
			"%s is %q, which is still to come", flag, s)
	}
	return at, nil
}

func moment(s string, here *time.Location) (time.Time, bool) {
	layouts := []string{
		time.DateOnly, minute, time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339,
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, s, here); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// longest is the longest duration before now that a user may give: a century.
const longest = 100 * 366 * 24 * time.Hour

// parseAgo parses a duration of numbers with units, like 1d12h.
func parseAgo(s string) (time.Duration, bool) {
	units := map[byte]time.Duration{
		's': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour,
	}
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

// StatusNames returns the names of all statuses.
func StatusNames() (names []string) {
	for _, s := range task.Statuses() {
		names = append(names, string(s))
	}
	return names
}

// ParseStatuses parses the value of a flag that is a list of statuses, separated by
// commas.
func ParseStatuses(flag, s string) ([]task.Status, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var found []task.Status
	for word := range strings.SplitSeq(s, ",") {
		name := task.Status(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(word)), "-", "_"))
		if !slices.Contains(task.Statuses(), name) {
			all := StatusNames()
			hint := spelling.DidYouMean(spelling.Nearest(string(name), all)) +
				"accepted is, with commas between them: " + strings.Join(all, ", ")
			return nil, command.Usagef(hint, "%s has no %q", flag, word)
		}
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found, nil
}
