package taskfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"qq/pkg/task"
)

// template is a text with placeholders.
type template []part

// part is literal text, or a placeholder of that kind.
type part struct {
	kind   kind
	text   string
	column int
}

type kind int

const (
	literal kind = iota
	whole        // {}
	number       // {#}
	cell         // {column}
)

// values holds what the placeholders of one task are replaced by.
type values struct {
	item   string
	number int
	cells  []string
}

// parseTemplate parses a template. columns are the names of a CSV's columns; nil means that the input is no CSV.
func parseTemplate(text string, columns []string) (template, error) {
	var t template
	start := 0 // of the literal text before i
	add := func(p part, from, to int) {
		if from > start {
			t = append(t, part{text: text[start:from]})
		}
		t = append(t, p)
		start = to
	}
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
		name := text[i+1 : end]
		end++
		column := slices.Index(columns, name)
		switch {
		case name == "":
			add(part{kind: whole}, i, end)
			placed = true
		case name == "#":
			add(part{kind: number}, i, end)
		case column >= 0:
			add(part{kind: cell, column: column}, i, end)
			placed = true
		case columns != nil && word(name):
			return nil, task.Hinted(fmt.Sprintf("the columns are %s", list(columns)),
				"the template names {%s}, which is no column", name)
		default:
			continue // a brace that stays
		}
		i = end - 1
	}
	if start < len(text) {
		t = append(t, part{text: text[start:]})
	}
	if !placed {
		t = append(t, part{text: " "}, part{kind: whole})
	}
	return t, nil
}

// word reports whether a name in braces was probably meant as a column.
func word(name string) bool {
	return !unicode.IsDigit(rune(name[0])) && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// list returns the names of columns for a message, at most 20.
func list(columns []string) string {
	named := slices.DeleteFunc(slices.Clone(columns), func(s string) bool { return s == "" })
	if len(named) > 20 {
		named = append(named[:20], "…")
	}
	return strings.Join(named, ", ")
}

var errLong = errors.New("longer than 1 MiB: put documents into files")

// task returns the task that t becomes with the placeholders filled in. It returns an error if its text is too long
// or not valid.
func (t template) task(v values) (task.Task, error) {
	var b strings.Builder
	for _, p := range t {
		text := p.text
		switch p.kind {
		case whole:
			text = v.item
		case number:
			text = strconv.Itoa(v.number)
		case cell:
			text = v.cells[p.column]
		}
		if b.Len()+len(text) > task.MaxText { // before a large text is copied many times
			return task.Task{}, errLong
		}
		b.WriteString(text)
	}
	made := task.Task{Text: b.String(), Input: v.item}
	return made, made.Validate()
}
