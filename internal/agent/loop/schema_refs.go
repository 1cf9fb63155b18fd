package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// errEndless is the error for a schema like {"$ref": "#"}. Validation with it would recurse
// without end on the same value, until the stack overflows and the process dies.
var errEndless = errors.New("it refers to itself without an end")

// schemaRefs follows the references of a schema to find cycles.
type schemaRefs struct {
	root    map[string]any
	schemas []map[string]any // all objects in root
	anchors map[string]any   // objects with an anchor, by "#" and its name
	state   map[uintptr]bool // visited objects; false while follow has not returned for them
}

// checkSchemaRefs refuses a schema with references that form a cycle, or whose targets it
// cannot find.
func checkSchemaRefs(s *jsonschema.Schema) error {
	// Encoded again, because the parser ignores the case of keywords.
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	r := &schemaRefs{anchors: map[string]any{}, state: map[uintptr]bool{}}
	if json.Unmarshal(data, &r.root) != nil {
		return nil // true or false
	}
	if err := r.collect(r.root); err != nil {
		return err
	}
	for _, s := range r.schemas {
		if err := r.follow(s); err != nil {
			return err
		}
	}
	return nil
}

// collect fills r.schemas and r.anchors with the objects in v. It refuses an "$id" anywhere
// but in the root.
func (r *schemaRefs) collect(v any) error {
	switch v := v.(type) {
	case []any:
		for _, sub := range v {
			if err := r.collect(sub); err != nil {
				return err
			}
		}
	case map[string]any:
		if id, ok := v["$id"].(string); ok && len(r.schemas) > 0 {
			return fmt.Errorf("\"$id\" %q inside of a schema is not supported", id)
		}
		r.schemas = append(r.schemas, v)
		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[key].(string); ok {
				r.anchors["#"+name] = v
			}
		}
		for _, sub := range v {
			if err := r.collect(sub); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow visits s and every schema that validates the same value as s. It returns
// errEndless if they form a cycle.
func (r *schemaRefs) follow(s map[string]any) error {
	id := reflect.ValueOf(s).Pointer()
	if done, seen := r.state[id]; seen {
		if !done {
			return errEndless
		}
		return nil
	}
	r.state[id] = false
	next, err := r.applied(s)
	if err != nil {
		return err
	}
	for _, v := range next {
		if sub, ok := v.(map[string]any); ok {
			if err := r.follow(sub); err != nil {
				return err
			}
		}
	}
	r.state[id] = true
	return nil
}

// applied returns the schemas within s, or referred to by s, that validate the same value
// as s and not only a part of that value.
func (r *schemaRefs) applied(s map[string]any) (next []any, err error) {
	for _, key := range []string{"not", "if", "then", "else"} {
		next = append(next, s[key])
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		next = append(next, list...)
	}
	for _, key := range []string{"dependentSchemas", "dependencies"} {
		byName, _ := s[key].(map[string]any)
		for _, sub := range byName {
			next = append(next, sub)
		}
	}
	for _, key := range []string{"$ref", "$dynamicRef"} {
		if ref, ok := s[key].(string); ok {
			target, found := r.target(ref)
			if !found {
				return nil, fmt.Errorf("reference %q is not supported: use # or #/$defs/NAME", ref)
			}
			next = append(next, target)
		}
	}
	return next, nil
}

// target returns the object that a reference points to, and false if there is none.
func (r *schemaRefs) target(ref string) (at any, found bool) {
	if at, found = r.anchors[ref]; found {
		return at, true
	}
	pointer, err := url.PathUnescape(ref)
	if err != nil || pointer != "#" && !strings.HasPrefix(pointer, "#/") {
		return nil, false
	}
	at = r.root
	for _, key := range strings.Split(pointer, "/")[1:] {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		switch v := at.(type) {
		case map[string]any:
			at, found = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if found = err == nil && i >= 0 && i < len(v); found {
				at = v[i]
			}
		default:
			found = false
		}
		if !found {
			return nil, false
		}
	}
	return at, true
}
