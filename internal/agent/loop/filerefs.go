package loop

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"qq/pkg/task"
)

// Limits of the search for references in one answer: what lies beyond is not
// looked at.
const (
	maxRefPath  = 512  // bytes
	maxGuesses  = 32   // places where the path of one reference may begin
	maxLookups  = 5000 // different paths
	maxRefFault = 10   // faults that are listed
)

// fileRefs checks that answers refer to lines of files that exist. A nil fileRefs
// accepts all of them.
type fileRefs struct {
	files   Files
	sent    int    // times that an answer was sent back
	problem string // of the last answer, or ""
}

func newFileRefs(files Files) *fileRefs {
	if files == nil {
		return nil
	}
	return &fileRefs{files: files}
}

// repair checks an answer. It returns what to tell the model when it shall try
// again, or "".
func (f *fileRefs) repair(text string) string {
	if f.accept(text) || f.sent == repairs {
		return ""
	}
	f.sent++
	return "Your answer needs references to lines of files, written path:line. What is wrong: " + f.problem +
		". Answer again, as a whole, with lines that you have seen."
}

// accept checks an answer, and keeps what is wrong with it. At least one
// reference must be right, and none may name a line that its file does not have.
// Names of no file count for nothing: they may be times or ports. An empty answer
// is wrong in another way.
func (f *fileRefs) accept(text string) bool {
	if f == nil {
		return true
	}
	f.problem = ""
	if strings.TrimSpace(text) == "" {
		return true
	}
	finder := refFinder{text: text, files: f.files, known: map[string]int{}}
	right := false
	var faults []string
	listed := map[string]bool{}
	for _, ref := range finder.find() {
		fault := ref.fault()
		right = right || fault == ""
		if fault != "" && !listed[fault] {
			listed[fault] = true
			faults = append(faults, fault)
		}
	}
	if !right && len(faults) == 0 {
		faults = append([]string{"no reference: give path:line for each claim"}, finder.strangers...)
	}
	if more := len(faults) - maxRefFault; more > 0 {
		faults = append(faults[:maxRefFault], fmt.Sprintf("and %d more", more))
	}
	f.problem = strings.Join(faults, "; ")
	return f.problem == ""
}

// fileRef is one reference to a file that exists.
type fileRef struct {
	path        string
	where       string // as it was written, behind the colon
	first, last int
	lines       int // of the file
}

// fault says what is wrong with r, or "".
func (r fileRef) fault() string {
	if min(r.first, r.last) >= 1 && max(r.first, r.last) <= r.lines {
		return ""
	}
	unit := "lines"
	if r.lines == 1 {
		unit = "line"
	}
	return fmt.Sprintf("%s does not exist: the file has %d %s", task.Shorten(r.path+":"+r.where, 200), r.lines, unit)
}

// refFinder finds references in a text. Where a path begins cannot be told from
// the text alone, so whatever may be one is looked up.
type refFinder struct {
	text      string
	files     Files
	known     map[string]int // lines of the paths that were looked up, -1 for no file
	strangers []string       // what looks like a reference to a file that is not there
}

func (f *refFinder) find() (refs []fileRef) {
	for at := 0; ; {
		colon := strings.IndexByte(f.text[at:], ':')
		if colon < 0 {
			return refs
		}
		at += colon
		p, ok := parsePlace(f.text[at:])
		if !ok {
			at++
			continue
		}
		before, whole := lineBefore(f.text[:at])
		path, found := f.file(before, whole)
		end := at + 1 + len(p.text)
		switch {
		case found:
			refs = append(refs, fileRef{path, p.text, p.first, p.last, f.known[path]})
		case looksLikePath(path) && len(f.strangers) < 3:
			f.strangers = append(f.strangers, fmt.Sprintf("%s names no file", task.Shorten(path+":"+p.text, 200)))
		}
		at = end
	}
}

