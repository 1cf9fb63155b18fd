package extract

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"qq/internal/models/extract/digest"
	"qq/internal/models/extract/prose"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// join puts the answers about files together: what is central in all of them,
// then each under its name, then what is missing, which is an error as well.
func join(ctx context.Context, w digest.Wish, parts []part, notes, left []string) (string, error) {
	good := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.answer == "" })
	if len(good) == 0 {
		return "", nobodyAnswered(w, parts)
	}
	var b strings.Builder
	if len(parts) == 1 {
		b.WriteString(good[0].answer)
	} else {
		short, err := inShort(ctx, w, good)
		if err != nil {
			return "", err
		}
		if short != "" && len(good) > 1 {
			b.WriteString("## In short\n\n" + short + "\n\n")
		}
		for i, p := range good {
			if i > 0 {
				b.WriteString("\n\n")
			}
			fmt.Fprintf(&b, "## %s\n\n%s", p.path, p.answer)
		}
	}
	for _, p := range parts {
		switch {
		case p.problem == "":
		case p.answer == "":
			notes = append(notes, fmt.Sprintf("Not %s: %s: %s", done(w), p.path, p.reason()))
		case !strings.Contains(p.answer, "Only a part of "+p.path): // a child says so itself
			notes = append(notes, fmt.Sprintf("Only a part of %s was %s: %s", p.path, done(w), p.reason()))
		}
	}
	if len(notes) > 0 {
		b.WriteString("\n\n" + strings.Join(notes, "\n"))
	}
	return b.String(), incomplete(w, parts, left)
}

// incomplete is the error of an answer in which something is missing; nil when
// nothing is.
func incomplete(w digest.Wish, parts []part, left []string) error {
	var not, partly []string
	for _, p := range parts {
		if p.problem != "" && p.answer == "" {
			not = append(not, p.path)
		} else if p.problem != "" {
			partly = append(partly, p.path+": "+p.reason())
		}
	}
	var problems []string
	if len(not) > 0 {
		were := "was"
		if len(not) > 1 {
			were = "were"
		}
		problems = append(problems, fmt.Sprintf("%d of %s %s not %s: %s", len(not), count(len(parts), "document"), were, done(w), strings.Join(not, ", ")))
	}
	if problems = slices.Concat(problems, partly, left); len(problems) == 0 {
		return nil
	}
	return &llm.Error{Kind: llm.Server, Problem: task.Shorten(strings.Join(problems, "; "), 1000)}
}

// reason is why there is no answer about a file. A child and a tool may have
// named the file already.
func (p part) reason() string {
	_, reason, ok := strings.Cut(p.problem, p.path+": ")
	for ok && reason != "" {
		p.problem = reason
		_, reason, ok = strings.Cut(p.problem, p.path+": ")
	}
	return p.problem
}

// done is the participle for what was asked.
func done(w digest.Wish) string {
	switch w.Products[0] {
	case digest.Summary:
		return "summarized"
	case digest.Outline:
		return "outlined"
	}
	return "read"
}

// nobodyAnswered is the error when there is no answer about any file.
func nobodyAnswered(w digest.Wish, parts []part) error {
	problem, more := "", -1
	for _, p := range parts {
		if p.problem != "" {
			if more++; problem == "" {
				problem = fmt.Sprintf("not %s: %s: %s", done(w), p.path, p.reason())
			}
		}
	}
	if more > 0 {
		problem += fmt.Sprintf(" (and %s more)", count(more, "file"))
	}
	return &llm.Error{Kind: llm.Server, Problem: problem}
}

// inShort is what is central in all answers together.
func inShort(ctx context.Context, w digest.Wish, parts []part) (string, error) {
	what := w.Products[0]
	switch what {
	case digest.Outline:
		return "", nil
	case digest.Keywords:
		return commonKeywords(parts, min(orElse(w.Count[digest.Keywords], 10), 10)), nil
	}
	var blocks []prose.Block
	for _, p := range parts {
		blocks = append(blocks, prose.Block{Kind: prose.Heading, Level: 2, Text: p.path})
		blocks = append(blocks, prose.Parse(cutMarks().ReplaceAllString(p.answer, "\n\n"), "")...)
	}
	n := min(max(len(parts), 3), 5)
	short := digest.Wish{Products: []digest.Product{what}}
	short.Count[what] = min(orElse(w.Count[what], n), n)
	return digest.NewCollection(blocks).Make(ctx, short)
}

// cutMarks finds the lines that stand where the output of a child was cut.
var cutMarks = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\[(?:Output truncated at \d+ chars|\d+ characters left out.*)\]$`)
})

func orElse(n, other int) int {
	if n > 0 {
		return n
	}
	return other
}

// commonKeywords are the keywords that most files share.
func commonKeywords(parts []part, n int) string {
	counts := map[string]int{}
	var order []string
	for _, p := range parts {
		for word := range strings.SplitSeq(cutMarks().ReplaceAllString(p.answer, ","), ",") {
			word = strings.TrimSpace(word)
			if counts[word]++; counts[word] == 1 && word != "" {
				order = append(order, word)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return strings.Join(order[:min(n, len(order))], ", ")
}
