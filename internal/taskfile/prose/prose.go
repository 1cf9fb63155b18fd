// Package prose tells a text from a list of tasks, so that a document is not run line by line.
package prose

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// documents are extensions of files that hold no list of tasks, with what they hold. Some people keep lists in
// Markdown: there the content decides.
var documents = map[string]string{
	".html": "a web page", ".htm": "a web page", ".xml": "XML", ".tex": "a document", ".pdf": "a document",
	".doc": "a document", ".docx": "a document", ".odt": "a document", ".rtf": "a document", ".ipynb": "a notebook",
	".yaml": "YAML, which is not read as tasks", ".yml": "YAML, which is not read as tasks",
	".toml": "TOML, which is not read as tasks",
	".go":   "source code", ".py": "source code", ".js": "source code", ".ts": "source code", ".c": "source code",
	".h": "source code", ".cc": "source code", ".cpp": "source code", ".java": "source code", ".rs": "source code",
	".rb": "source code", ".sh": "source code", ".php": "source code", ".css": "source code",
}

// markup are extensions of texts with headings and paragraphs.
var markup = []string{".md", ".markdown", ".rst", ".adoc", ".org"}

// Seen returns what the content of a file is if it is no list of tasks, such as "source code"; otherwise "". head is
// its beginning.
func Seen(name, head string) string {
	ext := strings.ToLower(filepath.Ext(name))
	if what := documents[ext]; what != "" {
		return what
	}
	if saw := evidence(head, slices.Contains(markup, ext)); saw != "" {
		return "a text, and no list of tasks: " + saw
	}
	return ""
}

// evidence returns what shows that a text is prose, or "". It errs on the side of a list: in a text of unknown kind
// only paragraphs of wrapped lines, fences, a web page and several headings count. In a file that is marked as markup,
// one heading or one paragraph is enough.
func evidence(head string, marked bool) string {
	start := strings.ToLower(strings.TrimSpace(head[:min(len(head), 200)]))
	for _, page := range []string{"<!doctype", "<html", "<?xml"} {
		if strings.HasPrefix(start, page) {
			return "it begins with " + page
		}
	}
	lines := strings.Split(strings.ReplaceAll(head, "\r\n", "\n"), "\n")
	headings, fences, wrapped := 0, 0, 0
	heading := ""
	for i, line := range lines {
		next, before := "", ""
		if i+1 < len(lines) {
			next = lines[i+1]
		}
		if i > 0 {
			before = lines[i-1]
		}
		switch {
		case isHeading(line) && (marked || blank(next) && blank(before)), isUnderline(next) && isTitle(line, next):
			headings++
			if heading == "" {
				heading = fmt.Sprintf("line %d is the heading %.40q", i+1, line)
			}
		case strings.HasPrefix(line, "```"):
			fences++
		}
	}
	paragraphs := paragraphsOf(lines)
	for _, p := range paragraphs {
		if isWrapped(p.lines) {
			wrapped++
		}
	}
	switch {
	case headings > 0 && (marked || headings > 1):
		return heading
	case fences > 1:
		return "it has blocks of code between lines of ```"
	case wrapped > 1 || wrapped == 1 && (marked || len(paragraphs) > 2 || headings > 0):
		i := slices.IndexFunc(paragraphs, func(p paragraph) bool { return isWrapped(p.lines) })
		return fmt.Sprintf("line %d begins a paragraph of several lines", paragraphs[i].line)
	}
	return ""
}

func blank(line string) bool { return strings.TrimSpace(line) == "" }

// isHeading reports whether line is a heading of Markdown or AsciiDoc.
func isHeading(line string) bool {
	for _, mark := range []string{"#", "="} {
		rest := strings.TrimLeft(line, mark)
		if level := len(line) - len(rest); level > 0 && level <= 6 && strings.HasPrefix(rest, " ") && !blank(rest) {
			return true
		}
	}
	return false
}

// isUnderline reports whether line is what stands below a title.
func isUnderline(line string) bool {
	line = strings.TrimRight(line, " ")
	return len(line) >= 3 && strings.ContainsAny(line[:1], "=-~") && strings.Trim(line, line[:1]) == ""
}

// isTitle reports whether line is a title with that underline.
func isTitle(line, underline string) bool {
	n := utf8.RuneCountInString(strings.TrimSpace(line))
	return n > 0 && n <= len(underline)+1 && len(underline) <= n+3 && !isUnderline(line)
}

// paragraph is some lines without a blank one. line is the number of the first.
type paragraph struct {
	line  int
	lines []string
}

func paragraphsOf(lines []string) []paragraph {
	var all []paragraph
	open := false
	for i, line := range lines {
		if blank(line) {
			open = false
			continue
		}
		if !open {
			all = append(all, paragraph{line: i + 1})
		}
		open = true
		p := &all[len(all)-1]
		p.lines = append(p.lines, line)
	}
	return all
}

// isWrapped reports whether lines are sentences that were broken into lines of about one width: they begin with no
// small letter and end with the end of a sentence, most lines go on in the next one, and only the last is much shorter.
func isWrapped(lines []string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimSpace(lines[0]))
	last := strings.TrimRight(lines[len(lines)-1], " *_`\"')]")
	if len(lines) < 3 || unicode.IsLower(first) || !strings.ContainsAny(last[max(len(last)-1, 0):], ".!?:") {
		return false
	}
	width := 0
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line))
	}
	if width < 40 || width > 200 {
		return false
	}
	over := 0 // lines that go on in the next one
	for i, line := range lines[:len(lines)-1] {
		if utf8.RuneCountInString(line)*10 < width*7 {
			return false
		}
		next, _ := utf8.DecodeRuneInString(strings.TrimSpace(lines[i+1]))
		if !strings.ContainsAny(line[len(line)-1:], ".!?:;") && !unicode.IsUpper(next) {
			over++
		}
	}
	return over*2 >= len(lines)-1
}
