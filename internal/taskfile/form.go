package taskfile

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"qq/internal/taskfile/prose"
	"qq/pkg/spelling"
	"qq/pkg/task"
)

// headSize is how much of an input is looked at to see what it is.
const headSize = 64 << 10

// form returns the form of the input, never Auto. The extension of a file decides, then the beginning of the content:
//
// Without a template, [ begins an array and { JSON Lines. A first line of keys of a task is the header of a CSV.
// Anything else is lines, but not a document: that is an error.
//
// With a template, [{ begins an array. The input is a table or JSON Lines if the template names columns, and the first
// line has all of them. As lines it would be an error, so nothing is misread. Anything else is lines, but not a
// document that is given by its name.
func (s Source) form(r *bufio.Reader) (Form, error) {
	switch form := string(s.Form); {
	case slices.Contains(Forms(), form):
		return s.Form, nil
	case s.Form != Auto:
		return "", task.Hinted("use json, jsonl, csv, tsv or lines", "%q is no form of a batch", form)
	}
	if s.Null || s.Columns != nil {
		return Lines, nil
	}
	peeked, _ := r.Peek(headSize)
	head := string(peeked)
	switch ext := strings.ToLower(filepath.Ext(s.Name)); {
	case ext == ".csv" || ext == ".tsv" || ext == ".jsonl":
		return Form(ext[1:]), nil
	case ext == ".ndjson":
		return JSONL, nil
	case ext == ".json":
		return cmp.Or(jsonForm(head), JSONL), nil
	case s.Template != "":
		if form := s.rows(head); form != Auto {
			return form, nil
		}
		return Lines, s.checkInputs(head)
	case ext != ".txt" && ext != ".md":
		if form := cmp.Or(jsonForm(head), tableOfTasks(head)); form != Auto {
			return form, nil
		}
	}
	return Lines, s.checkList(head)
}

// checkInputs returns an error if the lines of a document would be the inputs of a template. Only the name of a file is
// easily mistaken for that of a list: who pipes a text, or says with -n how many lines a task has, means its lines.
func (s Source) checkInputs(head string) error {
	if s.Group > 0 || s.Input != nil && filepath.Ext(s.Name) == "" {
		return nil
	}
	return s.checkList(head)
}

// checkList returns an error if an input that would be read as one task a line is a text instead.
func (s Source) checkList(head string) error {
	what := prose.Seen(s.Name, head)
	if what == "" {
		return nil
	}
	name := s.label()
	if s.Template != "" {
		return task.Hinted(fmt.Sprintf("for one task about all of it, leave --input out: qq batch -m '…' %s; for one "+
			"task a line: --input-format lines", name), "%s is %s", name, what)
	}
	about, verb := fmt.Sprintf("qq 'Summarize %s', or qq batch -m 'Summarize {}' %s", name, name), "is"
	if s.Input != nil && filepath.Ext(name) == "" {
		about, verb = "… | qq 'Summarize it'", "looks like"
	}
	hint := fmt.Sprintf("for one task about all of it: %s; for one task a line: --input-format lines", about)
	return task.Hinted(hint, "%s %s %s", name, verb, what)
}

// jsonForm recognizes the forms of JSON by the first character that is no space. For anything else it returns Auto.
func jsonForm(head string) Form {
	head = strings.TrimLeftFunc(head, unicode.IsSpace)
	switch {
	case strings.HasPrefix(head, "["):
		return Array
	case strings.HasPrefix(head, "{"):
		return JSONL
	}
	return Auto
}

// rows recognizes rows for the template: see form.
func (s Source) rows(head string) Form {
	if rest, ok := strings.CutPrefix(strings.TrimLeftFunc(head, unicode.IsSpace), "["); ok &&
		strings.HasPrefix(strings.TrimLeftFunc(rest, unicode.IsSpace), "{") {
		return Array
	}
	first := firstLine(head)
	if strings.HasPrefix(strings.TrimSpace(first), "{") && s.fits(keysOf(first)) {
		return JSONL
	}
	for _, form := range []Form{CSV, TSV} {
		if s.fits(header(first, form)) {
			return form
		}
	}
	return Auto
}

