// Package figures writes times and counts as people read them, and text on one line.
package figures

import (
	"fmt"
	"strings"
	"time"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// Roundly formats a duration for people, such as "2.5s", "3m05s" or "1d04h".
func Roundly(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Tokens formats the sum of all tokens of u in few characters, such as "12.3k".
func Tokens(u task.Usage) string {
	n := u.InputTokens + u.OutputTokens
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 999_950:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// Spelled returns s on one line, with each character that could control a terminal spelled out.
func Spelled(s string) string { return tool.Visible(strings.Join(strings.Fields(s), " ")) }
