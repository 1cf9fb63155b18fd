package standin

import (
	"encoding/json"
	"slices"
	"strings"

	"qq/internal/standin/form"
)

// schema is the part of JSON Schema that sample supports.
type schema struct {
	Type       any               `json:"type"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	MinItems   int               `json:"minItems"`
	Enum       []json.RawMessage `json:"enum"`
	Const      json.RawMessage   `json:"const"`
}

// sample returns a small JSON document that satisfies format, which is a schema or "json".
func sample(format json.RawMessage) string {
	var s schema
	if json.Unmarshal(format, &s) != nil {
		return "{}"
	}
	return s.sample()
}

func (s schema) sample() string {
	switch {
	case s.Const != nil:
		return string(s.Const)
	case len(s.Enum) > 0:
		return string(s.Enum[0])
	}
	kind, _ := s.Type.(string)
	if list, ok := s.Type.([]any); ok && len(list) > 0 {
		kind, _ = list[0].(string)
	}
	switch kind {
	case "string":
		return `"sample text"`
	case "integer", "number":
		return "1"
	case "boolean":
		return "true"
	case "null":
		return "null"
	case "array":
		item := "1"
		if s.Items != nil {
			item = s.Items.sample()
		}
		return "[" + strings.Join(slices.Repeat([]string{item}, s.MinItems), ",") + "]"
	}
	fields := make([]string, len(s.Required))
	for i, name := range s.Required {
		fields[i] = string(form.AppendString(nil, name)) + ":" + s.Properties[name].sample()
	}
	return "{" + strings.Join(fields, ",") + "}"
}
