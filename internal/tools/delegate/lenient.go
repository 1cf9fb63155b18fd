package delegate

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"qq/pkg/task"
)

// unfence returns text without a Markdown code fence, in which models often wrap JSON.
func unfence(text string) string {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	if _, after, ok := strings.Cut(inner, "\n"); ok {
		inner = after
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), "```"))
}

// lenient returns a task that a model wrote with the names that keys have here. It converts numbers,
// booleans, objects and lists that were written as strings. It leaves everything else unchanged, above all
// the text.
func lenient(given json.RawMessage) (json.RawMessage, error) {
	fields, ok := fieldsOf(given)
	if !ok {
		return given, nil // task.Decode says what is wrong
	}
	fields, err := renamed(fields, taskName)
	if err != nil {
		return nil, err
	}
	for i, f := range fields {
		var text string
		if string(f.value) == "null" || json.Unmarshal(f.value, &text) != nil {
			continue
		}
		switch f.key {
		case "timeout", "priority":
			_, err := strconv.ParseFloat(text, 64)
			ok = err == nil && json.Valid([]byte(text))
		case "read_only", "require_file_references":
			ok = text == "true" || text == "false"
		case "schema":
			ok = strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
		case "targets", "needs":
			items, err := json.Marshal(task.Listed(text))
			ok, text = err == nil, string(items)
		default:
			ok = false
		}
		if ok {
			fields[i].value = json.RawMessage(text)
		}
	}
	return object(fields), nil
}

// list decodes a JSON array of strings, or one string that lists them.
func list(key string, value json.RawMessage) ([]string, error) {
	if value == nil {
		return nil, nil
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return task.Listed(text), nil
	}
	var items []string
	if json.Unmarshal(value, &items) != nil {
		return nil, fmt.Errorf("argument %q must be a list of texts", key)
	}
	return task.Listed(string(value)), nil
}
