package delegate

import (
	"fmt"
	"strings"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// maxFiles is how many changed files of one child a model is told.
const maxFiles = 100

// listed returns r with at most maxFiles changed files, and a warning that counts the others.
func listed(r task.Result) task.Result {
	if more := len(r.ChangedFiles) - maxFiles; more > 0 {
		r.ChangedFiles = r.ChangedFiles[:maxFiles]
		r.Warnings = append(r.Warnings[:len(r.Warnings):len(r.Warnings)],
			fmt.Sprintf("it changed %d more files, which are not listed", more))
	}
	return r
}

// changed returns a line that names the files that a child has changed, after a failure too. It is ""
// if there are none.
func changed(r task.Result) string {
	r, all := listed(r), len(r.ChangedFiles)
	if all == 0 {
		return ""
	}
	names := make([]string, len(r.ChangedFiles))
	for i, f := range r.ChangedFiles {
		names[i] = strings.ReplaceAll(tool.Visible(f), "\n", `\n`)
	}
	text := "\n[changed files: " + strings.Join(names, ", ")
	if more := all - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + "]"
}
