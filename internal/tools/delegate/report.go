package delegate

import (
	"fmt"
	"strings"

	"qq/pkg/task"
)

// Limits of a report: how many tasks and files of a task it names.
const maxReported, maxReportedFiles = 30, 5

// report returns the block below the array of results: how many tasks ended how, and a line for each that failed or
// changed files. The array is one line, and this block begins with a blank one: not all model servers take an answer of
// several parts. The answers stand in the array alone, because each token of this block is paid with every request.
func report(results []task.Result) string {
	var counts task.Counts
	var lines []string
	for i, r := range results {
		counts.Add(r.Status)
		line := ""
		if !r.Success {
			line = fmt.Sprintf(": %s: %s", r.Status, task.Shorten(task.Line(r.Err()), 100))
		}
		if files := r.ChangedFiles; len(files) > 0 {
			more := ""
			if n := len(files) - maxReportedFiles; n > 0 {
				files, more = files[:maxReportedFiles], fmt.Sprintf(" and %d more", n)
			}
			line += ": changed " + task.Shorten(strings.Join(files, ", "), 300) + more
		}
		if line != "" {
			lines = append(lines, fmt.Sprintf("%d. %s%s", i+1, r.Agent, line))
		}
	}
	if more := len(lines) - maxReported; more > 0 {
		lines = append(lines[:maxReported], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(append([]string{"", counts.String()}, lines...), "\n")
}
