package extract

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"qq/internal/extract/digest"
	"qq/internal/extract/prose"
	"qq/pkg/llm"
)

// join puts the answers about files together: what is central in all of them,
// then each under its name, then what is missing.
func join(ctx context.Context, w digest.Wish, parts []part, notes []string) (string, error) {
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
	var missing []string
	for _, p := range parts {
		if p.problem != "" {
			missing = append(missing, fmt.Sprintf("Not %s: %s: %s", done(w), p.path, p.reason()))
		}
		if p.note != "" {
			missing = append(missing, p.note)
		}
	}
	if missing = append(missing, notes...); len(missing) > 0 {
		b.WriteString("\n\n" + strings.Join(missing, "\n"))
	}
	return b.String(), nil
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
		blocks = append(blocks, prose.Markdown(p.answer)...)
	}
	n := min(max(len(parts), 3), 5)
	short := digest.Wish{Products: []digest.Product{what}}
	short.Count[what] = min(orElse(w.Count[what], n), n)
	return digest.NewCollection(blocks).Make(ctx, short)
}

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
		for word := range strings.SplitSeq(p.answer, ",") {
			word = strings.TrimSpace(word)
			if counts[word]++; counts[word] == 1 && word != "" {
				order = append(order, word)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return strings.Join(order[:min(n, len(order))], ", ")
}
