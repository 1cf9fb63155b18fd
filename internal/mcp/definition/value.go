package definition

import (
	"encoding/json"
	"strings"
)

// text stores a JSON string. It returns what the value must be, if it is something else.
func text(data json.RawMessage, dst *string) string {
	if json.Unmarshal(data, dst) != nil {
		return "a text"
	}
	return ""
}

// list stores a list of words.
func list(data json.RawMessage, dst *[]string) string {
	var all []json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return "a list of texts"
	}
	for _, v := range all {
		w, ok := scalar(v)
		if !ok {
			return "a list of texts"
		}
		*dst = append(*dst, w)
	}
	return ""
}

// table stores an object of words.
func table(data json.RawMessage, dst *map[string]string) string {
	const want = "an object of texts, each name once"
	if string(data) == "null" {
		return ""
	}
	all, err := members(data)
	if err != nil {
		return want
	}
	values := map[string]string{}
	for _, m := range all {
		w, ok := scalar(m.value)
		if !ok {
			return want
		}
		values[m.name] = w
	}
	*dst = values
	return ""
}

// scalar returns a text, or a whole number or a boolean as it is written: YAML has them without quotes. A number with
// a fraction may have been written in another way, such as 1.10.
func scalar(data json.RawMessage) (string, bool) {
	raw := string(data)
	switch {
	case strings.HasPrefix(raw, `"`):
		var s string
		err := json.Unmarshal(data, &s)
		return s, err == nil
	case raw == "true", raw == "false":
		return raw, true
	}
	var n json.Number
	if strings.ContainsAny(raw, ".eE") || json.Unmarshal(data, &n) != nil || n == "" {
		return "", false
	}
	return raw, true
}
