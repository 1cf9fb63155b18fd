package standin

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

const hex = "0123456789abcdef"

// appendString appends s to b as a JSON string. encoding/json would use reflection for every word: that time would
// distort what is measured against the stand-in.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[start:i]...), `\ufffd`...)
				start = i + 1
			}
			i += n
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

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
		fields[i] = string(appendString(nil, name)) + ":" + s.Properties[name].sample()
	}
	return "{" + strings.Join(fields, ",") + "}"
}
