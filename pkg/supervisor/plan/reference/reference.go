// Package reference finds in the text of a task where it names the results of other tasks:
// {{id.output}}, and {{id.structured.field}} for a part of a structured one.
package reference

import (
	"iter"
	"strings"
)

// Reference is one such place.
type Reference struct {
	Start, End int    // of the whole reference in the text
	ID         string // of the other task
	Field      string // of its structured result, such as "a.b"; "" is its output
}

// Find returns the references in text, in order. Other double braces are none.
func Find(text string) []Reference {
	var found []Reference
	for start, end := range braces(text) {
		if id, field, ok := parse(strings.TrimSpace(text[start+2 : end-2])); ok {
			found = append(found, Reference{Start: start, End: end, ID: id, Field: field})
		}
	}
	return found
}

// maxMistaken is how long a mistaken reference may be.
const maxMistaken = 200

// Mistaken returns what stands between the first double braces that begin with one of the ids and a dot, and are no
// reference. It returns "" if there are none.
func Mistaken(text string, ids map[string]bool) (id, inner string) {
	for start, end := range braces(text) {
		inner = strings.TrimSpace(text[start+2 : end-2])
		if _, _, right := parse(inner); right || len(inner) > maxMistaken {
			continue
		}
		for i, c := range inner {
			if c == '.' && ids[inner[:i]] {
				return inner[:i], inner
			}
		}
	}
	return "", ""
}

// braces returns where double braces start, and where they end.
func braces(text string) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for at := 0; ; {
			end := strings.Index(text[at:], "}}")
			if end < 0 {
				return
			}
			end += at
			if open := strings.LastIndex(text[at:end], "{{"); open >= 0 && !yield(at+open, end+2) {
				return
			}
			at = end + 2
		}
	}
}

// parse splits what stands between the braces.
func parse(inner string) (id, field string, ok bool) {
	if id, ok = strings.CutSuffix(inner, ".output"); ok {
		return id, "", id != ""
	}
	id, field, ok = strings.Cut(inner, ".structured.")
	return id, field, ok && id != "" && field != ""
}
