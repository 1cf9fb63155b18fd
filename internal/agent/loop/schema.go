package loop

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"qq/pkg/task"
)

// repairs is how often an answer is sent back for its schema, and how often for its
// references.
const repairs = 2

// maxProblem limits the length of a problem in characters. The text may quote a whole
// answer.
const maxProblem = 500

// schemaCheck validates answers against a JSON Schema. A nil schemaCheck accepts every
// answer.
type schemaCheck struct {
	schema  *jsonschema.Resolved
	sent    int             // how often an answer was sent back
	strict  bool            // the model server must enforce the schema in the next request
	problem string          // of the last answer, or ""
	value   json.RawMessage // the last answer, when it fits
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

// ParseSchema parses a JSON Schema, which must be a JSON object. It refuses a schema with
// references that cannot be resolved or that form a cycle.
func ParseSchema(raw json.RawMessage) (*jsonschema.Resolved, error) {
	resolved, err := parseSchema(raw)
	if err != nil {
		return nil, errors.New("read the schema: " + task.Shorten(err.Error(), maxProblem))
	}
	return resolved, nil
}

func parseSchema(raw json.RawMessage) (*jsonschema.Resolved, error) {
	if !json.Valid(raw) {
		return nil, errors.New("it is not JSON")
	}
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return nil, errors.New("it is not a JSON object")
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, err
	}
	return resolved, checkSchemaRefs(&s)
}

// binding reports whether the model server must enforce the schema in the next request:
// always for an agent without tools, otherwise only after an answer that did not fit.
func (c *schemaCheck) binding(tools bool) bool { return c != nil && (c.strict || !tools) }

// repair checks an answer. It returns the message that asks the model to try again, or
// "" if the answer fits or was sent back often enough.
func (c *schemaCheck) repair(text string) string {
	if c.accept(text) || c.sent == repairs {
		return ""
	}
	c.sent++
	c.strict = true
	return "Your answer does not fit the JSON Schema: " + c.problem + ". Answer again with the JSON document alone."
}

// release stops enforcing the schema in the next request, so that the agent can call its
// tools before its next answer.
func (c *schemaCheck) release() {
	if c != nil {
		c.strict = false
	}
}

// outcome returns the last checked answer if it fits the schema, or else the problem with
// it.
func (c *schemaCheck) outcome() (value json.RawMessage, problem string) {
	if c == nil {
		return nil, ""
	}
	return c.value, c.problem
}

// accept reports whether an answer fits the schema. It stores the answer in c.value, or the
// problem with it in c.problem.
func (c *schemaCheck) accept(text string) bool {
	if c == nil {
		return true
	}
	text = unfence(text)
	c.value, c.problem = nil, ""
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		c.problem = "it is not JSON: " + err.Error()
	} else if err := c.schema.Validate(v); err != nil {
		c.problem = task.Shorten(err.Error(), maxProblem)
	} else {
		c.value = json.RawMessage(text)
	}
	return c.problem == ""
}

// unfence removes a Markdown code fence around s.
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
