package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Line returns the call as a person would type it: its name and its arguments in their order, without the
// quotes and escapes of JSON. Texts keep their line breaks. A list of objects is told by its length and one text of
// each: "2 tasks: Read a.md, Read b.md".
func (c Call) Line() string {
	dec := json.NewDecoder(bytes.NewReader(Unwrap(c.Arguments)))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return c.Name + " " + string(c.Arguments)
	}
	var parts []string
	alone := ""
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return c.Name + " " + string(c.Arguments)
		}
		part, text := readable(fmt.Sprint(name), value)
		alone, parts = text, append(parts, part)
	}
	if len(parts) == 1 { // a single argument needs no name
		parts[0] = alone
	}
	return strings.TrimSpace(c.Name + " " + strings.Join(parts, ", "))
}

// readable returns an argument for a person, with its name and alone.
func readable(name string, value json.RawMessage) (named, alone string) {
	var objects []map[string]json.RawMessage
	switch {
	case json.Unmarshal(value, &alone) == nil && string(value) != "null":
	case json.Unmarshal(value, &objects) == nil && len(objects) > 0:
		one := strings.TrimSuffix(name, "s")
		texts := make([]string, len(objects))
		for i, o := range objects {
			texts[i] = gist(one, o)
		}
		if len(objects) == 1 {
			name = one
		}
		alone = fmt.Sprintf("%d %s: %s", len(objects), name, strings.Join(texts, ", "))
		return alone, alone
	default:
		alone = string(value) // what is no text stays JSON
	}
	return name + ": " + alone, alone
}

// gist returns the text in the field of that name; if there is none, all of o as JSON.
func gist(name string, o map[string]json.RawMessage) (text string) {
	if json.Unmarshal(o[name], &text) != nil {
		all, _ := json.Marshal(o) // it comes from JSON
		return string(all)
	}
	return text
}
