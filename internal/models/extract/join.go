package extract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"qq/internal/models/extract/markdown"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// join returns one text with the answers about all files: first the central points of all, then each answer under
// its file name, then a list of what is missing. The error is nil unless a file has no answer or only a partial
// one.
func (w *work) join() (string, error) {
	good := slices.DeleteFunc(slices.Clone(w.parts), func(p part) bool { return p.answer == "" })
	if len(good) == 0 {
		return "", w.nothing()
	}
	var b strings.Builder
	if len(w.parts) == 1 {
		b.WriteString(good[0].answer)
	} else {
		if short := w.inShort(good); short != "" && len(good) > 1 {
			b.WriteString("## In short\n\n" + short + "\n\n")
		}
		for i, p := range good {
			if i > 0 {
				b.WriteString("\n\n")
			}
			fmt.Fprintf(&b, "## %s\n\n%s", p.path, p.answer)
		}
	}
	var not, partly, notes []string
	if w.skipped > 0 {
		notes = []string{"Left out: " + count(w.skipped, "file") + " without text of the wanted kind."}
	}
	for _, left := range w.left {
		notes = append(notes, strings.ToUpper(left[:1])+left[1:])
	}
	for _, p := range w.parts {
		switch {
		case p.problem == "":
		case p.answer == "":
			not = append(not, p.path)
			notes = append(notes, fmt.Sprintf("Not %s: %s: %s", w.done(), p.path, p.reason()))
		default:
			partly = append(partly, p.path+": "+p.reason())
			if !strings.Contains(p.answer, "Only a part of "+p.path) { // a child says so itself
				notes = append(notes, fmt.Sprintf("Only a part of %s was %s: %s", p.path, w.done(), p.reason()))
			}
		}
	}
	if len(notes) > 0 {
		b.WriteString("\n\n" + strings.Join(notes, "\n"))
	}
	if len(not) > 0 {
		were := map[bool]string{true: "was", false: "were"}[len(not) == 1]
		not = []string{fmt.Sprintf("%d of %s %s not %s: %s",
			len(not), count(len(w.parts), "document"), were, w.done(), strings.Join(not, ", "))}
	}
	if problems := slices.Concat(not, partly, w.left); len(problems) > 0 {
		return b.String(), &llm.Error{Kind: llm.Server, Problem: task.Shorten(strings.Join(problems, "; "), 1000)}
	}
	return b.String(), nil
}

// reason returns why there is no answer about a file, without the file name that a child or a
// tool may have put first.
func (p part) reason() string {
	problem, _, _ := strings.Cut(p.problem, ": look with list_files at ") // what a model would do
	prefix := p.path + ": "
	if i := strings.LastIndex(problem, prefix); i >= 0 {
		return problem[i+len(prefix):]
	}
	return problem
}

// done returns the participle for the request, such as "summarized".
func (w *work) done() string {
	return [...]string{"summarized", "read", "read", "outlined"}[w.product]
}

// nothing returns the error for a request without an answer. It names the first problem of a part; at least one
// part has one.
func (w *work) nothing() error {
	failed := slices.DeleteFunc(slices.Clone(w.parts), func(p part) bool { return p.problem == "" })
	problem := fmt.Sprintf("not %s: %s: %s", w.done(), failed[0].path, failed[0].reason())
	if more := len(failed) - 1; more > 0 {
		problem += fmt.Sprintf(" (and %s more)", count(more, "file"))
	}
	return &llm.Error{Kind: llm.Server, Problem: problem}
}

// inShort returns the central points of all answers together.
func (w *work) inShort(parts []part) string {
	var blocks []markdown.Block
	for _, p := range parts {
		blocks = append(blocks, markdown.Block{Kind: markdown.Heading, Level: 2, Text: p.path})
		blocks = append(blocks, markdown.Parse(p.answer)...)
	}
	most := min(max(len(parts), 3), 5)
	switch w.product {
	case keywords:
		most = 10
	case outline:
		return "" // an outline of outlines says nothing
	}
	short := wish{product: w.product, count: min(cmp.Or(w.count, most), most)}
	return newDocument(blocks, true).render(short)
}
