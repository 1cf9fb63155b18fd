package runner

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// repairs is how often an answer that does not fit its schema is sent back.
const repairs = 2

// schemaCheck validates answers. A nil schemaCheck accepts all of them.
type schemaCheck struct {
	schema  *jsonschema.Resolved
	sent    int  // times that an answer was sent back
	strict  bool // the next request is bound by the schema
	problem error
	value   json.RawMessage
}

func newSchemaCheck(raw json.RawMessage) (*schemaCheck, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	schema, err := ParseSchema(raw)
	if err != nil {
		return nil, err
	}
	return &schemaCheck{schema: schema}, nil
}

// ParseSchema reads a JSON Schema and checks that it can be used.
func ParseSchema(raw json.RawMessage) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	return resolved, nil
}

// binding reports whether the next request has to be bound by the schema: at
// once when the agent has no tools, else only for an answer that did not fit.
func (c *schemaCheck) binding(tools bool) bool { return c != nil && (c.strict || !tools) }

// repair checks an answer. It returns what to tell the model when it shall try
// again, or "".
func (c *schemaCheck) repair(text string) string {
	if c == nil {
		return ""
	}
	c.value, c.problem = c.validate(text)
	if c.problem == nil || c.sent == repairs {
		return ""
	}
	c.sent++
	c.strict = true
	return fmt.Sprintf("Your answer does not fit the JSON Schema: %v. Answer again with the JSON document alone.", c.problem)
}

func (c *schemaCheck) validate(text string) (json.RawMessage, error) {
	text = unfence(text)
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if err := c.schema.Validate(v); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

// unfence takes JSON out of a Markdown code fence.
func unfence(s string) string {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "```"); ok && strings.HasSuffix(rest, "```") {
		_, body, found := strings.Cut(strings.TrimSuffix(rest, "```"), "\n")
		if found {
			return strings.TrimSpace(body)
		}
	}
	return s
}
