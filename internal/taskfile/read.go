package taskfile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"qq/pkg/task"
)

var (
	errNotUTF8 = task.Hinted("save the file as UTF-8", "not valid UTF-8")
	errBinary  = task.Hinted(`to make a task of the file itself: qq batch -m "Summarize {}" FILE`,
		"not valid UTF-8: it looks like a binary file, such as a program, a picture or an archive")
)

// notUTF8 returns the error for text that is not valid UTF-8.
func notUTF8(text []byte) error {
	if bytes.IndexByte(text, 0) >= 0 {
		return errBinary
	}
	return errNotUTF8
}

// eachLine parses every line that is not blank, and emits its task or the error of parse.
func (s Source) eachLine(r io.Reader, parse func(line []byte) (task.Task, error), emit emit) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxItem+2) // with the end of the line
	n := 1
	for ; lines.Scan(); n++ {
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		t, err := task.Task{}, notUTF8(line)
		if utf8.Valid(line) {
			t, err = parse(line)
		}
		if err := emit(item{t, err, s.line(n)}); err != nil {
			return err
		}
	}
	return s.stopped(lines.Err(), s.line(n), emit)
}

// stopped handles the error that ended reading at where. Nil means the end of the input. An item that is too long
// is emitted; any other error is returned.
func (s Source) stopped(err error, where string, emit emit) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong), errors.Is(err, errLong):
		return emit(item{err: errLong, where: where})
	}
	return fmt.Errorf("read tasks: %s: %w", s.label(), err)
}

// lines emits a task for each line: the line itself, or the template filled with it.
func (s Source) lines(r io.Reader, emit emit) error {
	if s.Template == "" {
		return s.eachLine(r, func(line []byte) (task.Task, error) {
			t := task.Task{Text: string(line)}
			return t, t.Validate()
		}, emit)
	}
	t, err := parseTemplate(s.Template, nil)
	if err != nil {
		return err
	}
	number := 0
	return s.eachLine(r, func(line []byte) (task.Task, error) {
		number++
		return t.task(values{item: string(line), number: number})
	}, emit)
}

// jsonLines emits a task for each line, which must be a JSON object.
func (s Source) jsonLines(r io.Reader, emit emit) error {
	return s.eachLine(r, func(line []byte) (task.Task, error) {
		t, err := task.Decode(line)
		if err != nil && !json.Valid(line) {
			return t, task.Hinted("write one object a line, or an array; for lines of text use a .txt file",
				"not a JSON object on one line: %w", json.Unmarshal(line, new(json.RawMessage)))
		}
		return t, err
	}, emit)
}

// csv emits a task for each row below the header.
func (s Source) csv(r io.Reader, comma rune, emit emit) error {
	m := &meter{r: r, left: maxItem}
	rows := csv.NewReader(m)
	rows.Comma = comma
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return s.badRow(err, nil, nil, 1, emit)
	}
	if err := s.checkHeader(header); err != nil {
		return err
	}
	var t template
	if s.Template != "" {
		if t, err = parseTemplate(s.Template, header); err != nil {
			return err
		}
	}
	for n, line := 0, 1; ; {
		m.left = maxItem
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.badRow(err, row, header, line, emit)
		}
		if !slices.ContainsFunc(row, func(cell string) bool { return strings.TrimSpace(cell) != "" }) {
			continue // spreadsheets end with rows of commas
		}
		n++
		line, _ = rows.FieldPos(0)
		it := item{where: s.line(line)}
		switch {
		case slices.ContainsFunc(row, func(cell string) bool { return !utf8.ValidString(cell) }):
			it.err = errNotUTF8
		case t != nil:
			it.task, it.err = t.task(values{item: join(row, comma), number: n, cells: row})
		default:
			it.task, it.err = decodeRow(header, row)
		}
		if err := emit(it); err != nil {
			return err
		}
	}
}

// checkHeader trims and checks the names of the columns.
func (s Source) checkHeader(header []string) error {
	for i, name := range header {
		name = strings.TrimSpace(name)
		if !utf8.ValidString(name) {
			return fmt.Errorf("read tasks: %s: the header is %w", s.line(1), errNotUTF8)
		}
		if name != "" && slices.Contains(header[:i], name) {
			return fmt.Errorf("read tasks: %s: the column %q is there twice", s.line(1), name)
		}
		header[i] = name
	}
	if s.Template == "" && !slices.Contains(header, "task") {
		return task.Hinted(fmt.Sprintf("name one so, or say what to do with a row: -m 'Summarize {%s}'", header[0]),
			"read tasks: %s: no column is called \"task\"; the columns are %s", s.line(1), list(header))
	}
	return nil
}

// badRow emits the error for a row that cannot be read, or returns err if the input itself failed. last is the
// first line of the previous row.
func (s Source) badRow(err error, row, header []string, last int, emit emit) error {
	pe, ok := errors.AsType[*csv.ParseError](err)
	if !ok {
		return s.stopped(err, "after "+s.line(last), emit)
	}
	err = task.Hinted("put a cell with quotes, commas or line ends into quotes, and write its quotes twice",
		"not valid CSV: %w", pe.Err)
	if errors.Is(pe, csv.ErrFieldCount) {
		err = task.Hinted("put a cell that contains the separator into quotes",
			"the row has %d cells, the header has %d", len(row), len(header))
	}
	return emit(item{err: err, where: s.line(pe.StartLine)})
}

// join writes a row as one line of its file.
func join(row []string, comma rune) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Comma = comma
	_ = w.Write(row) // a Builder takes everything
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// decodeRow makes a task of a row whose columns are named like the keys of a task. Empty cells are left out.
func decodeRow(columns, row []string) (task.Task, error) {
	fields := map[string]json.RawMessage{}
	for i, cell := range row {
		trimmed := strings.TrimSpace(cell)
		if trimmed == "" {
			continue
		}
		value, err := json.Marshal(cell)
		if err != nil {
			return task.Task{}, err
		}
		switch columns[i] {
		case "read_only": // spreadsheets write TRUE
			trimmed = strings.ToLower(trimmed)
			fallthrough
		case "timeout", "schema":
			if json.Valid([]byte(trimmed)) {
				value = json.RawMessage(trimmed)
			}
		}
		fields[columns[i]] = value
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return task.Task{}, err
	}
	return task.Decode(data)
}
