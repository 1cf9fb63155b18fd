package delegate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// field is one key of a JSON object that a model wrote, with its value.
type field struct {
	key   string
	value json.RawMessage
}

// maxFields is how many keys of an object are looked at. One with more has a key that is not known.
const maxFields = 64

// fieldsOf returns the fields of a JSON object in their order; false if data is none.
func fieldsOf(data json.RawMessage) (fields []field, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') || !json.Valid(data) {
		return nil, false
	}
	for dec.More() && len(fields) <= maxFields {
		key, err := dec.Token()
		if err != nil {
			return nil, false
		}
		f := field{key: key.(string)}
		if err := dec.Decode(&f.value); err != nil {
			return nil, false
		}
		fields = append(fields, f)
	}
	return fields, len(fields) <= maxFields
}

// object returns the JSON object with these fields.
func object(fields []field) json.RawMessage {
	var out bytes.Buffer
	for i, f := range fields {
		key, _ := json.Marshal(f.key) // a string has no error
		out.WriteByte("{,"[min(i, 1)])
		out.Write(append(append(key, ':'), f.value...))
	}
	if len(fields) == 0 {
		out.WriteByte('{')
	}
	return append(out.Bytes(), '}')
}

// fieldAt returns the index of the first field with that key and a value, or -1. null is no value.
func fieldAt(fields []field, key string) int {
	return slices.IndexFunc(fields, func(f field) bool { return f.key == key && string(f.value) != "null" })
}

// agentName returns what a key that other systems use for the agent is called here; "" for any other key.
func agentName(key string) string {
	switch key {
	case "agentId", "agent_id", "subagent_type":
		return "agent"
	}
	return ""
}

// taskName is agentName for all keys of a task.
func taskName(key string) string {
	switch key {
	case "prompt", "description":
		return "task"
	}
	return agentName(key)
}

// renamed returns fields with the names that keys have here, which name returns. A key that is given under two
// names with different values is an error. A description beside a prompt is the short title that other systems
// show to people: it is left out.
func renamed(fields []field, name func(key string) string) ([]field, error) {
	known := slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return name(f.key) != "" })
	by := map[string]string{} // the name that was given, by the name here
	titled := fieldAt(known, "task") < 0 && fieldAt(fields, "prompt") >= 0
	for _, f := range fields {
		real := name(f.key)
		if real == "" || string(f.value) == "null" || titled && f.key == "description" {
			continue
		}
		at := fieldAt(known, real)
		switch {
		case at < 0:
			known = slices.DeleteFunc(known, func(g field) bool { return g.key == real }) // null
			known, by[real] = append(known, field{real, f.value}), f.key
		case !same(known[at].value, f.value):
			other := real
			if by[real] != "" {
				other = by[real]
			}
			return nil, fmt.Errorf("%q and %q are the same and have different values: give one of them",
				other, f.key)
		}
	}
	return known, nil
}

// same reports whether two JSON values are the same text, or are written alike.
func same(a, b json.RawMessage) bool {
	var s, t string
	if json.Unmarshal(a, &s) == nil && json.Unmarshal(b, &t) == nil {
		return s == t
	}
	return bytes.Equal(a, b)
}
