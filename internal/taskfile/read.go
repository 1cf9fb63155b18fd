package taskfile

import (
	"bufio"
	"bytes"
	"cmp"
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

// notUTF8 is why a task with such an input cannot be run.
const notUTF8 = "its input is not valid UTF-8\n" +
	"hint: convert it, for example: iconv -f LATIN1 -t UTF-8; rename a file that is called so"

// text returns the row of one file, line or value.
func text(s string) *row {
	if !utf8.ValidString(s) {
		s = escaped(s)
		return &row{Text: s, Cells: []string{s}, Broken: notUTF8}
	}
	return &row{Text: s, Cells: []string{s}}
}

// escaped returns s if it is UTF-8. Otherwise it returns s with each byte that is not UTF-8, and each NUL, as \xff.
func escaped(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == 0 || r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unreadable returns the task of a line that is not UTF-8.
func unreadable(line []byte) task.Task {
	return task.Task{Text: task.Shorten(escaped(string(line)), 1000), Broken: notUTF8}
}

// eachLine emits what parse makes of each line that is not blank, or its error.
func (s Source) eachLine(r io.Reader, parse func(line []byte) item, emit emit) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxItem+2) // with the end of the line
	if s.Null {
		lines.Split(scanNull)
	}
	n := 1
	for ; lines.Scan(); n++ {
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		it := parse(line)
		it.where = s.line(n)
		if err := emit(it); err != nil {
			return err
		}
	}
	return s.stopped(lines.Err(), s.line(n), emit)
}

// scanNull is a bufio.SplitFunc for texts that end with a NUL.
func scanNull(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
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

// lines emits the task or the row of each line.
func (s Source) lines(r io.Reader, emit emit) error {
	readable, first := false, ""
	err := s.eachLine(r, func(line []byte) item {
		readable = readable || utf8.Valid(line)
		switch {
		case bytes.IndexByte(line, 0) < 0:
		case utf8.Valid(line):
			return item{err: task.Hinted("inputs that end with a NUL, as those of find -print0, need -0",
				"task contains a NUL character")}
		default:
			return item{err: errBinary}
		}
		switch {
		case s.Template != "":
			return item{row: s.columns(text(string(line)))}
		case !utf8.Valid(line):
			return item{task: unreadable(line)}
		}
		t := task.Task{Text: string(line)}
		return item{task: t, err: t.Validate()}
	}, func(it item) error {
		first = cmp.Or(first, it.where)
		return emit(it)
	})
	if err == nil && s.Template == "" && !readable && first != "" { // the whole file has another encoding
		return fmt.Errorf("task 1 (%s): %w", first, errNotUTF8)
	}
	return err
}

// columns returns r with the columns of its text, if lines have columns.
func (s Source) columns(r *row) *row {
	if s.Columns != nil {
		r.Cells, r.Inputs = s.Columns.Split(r.Text, -1), anyNumber
		r.Text = strings.Join(r.Cells, " ")
	}
	return r
}

// jsonLines emits a task, or a row for the template, for each line, which must be a JSON object.
func (s Source) jsonLines(r io.Reader, emit emit) error {
	return s.eachLine(r, func(line []byte) (it item) {
		if !utf8.Valid(line) {
			return item{task: unreadable(line)}
		}
		if s.Template != "" {
			it.row, it.err = object(line)
			return it
		}
		it.task, it.err = task.Decode(line)
		if it.err != nil && !json.Valid(line) {
			it.err = notObject(line)
		}
		return it
	}, emit)
}

// csv emits a task, or a row for the template, for each row below the header.
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
	if s.Template != "" {
		if _, err = parseTemplate(s.Template, names{columns: header}); err != nil {
			return err
		}
	}
	for line := 1; ; {
		m.left = maxItem
		cells, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.badRow(err, cells, header, line, emit)
		}
		if !slices.ContainsFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) != "" }) {
			continue // spreadsheets end with rows of commas
		}
		line, _ = rows.FieldPos(0)
		it := item{where: s.line(line)}
		switch {
		case slices.ContainsFunc(cells, func(cell string) bool { return !utf8.ValidString(cell) }):
			it.task = unreadable([]byte(join(cells, comma)))
		case s.Template != "":
			it.row = &row{Text: join(cells, comma), Columns: header, Cells: cells}
		default:
			it.task, it.err = decodeRow(header, cells)
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
		case "timeout", "schema", "priority":
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
