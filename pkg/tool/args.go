package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Fields maps the name of each argument of a tool to a pointer to the variable that gets its value:
// a *string, *int, *bool or *json.RawMessage.
type Fields map[string]any

// Decode stores the arguments of a call in the variables of into. An argument that is null counts
// as absent, and its variable is not changed. A number or a boolean may be written as a string. An
// unknown argument or a wrong type is an error, which names the argument and lists the accepted
// ones, so that the model can correct the call.
func Decode(args json.RawMessage, into Fields) error {
	given, err := object(args)
	if err != nil {
		return err
	}
	accepted := strings.Join(slices.Sorted(maps.Keys(into)), ", ")
	if accepted == "" {
		accepted = "none"
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		dst, ok := into[key]
		if !ok {
			return fmt.Errorf("unknown argument %q (accepted: %s)", key, accepted)
		}
		if isNull(given[key]) {
			continue
		}
		if want := store(dst, given[key]); want != "" {
			return fmt.Errorf("argument %q must be %s (accepted: %s)", key, want, accepted)
		}
	}
	return nil
}

// object decodes the arguments of a call into their values by name.
func object(args json.RawMessage) (map[string]json.RawMessage, error) {
	var given map[string]json.RawMessage
	if json.Unmarshal(Unwrap(args), &given) != nil {
		return nil, errors.New("the arguments must be a JSON object")
	}
	return given, nil
}

// Unwrap returns args as a JSON object. Some models send the object inside a JSON string, or send
// nothing if there are no arguments; nothing becomes {}.
func Unwrap(args json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(args, &text) == nil {
		args = json.RawMessage(text)
	}
	if len(bytes.TrimSpace(args)) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

// store converts value and stores it in dst. It returns "" on success, or else the kind of value
// that is expected.
func store(dst any, value json.RawMessage) (want string) {
	var text string
	quoted := json.Unmarshal(value, &text) == nil
	plain := string(value)
	if quoted {
		plain = strings.TrimSpace(text)
	}
	switch dst := dst.(type) {
	case *string:
		if !quoted {
			return "text"
		}
		*dst = text
	case *int:
		n, err := strconv.ParseFloat(plain, 64)
		if err != nil || n != math.Trunc(n) || math.Abs(n) > 1e9 {
			return "a whole number"
		}
		*dst = int(n)
	case *bool:
		b, err := strconv.ParseBool(strings.ToLower(plain))
		if err != nil {
			return "true or false"
		}
		*dst = b
	case *json.RawMessage:
		*dst = value
	}
	return ""
}

// Missing returns the error for a required argument that is absent.
func Missing(key string) error { return fmt.Errorf("argument %q is missing", key) }

// Bounded returns n, or def if n is not positive, but never more than limit.
func Bounded(n, def, limit int) int {
	if n <= 0 {
		n = def
	}
	return min(n, limit)
}
