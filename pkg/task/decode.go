package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"qq/pkg/spelling"
)

// maxTimeout is the largest timeout of a task, in seconds: 366 days. A [time.Duration] can hold at most 292 years.
const maxTimeout = 366 * 24 * 3600

// Decode reads one task from a JSON object. It is strict: an unknown key, a repeated key or a value
// of the wrong type is an error that names the key. null means the same as a missing key. A task
// without an error has also passed [Task.Validate].
func Decode(data []byte) (Task, error) {
	fields, err := object(data)
	if err != nil {
		return Task{}, err
	}
	var t Task
	for _, f := range fields {
		if bytes.Equal(f.value, []byte("null")) {
			continue
		}
		if err := t.set(f.key, f.value); err != nil {
			return Task{}, err
		}
	}
	if !slices.ContainsFunc(fields, func(f field) bool { return f.key == "task" }) {
		return Task{}, errors.New(`"task" is missing: say what to do`)
	}
	return t, t.Validate()
}

// DecodeList reads a JSON array of tasks. If one task is not valid, it returns no tasks, and the
// error begins with the index of that task, counted from 0.
func DecodeList(data []byte) ([]Task, error) {
	var items []json.RawMessage
	if err := syntax(data); err != nil {
		return nil, err
	}
	if kind(data) != '[' || json.Unmarshal(data, &items) != nil {
		return nil, errors.New("must be a JSON array of tasks")
	}
	tasks := make([]Task, len(items))
	for i, item := range items {
		t, err := Decode(item)
		if err != nil {
			return nil, fmt.Errorf("task %d: %w", i, err)
		}
		tasks[i] = t
	}
	return tasks, nil
}

// set stores the value of one key of a task.
func (t *Task) set(key string, value json.RawMessage) error {
	var dst any
	want := "text"
	switch key {
	case "task":
		dst = &t.Text
	case "agent":
		dst = &t.Agent
	case "id":
		dst = &t.ID
	case "context":
		dst = &t.Context
	case "model":
		dst = &t.Model
	case "working_dir":
		dst = &t.WorkingDir
	case "timeout":
		dst, want = &t.Timeout, "a number"
	case "read_only":
		dst, want = &t.ReadOnly, "true or false"
	case "schema":
		if kind(value) != '{' {
			return errors.New(`"schema" must be an object`)
		}
		t.Schema = slices.Clone(value)
		return nil
	case "require_file_references":
		dst, want = &t.RequireFileReferences, "true or false"
	case "idempotent":
		dst, want = &t.Idempotent, "true or false"
	case "targets":
		dst, want = (*texts)(&t.Targets), "a text or a list of texts"
	case "needs":
		dst, want = (*texts)(&t.Needs), "an id or a list of ids"
	case "priority":
		dst, want = &t.Priority, "a whole number"
	case "role":
		dst = &t.Role
	case "check":
		dst = &t.Check
	case "check_asked":
		dst, want = &t.CheckAsked, "true or false"
	default:
		return unknownKey(key)
	}
	if json.Unmarshal(value, dst) != nil {
		return fmt.Errorf("%q must be %s", key, want)
	}
	if math.Abs(t.Timeout) > maxTimeout {
		return fmt.Errorf("\"timeout\" is %v: use seconds, at most %d", t.Timeout, maxTimeout)
	}
	return nil
}

// field is one key of a JSON object with its value.
type field struct {
	key   string
	value json.RawMessage
}

func object(data []byte) ([]field, error) {
	if err := syntax(data); err != nil {
		return nil, err
	}
	if kind(data) != '{' {
		return nil, errors.New("must be a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var fields []field
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		f := field{key: key.(string)}
		if slices.ContainsFunc(fields, func(g field) bool { return g.key == f.key }) {
			return nil, fmt.Errorf("%q is given twice", Shorten(f.key, 40))
		}
		if len(fields) > len(Keys()) {
			break // one of these is unknown, which ends the decoding
		}
		if err := dec.Decode(&f.value); err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// syntax returns an error that says where data is not valid JSON.
func syntax(data []byte) error {
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	if err == nil {
		return nil
	}
	line := 1
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		line += bytes.Count(data[:min(int(max(se.Offset, 0)), len(data))], []byte("\n"))
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("not valid JSON: it is empty")
	}
	return fmt.Errorf("not valid JSON: line %d: %w", line, err)
}

// kind returns the first byte of a JSON value, which tells its type.
func kind(data []byte) byte {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 {
		return 0
	}
	return data[0]
}

// Keys returns the keys that a task in JSON may have.
func Keys() []string {
	return []string{"task", "agent", "id", "context", "timeout", "model", "read_only", "schema", "working_dir",
		"targets", "needs", "priority", "role", "check", "check_asked", "require_file_references", "idempotent"}
}

// texts are a list of texts, or one text that lists them: see [Listed]. Models and tables write both.
type texts []string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) != nil {
		return json.Unmarshal(data, (*[]string)(t))
	}
	if *t = Listed(one); len(*t) == 0 {
		*t = texts{""} // which is a mistake, and not the same as none
	}
	return nil
}

// Listed returns the items that a text lists: a JSON array, or items separated by commas, semicolons or line ends. What
// stands in the braces of a glob does not separate.
func Listed(text string) []string {
	var items []string
	if kind([]byte(text)) == '[' && json.Unmarshal([]byte(text), &items) == nil {
		return trimmed(items)
	}
	depth, start := 0, 0
	for i, c := range text {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		case ',', ';', '\n':
			if depth <= 0 && !(c == ';' && endsEntity(text[start:i])) {
				items, start = append(items, text[start:i]), i+1
			}
		}
	}
	return trimmed(append(items, text[start:]))
}

// endsEntity reports whether a semicolon after s ends what stands for a character in HTML, as in &amp; - which models
// write by mistake, and which stays as it is.
func endsEntity(s string) bool {
	name := s[strings.LastIndexByte(s, '&')+1:]
	return len(name) > 0 && len(name) < len(s) && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '#' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// trimmed returns items without surrounding white space and without empty items.
func trimmed(items []string) []string {
	kept := []string{}
	for _, s := range items {
		if s = strings.TrimSpace(s); s != "" {
			kept = append(kept, s)
		}
	}
	return kept
}

func unknownKey(key string) error {
	hint := ""
	if near := spelling.Nearest(key, Keys()); near != "" {
		hint = fmt.Sprintf(", did you mean %q?", near)
	}
	return fmt.Errorf("unknown key %q%s (known: %s)", Shorten(key, 40), hint, strings.Join(Keys(), ", "))
}
