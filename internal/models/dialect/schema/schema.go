// Package schema looks at JSON Schemas of answers, and fits them to what servers take.
package schema

import (
	"bytes"
	"encoding/json"
)

// Closed returns the schema with objects that have no other properties than those it names: the server takes no other
// schema. What fits it fits the schema too.
func Closed(schema json.RawMessage) json.RawMessage {
	var all any
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber() // a number stays as it is written
	if d.Decode(&all) != nil {
		return schema
	}
	closeObjects(all)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(all) != nil {
		return schema
	}
	return b.Bytes()
}

func closeObjects(part any) {
	switch part := part.(type) {
	case map[string]any:
		if _, said := part["additionalProperties"]; !said && part["type"] == "object" {
			part["additionalProperties"] = false
		}
		for _, p := range part {
			closeObjects(p)
		}
	case []any:
		for _, p := range part {
			closeObjects(p)
		}
	}
}

// IsObject reports whether schema describes an object.
func IsObject(schema json.RawMessage) bool {
	var root struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(schema, &root) == nil && root.Type == "object"
}
