package taskfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"qq/internal/taskfile/parts"
	"qq/pkg/picture"
	"qq/pkg/spelling"
	"qq/pkg/task"
)

// template is a text with placeholders.
type template []part

// part is literal text, or a placeholder of that kind.
type part struct {
	kind kind
	text string // as it is written
	cell int    // index of the cell
	how  string // what of a value is meant: "" for all of it, or one of [forms]
}

type kind int

const (
	literal kind = iota
	whole        // {}
	number       // {#}
	slot         // {%}
	cell         // {column} or {1}
)

// forms are the endings of a placeholder that take a part of a path. A longer one stands before one that it ends with.
var forms = []string{"//", "/.", "/", "."}

// names are what placeholders may name, besides those that every template has.
type names struct {
	columns []string // of a CSV row or an object; nil if the input has none
	inputs  int      // how many inputs a task has: {1} is the first; 0 means one, or the columns of a row
}

// numbered returns how many values have a number.
func (k names) numbered() int {
	switch {
	case k.inputs > 0:
		return k.inputs
	case k.columns == nil:
		return 1
	}
	return len(k.columns)
}

// anyNumber is names.inputs if each task may have another number of them.
const anyNumber = 1 << 30

// parseTemplate parses a template for inputs with these names.
func parseTemplate(text string, known names) (template, error) {
	var t template
	start := 0 // of the literal text before i
	placed := false
	for i := 0; i < len(text); i++ {
		if text[i] != '{' {
			continue
		}
		length := strings.IndexAny(text[i+1:], "{}")
		if length < 0 {
			break
		}
		end := i + 1 + length
		if text[end] == '{' {
			i = end - 1 // the inner one may be a placeholder
			continue
		}
		end++
		if i > 0 && text[i-1] == '{' {
			continue // code, or a template of another language
		}
		p, err := known.placeholder(text[i+1:end-1], text[:i])
		if err != nil {
			return nil, err
		}
		if p.kind == literal {
			continue // a brace that stays
		}
		if i > start {
			t = append(t, part{text: text[start:i]})
		}
		p.text = text[i:end]
		t = append(t, p)
		placed = placed || p.kind == whole || p.kind == cell
		start, i = end, end-1
	}
	if start < len(text) {
		t = append(t, part{text: text[start:]})
	}
	if !placed {
		t = append(t, part{text: " "}, part{kind: whole})
	}
	return t, nil
}

// placeholder returns what {name} stands for, after the text before. It is literal text if nobody can have meant it as
// a placeholder.
func (k names) placeholder(name, before string) (part, error) {
	switch name { // whatever the columns are called: the same template means the same with any table
	case "":
		return part{kind: whole}, nil
	case "#":
		return part{kind: number}, nil
	case "%":
		return part{kind: slot}, nil
	}
	if i := slices.Index(k.columns, name); i >= 0 {
		return part{kind: cell, cell: i}, nil
	}
	stem, how := name, ""
	for _, form := range forms {
		if before, ok := strings.CutSuffix(name, form); ok {
			stem, how = before, form
			break
		}
	}
	if stem == "" {
		return part{kind: whole, how: how}, nil
	}
	if i := slices.Index(k.columns, stem); i >= 0 {
		return part{kind: cell, cell: i, how: how}, nil
	}
	// {-1} and {##} of GNU parallel are not offered; where a task has several inputs, they are no text either.
	digits := strings.TrimPrefix(stem, "-")
	isNumber := digits != "" && strings.Trim(digits, "0123456789") == ""
	if isNumber && k.inputs == 0 && isCount(before) {
		return part{}, nil
	}
	if isNumber || name == "##" && k.inputs > 0 {
		n, err := strconv.Atoi(stem)
		if err == nil && n >= 1 && n <= k.numbered() {
			return part{kind: cell, cell: n - 1, how: how}, nil
		}
		if k.inputs > 0 || n >= 1 && n <= 9 {
			return part{}, k.noInput(name)
		}
		return part{}, nil
	}
	if isWord(name) {
		return part{}, k.unknown(name)
	}
	return part{}, nil
}

// isCount reports whether a number in braces after this text may be code: the count of a regular expression, as in
// \d{4}, or a parameter of a shell, as in ${1}.
func isCount(before string) bool {
	r, _ := utf8.DecodeLastRuneInString(before)
	return before != "" && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("]).$", r))
}

// isWord reports whether a name in braces was probably meant as a column.
func isWord(name string) bool {
	return name != "" && !unicode.IsDigit(rune(name[0])) && name[0] != '-' &&
		!strings.ContainsFunc(name, func(r rune) bool {
			return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		})
}

