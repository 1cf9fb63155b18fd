// Package needs puts the results of tasks into the task that needs them.
//
// In the text and the context of a task, {{id.output}} and {{id.structured.field}} name the result of another task.
// They keep a short reference, and the result itself becomes a part of the context: what another agent has written is
// no part of what the task asks for. A result is put in as it is, also if it has such places itself.
package needs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"qq/pkg/supervisor/plan/reference"
	"qq/pkg/task"
)

// Check returns what is wrong with what the tasks of a batch name of each other, or nil. In a task that needs nothing,
// and in a context, which may be any document, a name that no task has is no reference.
func Check(tasks ...task.Task) error {
	var known map[string]bool // the ids of all tasks
	for i, t := range tasks {
		var needs map[string]bool
		inText := reference.Find(t.Text)
		for k, use := range append(inText, reference.Find(t.Context)...) {
			if known == nil {
				known = set(len(tasks), func(k int) string { return tasks[k].ID })
			}
			if needs == nil {
				needs = set(len(t.Needs), func(k int) string { return t.Needs[k] })
			}
			if needs[use.ID] || (len(t.Needs) == 0 || k >= len(inText)) && !known[use.ID] {
				continue
			}
			id := task.Shorten(use.ID, 40)
			return task.Wrong(i, fmt.Sprintf("add %q to its needs", id),
				"task %d uses the result of %q, which is not in its needs", i+1, id)
		}
		if len(t.Needs) == 0 || !strings.Contains(t.Text, "{{") {
			continue
		}
		if needs == nil {
			needs = set(len(t.Needs), func(k int) string { return t.Needs[k] })
		}
		if id, inner := reference.Mistaken(t.Text, needs); id != "" {
			return task.Wrong(i, fmt.Sprintf("did you mean {{%[1]s.output}} or {{%[1]s.structured.FIELD}}?", id),
				"task %d names {{%s}}, which is no result", i+1, task.Shorten(inner, 100))
		}
	}
	return nil
}

// CheckFields returns an error if a task names a field of the structured result of another that has no schema, and so
// no such result.
func CheckFields(tasks ...task.Task) error {
	var plain map[string]bool // ids of those without a schema
	for i, t := range tasks {
		for _, use := range append(reference.Find(t.Text), reference.Find(t.Context)...) {
			if plain == nil {
				plain = set(len(tasks), func(k int) string {
					if len(tasks[k].Schema) > 0 {
						return ""
					}
					return tasks[k].ID
				})
			}
			if use.Field != "" && plain[use.ID] {
				id := task.Shorten(use.ID, 40)
				hint := fmt.Sprintf("give %q a schema that requires the field, or use {{%s.output}}", id, id)
				return task.Wrong(i, hint,
					"task %d uses the field %q of %q, which has no schema", i+1, task.Shorten(use.Field, 40), id)
			}
		}
	}
	return nil
}

// set returns the n texts that at returns.
func set(n int, at func(int) string) map[string]bool {
	all := make(map[string]bool, n)
	for k := range n {
		all[at(k)] = true
	}
	return all
}

// Deprive gives a result to each task that needs one that is not run. results are those of tasks; the ones that are
// known have a status, and are no successes.
func Deprive(tasks []task.Task, results []task.Result) {
	lost := map[string]bool{}
	for again := true; again; {
		again = false
		for i, t := range tasks {
			if results[i].Status == "" {
				at := slices.IndexFunc(t.Needs, func(id string) bool { return lost[id] })
				if at < 0 {
					continue
				}
				results[i] = t.Ended(task.Skipped, fmt.Sprintf("needs %s, which is not run", t.Needs[at]))
			}
			if t.ID != "" && !lost[t.ID] {
				lost[t.ID], again = true, true
			}
		}
	}
}

// Fill returns t with the results that it needs, given in the order of its Needs. A part of a structured result has at
// most limit characters; 0 means any number. The error says that a part is not there.
func Fill(t task.Task, results []task.Result, limit int) (task.Task, error) {
	if len(t.Needs) == 0 {
		return t, nil
	}
	if len(results) < len(t.Needs) {
		return t, &task.Error{
			Status: task.Misused, Problem: "the task needs others, and is started without them",
			Hint: "give it to an agent with the tasks that it needs, in one call",
		}
	}
	t.Needed = digest(results)
	byID := make(map[string]task.Result, len(results))
	for _, r := range results {
		byID[r.ID] = r
	}
	var parts []string // of the context
	given := map[string]bool{}
	fill := func(text string) (string, error) {
		var filled strings.Builder
		last := 0
		for _, use := range reference.Find(text) {
			r, ok := byID[use.ID]
			if !ok {
				continue // see Check
			}
			name, content := "output of "+use.ID, r.Output
			if use.Field != "" {
				name = use.Field + " of " + use.ID
				var err error
				if content, err = field(r, use.Field); err != nil {
					return "", err
				}
				content = cut(content, limit)
			}
			filled.WriteString(text[last:use.Start] + "[" + name + "]")
			last = use.End
			if !given[name] {
				given[name] = true
				parts = append(parts, "["+name+"]:\n"+content)
			}
		}
		return filled.String() + text[last:], nil
	}
	text, err := fill(t.Text)
	if err != nil {
		return t, err
	}
	context, err := fill(t.Context)
	if err != nil {
		return t, err
	}
	if context != "" {
		parts = append([]string{context}, parts...)
	}
	t.Text, t.Context = text, strings.Join(parts, "\n\n")
	return t, nil
}

// field returns the part of a structured result that path names: a.b is b of a, and a.0 the first of a list.
func field(r task.Result, path string) (string, error) {
	var value any
	d := json.NewDecoder(bytes.NewReader(r.Structured))
	d.UseNumber()
	ok := d.Decode(&value) == nil
	for name := range strings.SplitSeq(path, ".") {
		switch in := value.(type) {
		case map[string]any:
			value, ok = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if ok = err == nil && i >= 0 && i < len(in); ok {
				value = in[i]
			}
		default:
			ok = false
		}
		if !ok {
			return "", &task.Error{
				Status:  task.Misused,
				Problem: fmt.Sprintf("the structured result of %q has no field %q", r.ID, task.Shorten(path, 40)),
				Hint:    "give that task a schema that requires the field, or use {{" + r.ID + ".output}}",
			}
		}
	}
	if text, ok := value.(string); ok {
		return text, nil
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// cut returns text without its middle if it has more than limit characters.
func cut(text string, limit int) string {
	n := utf8.RuneCountInString(text)
	if limit <= 0 || n <= limit {
		return text
	}
	runes := []rune(text)
	head := (limit + 1) / 2
	note := fmt.Sprintf("\n[Output truncated at %d chars]\n[%d characters left out]\n", limit, n-limit)
	return string(runes[:head]) + note +
		string(runes[n-(limit-head):])
}

// digest returns a hash of the results: other results make it another task.
func digest(results []task.Result) string {
	h := sha256.New()
	for _, r := range results {
		fmt.Fprintf(h, "%s %d:%s %d:%s", r.Status, len(r.Output), r.Output, len(r.Structured), r.Structured)
	}
	return hex.EncodeToString(h.Sum(nil))
}
