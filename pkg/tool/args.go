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

// Fields maps the arguments of a tool to where they are stored: *string, *int,
// *bool or *json.RawMessage.
type Fields map[string]any

// Decode stores the arguments of a call. A null is an argument that is absent.
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

// object reads the arguments of a call.
func object(args json.RawMessage) (map[string]json.RawMessage, error) {
	var given map[string]json.RawMessage
	if json.Unmarshal(Unwrap(args), &given) != nil {
		return nil, errors.New("the arguments must be a JSON object")
	}
	return given, nil
}

// Unwrap is the object of args: some models send it as a text, or send nothing
// when there is nothing to say.
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

// store converts value into dst, or says what value must be.
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

// Missing says that a required argument is not there.
func Missing(key string) error { return fmt.Errorf("argument %q is missing", key) }

// Bounded is n, or def when n is not above 0, at most limit.
func Bounded(n, def, limit int) int {
	if n <= 0 {
		n = def
	}
	return min(n, limit)
}
