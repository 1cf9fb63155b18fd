package delegate

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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

// lenient converts the numbers, booleans, objects and lists of a task that a model wrote as
// strings. It leaves everything else unchanged.
func lenient(given json.RawMessage) json.RawMessage {
	var keys map[string]json.RawMessage
	if json.Unmarshal(given, &keys) != nil {
		return given
	}
	changed := false
	plain := func(key string, ok func(string) bool) {
		var text string
		if json.Unmarshal(keys[key], &text) == nil && ok(text) {
			keys[key], changed = json.RawMessage(text), true
		}
	}
	flag := func(s string) bool { return s == "true" || s == "false" }
	plain("timeout", func(s string) bool {
		_, err := strconv.ParseFloat(s, 64)
		return err == nil && json.Valid([]byte(s))
	})
	plain("read_only", flag)
	plain("require_file_references", flag)
	plain("schema", func(s string) bool {
		return strings.HasPrefix(strings.TrimSpace(s), "{") && json.Valid([]byte(s))
	})
	var text string
	if json.Unmarshal(keys["targets"], &text) == nil && string(keys["targets"]) != "null" {
		if list, err := json.Marshal(split(text)); err == nil {
			keys["targets"], changed = list, true
		}
	}
	if changed {
		if again, err := json.Marshal(keys); err == nil {
			return again
		}
	}
	return given
}

// list decodes a JSON array of strings, or one string that lists them.
func list(key string, value json.RawMessage) ([]string, error) {
	if value == nil {
		return nil, nil
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return split(text), nil
	}
	var items []string
	if json.Unmarshal(value, &items) != nil {
		return nil, fmt.Errorf("argument %q must be a list of texts", key)
	}
	return trimmed(items), nil
}

// split splits a string that lists items: a JSON array, or items separated by commas or newlines.
// A comma inside the braces of a glob does not separate.
func split(text string) []string {
	var items []string
	if json.Unmarshal([]byte(text), &items) == nil {
		return trimmed(items)
	}
	depth, start := 0, 0
	for i, c := range text {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		case ',', '\n':
			if depth <= 0 {
				items, start = append(items, text[start:i]), i+1
			}
		}
	}
	return trimmed(append(items, text[start:]))
}

// trimmed returns items without surrounding white space and without empty items.
func trimmed(items []string) []string {
	kept := []string{}
	for _, s := range items {
		if s = strings.TrimSpace(s); s != "" {
			kept = append(kept, s)
		}
	}
	return kept
}