// fits reports whether the template names at least one of these columns, and nothing that is none. A number names none:
// in lines it has another meaning.
func (s Source) fits(columns []string) bool {
	if len(columns) == 0 {
		return false
	}
	t, err := parseTemplate(s.Template, names{columns: columns})
	return err == nil && slices.ContainsFunc(t, func(p part) bool {
		return p.kind == cell && strings.Trim(p.text, "{}/.0123456789") != ""
	})
}

// tableOfTasks recognizes the header of a table of tasks: two keys of a task or more, and one is "task".
func tableOfTasks(head string) Form {
	for _, form := range []Form{CSV, TSV} {
		columns := header(firstLine(head), form)
		unknown := slices.ContainsFunc(columns, func(c string) bool { return !slices.Contains(task.Keys(), c) })
		if len(columns) > 1 && slices.Contains(columns, "task") && !unknown {
			return form
		}
	}
	return Auto
}

// firstLine returns the first line that is not blank.
func firstLine(head string) string {
	for line := range strings.Lines(head) {
		if strings.TrimSpace(line) != "" {
			return strings.TrimRight(line, "\r\n")
		}
	}
	return ""
}

// header returns the cells of a line as it would be the header of a table. It returns nil if it cannot be one.
func header(line string, form Form) []string {
	r := csv.NewReader(strings.NewReader(line))
	if form == TSV {
		r.Comma = '\t'
	}
	cells, err := r.Read()
	if err != nil {
		return nil
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// keysOf returns the keys of a JSON object; nil if line is none.
func keysOf(line string) []string {
	o, err := object([]byte(line))
	if err != nil {
		return nil
	}
	return o.Columns
}

// checkWords returns an error if the template names a word that lines do not have. If the first line looks like a
// header, the error names its columns.
func (s Source) checkWords(r *bufio.Reader) error {
	if s.Template == "" {
		return nil
	}
	_, err := parseTemplate(s.Template, names{inputs: s.inputs()})
	if err == nil || s.Null || s.Columns != nil {
		return err
	}
	head, _ := r.Peek(headSize)
	first := firstLine(string(head))
	for _, columns := range [][]string{keysOf(first), header(first, CSV), header(first, TSV)} {
		_, inTable := parseTemplate(s.Template, names{columns: columns})
		meant := slices.ContainsFunc(words(s.Template), func(w string) bool {
			return spelling.Nearest(w, columns) != ""
		})
		if len(columns) > 1 && inTable != nil && meant {
			return inTable
		}
	}
	return err
}

// words returns the words in braces in a template.
func words(template string) []string {
	var all []string
	for _, part := range strings.Split(template, "{")[1:] {
		if name, _, ok := strings.Cut(part, "}"); ok && isWord(name) {
			all = append(all, name)
		}
	}
	return all
}

// object reads a JSON object as a row. Its columns are the keys. A text stands for itself, null for nothing, and any
// other value for its JSON.
func object(data []byte) (*row, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, notObject(data)
	}
	o := &row{Text: string(bytes.TrimSpace(data))}
	for dec.More() {
		key, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return nil, notObject(data)
		}
		o.Columns, o.Cells = append(o.Columns, key.(string)), append(o.Cells, cellOf(value))
	}
	if _, err := dec.Token(); err != nil || !json.Valid(data) { // Valid: nothing follows
		return nil, notObject(data)
	}
	return o, nil
}

// cellOf returns the text of a JSON value.
func cellOf(value json.RawMessage) string {
	var s *string
	if json.Unmarshal(value, &s) == nil {
		if s == nil {
			return ""
		}
		return *s
	}
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return string(value)
	}
	return b.String()
}

// notObject returns why data is no JSON object on one line.
func notObject(data []byte) error {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		return task.Hinted("write one object a line, or an array; for lines of text use a .txt file",
			"not a JSON object on one line: %w", err)
	}
	return task.Hinted(`a row is an object such as {"name": "Ada"}`, "must be a JSON object")
}