const literalBraces = "braces that are text are written {{%s}} or { %s }"

func (k names) unknown(name string) error {
	if k.columns == nil {
		hint := fmt.Sprintf("known are {} {#} {%%} {/} {//} {.} {/.}; columns come from CSV or JSON Lines; "+
			literalBraces, name, name)
		return task.Hinted(hint, "the template names {%s}, and the input has no columns", name)
	}
	hint := "the columns are " + list(k.columns)
	if near := spelling.Nearest(name, k.columns); near != "" {
		hint = fmt.Sprintf("did you mean {%s}? ", near) + hint
	}
	return task.Hinted(hint+"; "+fmt.Sprintf(literalBraces, name, name),
		"the template names {%s}, which is no column", name)
}

func (k names) noInput(name string) error {
	have, hint := fmt.Sprintf("a task has %d inputs", k.inputs), "{1} is the first; {} stands for all; "
	switch {
	case k.inputs == anyNumber:
		have = "columns are numbered from 1"
	case k.inputs == 1:
		have = "a task has one input"
	case k.inputs == 0 && k.columns == nil:
		have, hint = "a task has one input", "{} stands for it; --colsep makes columns of a line, and -n, ::: A ::: B "+
			"or CSV make tasks of several inputs; "
	case k.inputs == 0 && len(k.columns) == 1:
		have, hint = "a row has one column", "it is "+k.columns[0]+"; "
	case k.inputs == 0:
		have, hint = fmt.Sprintf("a row has %d columns", len(k.columns)), "the columns are "+list(k.columns)+"; "
	}
	return task.Hinted(hint+fmt.Sprintf(literalBraces, name, name), "the template names {%s}, and %s", name, have)
}

// list returns the names of columns for a message, at most 20.
func list(columns []string) string {
	named := slices.DeleteFunc(slices.Clone(columns), func(s string) bool { return s == "" })
	if len(named) > 20 {
		named = append(named[:20], "…")
	}
	return strings.Join(named, ", ")
}

// row is what the placeholders of one task are replaced by.
type row struct {
	Text    string   // of {}
	Columns []string // names of Cells; nil if these have numbers only
	Cells   []string // of {column} or {1}
	Inputs  int      // see names.inputs
	Files   []string // absolute paths of the files that it is made of
	Broken  string   // why the task cannot be run; empty if it can
	Images  []picture.Image
}

func (r row) names() names { return names{r.Columns, r.Inputs} }

// all returns the value of {}, {/} and so on: of each input, where a task has several.
func (r row) all(how string) string {
	if how == "" || r.Inputs == 0 {
		return parts.Of(r.Text, how)
	}
	values := make([]string, len(r.Cells))
	for i, c := range r.Cells {
		values[i] = parts.Of(c, how)
	}
	return strings.Join(values, " ")
}

var errLong = errors.New("longer than 16 MiB: put documents into files")

// task returns the task that t becomes with the placeholders filled in. {%} stays: its places are noted in the task. It
// returns an error if the text is too long or not valid, or if r has no such input.
func (t template) task(r row, n int) (task.Task, error) {
	var b strings.Builder
	made := task.Task{Broken: r.Broken, Images: r.Images}
	if len(r.Files) > 0 {
		made.File, made.OtherFiles = r.Files[0], r.Files[1:]
	}
	for _, p := range t {
		text := p.text
		switch p.kind {
		case whole:
			text = r.all(p.how)
		case number:
			text = strconv.Itoa(n)
		case slot:
			made.Slots = append(made.Slots, b.Len())
		case cell:
			if p.cell >= len(r.Cells) {
				return task.Task{}, task.Hinted("{} stands for what there is; or mend the input",
					"the template names %s, and the task has only %d of them", p.text, len(r.Cells))
			}
			text = parts.Of(r.Cells[p.cell], p.how)
		}
		if b.Len()+len(text) > task.MaxText { // before a large text is copied many times
			return task.Task{}, errLong
		}
		b.WriteString(text)
	}
	made.Text, made.Input = b.String(), r.all("")
	return made, made.Validate()
}

// filler makes tasks of rows. It parses the template again only when the names change.
type filler struct {
	text   string
	known  names
	parsed template
}

func (f *filler) task(r row, n int) (task.Task, error) {
	if f.parsed == nil || f.known.inputs != r.Inputs || !slices.Equal(f.known.columns, r.Columns) {
		parsed, err := parseTemplate(f.text, r.names())
		if err != nil {
			return task.Task{}, err
		}
		f.known, f.parsed = r.names(), parsed
	}
	return f.parsed.task(r, n)
}