// file is the longest file name that before, a part of a line, ends with. It
// returns the last word where there is none.
func (f *refFinder) file(before string, whole bool) (path string, found bool) {
	space := max(0, strings.LastIndexFunc(before, unicode.IsSpace))
	word := strings.TrimLeftFunc(before[space:], unicode.IsSpace)
	if strings.Contains(word, "://") {
		return "", false
	}
	// The name alone may be in a code span or a link: `a.go`:12.
	name := strings.TrimRight(before, "`'\"*_)]>")
	for _, b := range []string{before, name} {
		for _, path := range guesses(b, whole) {
			if f.exists(path) {
				return path, true
			}
		}
		if name == before {
			break
		}
	}
	return strings.Trim(word, "`'\"*_()[]{}<>,;"), false
}

func (f *refFinder) exists(path string) bool {
	if strings.TrimSpace(path) != path || !strings.ContainsFunc(path, unicode.IsLetter) {
		return false
	}
	lines, seen := f.known[path]
	if !seen && len(f.known) < maxLookups {
		n, ok := f.files.Lines(path)
		if lines = n; !ok {
			lines = -1
		}
		f.known[path] = lines
		seen = true
	}
	return seen && lines >= 0
}

// guesses lists what may be a path at the end of a part of a line, the longest
// first. A path with spaces must begin behind a mark that encloses it, or at the
// beginning of the line (which whole tells is there).
func guesses(before string, whole bool) (paths []string) {
	inWord := true
	for i := len(before); i > 0 && len(paths) < maxGuesses; {
		r, size := utf8.DecodeLastRuneInString(before[:i])
		space := unicode.IsSpace(r)
		if inWord && (space || strings.ContainsRune("'*_{,;:=|@", r)) || strings.ContainsRune("`\"([<“„‘«", r) {
			paths = append(paths, before[i:])
		}
		inWord = inWord && !space
		i -= size
	}
	if whole {
		paths = append(paths, before)
	}
	slices.Reverse(paths)
	return paths
}

// lineBefore is the end of text behind its last line break, and whether that is
// all of it.
func lineBefore(text string) (before string, whole bool) {
	cut := max(0, len(text)-maxRefPath)
	for cut > 0 && cut < len(text) && !utf8.RuneStart(text[cut]) {
		cut++
	}
	window := text[cut:]
	start := strings.LastIndexAny(window, "\r\n") + 1
	return window[start:], start > 0 || cut == 0
}

func looksLikePath(s string) bool {
	return strings.ContainsAny(s, "./") && strings.ContainsFunc(s, unicode.IsLetter)
}

// place is where in a file a reference leads.
type place struct {
	text        string
	first, last int
}

// parsePlace reads :line, :line-line or :line:column from the beginning of s.
func parsePlace(s string) (place, bool) {
	end := 1 + digits(s[1:])
	first := s[1:end]
	p := place{text: first, first: lineNumber(first), last: lineNumber(first)}
	if first == "" || !endsNumber(s[end:]) {
		return place{}, false
	}
	for _, sep := range []string{"-", "–", ":"} {
		rest, ok := strings.CutPrefix(s[end:], sep)
		n := digits(rest)
		if !ok || n == 0 || !endsNumber(rest[n:]) {
			continue
		}
		p.text = s[1 : end+len(sep)+n]
		if sep != ":" {
			p.last = lineNumber(rest[:n])
		}
	}
	return p, true
}

// digits is how many digits s begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// lineNumber is the value of digits, or more than any file has lines.
func lineNumber(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return math.MaxInt
	}
	return n
}

// endsNumber reports whether a line number may be followed by s: 12:30pm and
// 1:2.5 have none.
func endsNumber(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && (r != '.' || digits(s[1:]) == 0)
}

// wording is the text of an answer without the marks of JSON.
func wording(text string, structured json.RawMessage) string {
	var v any
	if structured == nil || json.Unmarshal(structured, &v) != nil {
		return text
	}
	var b strings.Builder
	var collect func(any)
	collect = func(v any) {
		switch v := v.(type) {
		case string:
			b.WriteString(v + "\n")
		case []any:
			for _, sub := range v {
				collect(sub)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				b.WriteString(key + "\n")
				collect(v[key])
			}
		}
	}
	collect(v)
	return b.String()
}
