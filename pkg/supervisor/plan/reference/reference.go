// Package reference finds in the text of a task where it names the results of other tasks:
// {{id.output}}, and {{id.structured.field}} for a part of a structured one.
package reference

import "strings"

// Reference is one such place.
type Reference struct {
	Start, End int    // of the whole reference in the text
	ID         string // of the other task
	Field      string // of its structured result, such as "a.b"; "" is its output
}

// Find returns the references in text, in order. Other double braces are none.
func Find(text string) []Reference {
	var found []Reference
	for at := 0; ; {
		end := strings.Index(text[at:], "}}")
		if end < 0 {
			return found
		}
		end += at
		if open := strings.LastIndex(text[at:end], "{{"); open >= 0 {
			start := at + open
			if id, field, ok := parse(strings.TrimSpace(text[start+2 : end])); ok {
				found = append(found, Reference{Start: start, End: end + 2, ID: id, Field: field})
			}
		}
		at = end + 2
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
