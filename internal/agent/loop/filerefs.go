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

// Limits of the search for references in one answer. What exceeds them is ignored.
const (
	maxRefPath  = 512  // bytes
	maxGuesses  = 32   // candidates for the path of one reference
	maxLookups  = 5000 // different paths that are looked up
	maxRefFault = 10   // faults in one message
)

// fileRefs checks that answers have references to lines that exist, written path:line,
// path:L2, path#L2 or with the word line (see linerefs.go). A nil fileRefs accepts every
// answer.
type fileRefs struct {
	files   Files
	sent    int    // how often an answer was sent back
	problem string // of the last answer, or ""
}

func newFileRefs(files Files) *fileRefs {
	if files == nil {
		return nil
	}
	return &fileRefs{files: files}
}

// repair checks an answer. It returns the message that asks the model to try again, or
// "" if the answer is right or was sent back often enough.
func (f *fileRefs) repair(text string) string {
	if f.accept(text) || f.sent == repairs {
		return ""
	}
	f.sent++
	return "Your answer needs references to lines of files, written path:line. What is wrong: " + f.problem +
		". Answer again, as a whole, with lines that you have seen."
}

// accept reports whether an answer is right, and stores the problem with it in f.problem.
// At least one reference must be right, and none may name a line that its file does not
// have. References to unknown files are ignored, because 12:30 or host:80 look like
// references. An empty answer is accepted here, because the loop fails it for being empty.
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
	where       string // the text after the path
	first, last int
	lines       int // of the file
}

// fault describes why the lines of r do not exist, or is "" if they do.
func (r fileRef) fault() string {
	if min(r.first, r.last) >= 1 && max(r.first, r.last) <= r.lines {
		return ""
	}
	unit := "lines"
	if r.lines == 1 {
		unit = "line"
	}
	return fmt.Sprintf("%s does not exist: the file has %d %s", task.Shorten(r.path+r.where, 200), r.lines, unit)
}

// refFinder finds references in a text. The text alone does not tell where a path
// begins, so every candidate is looked up.
type refFinder struct {
	text      string
	files     Files
	known     map[string]int // number of lines of each path that was looked up; -1 means no file
	strangers []string       // faults of references to files that do not exist
	worded    int            // how many references in words were looked at
}

// find returns the references to existing files, in order.
func (f *refFinder) find() (refs []fileRef) {
	for at := 0; ; {
		next := strings.IndexAny(f.text[at:], ":#lL")
		if next < 0 {
			return refs
		}
		at += next
		var length int
		var ref fileRef
		var found bool
		if f.text[at] == ':' || f.text[at] == '#' {
			ref, length, found = f.joined(at)
		} else {
			ref, length, found = f.inWords(at)
		}
		if found {
			refs = append(refs, ref)
		}
		at += max(length, 1)
	}
}

// joined returns the reference whose path ends at the colon or the hash at the offset at, and
// its length from there. The length is 0 if none can be there.
func (f *refFinder) joined(at int) (ref fileRef, length int, found bool) {
	p, ok := parsePlace(f.text[at:])
	if !ok {
		return ref, 0, false
	}
	before, whole := lineBefore(f.text[:at])
	path, found := f.file(before, whole)
	length = 1 + len(p.text)
	where := f.text[at : at+length]
	if !found && looksLikePath(path) && len(f.strangers) < 3 {
		f.strangers = append(f.strangers, fmt.Sprintf("%s names no file", task.Shorten(path+where, 200)))
	}
	return fileRef{path, where, p.first, p.last, f.known[path]}, length, found
}

// file returns the path of an existing file at the end of before, the longest if there are
// several. before is the part of a line before a colon; whole tells that it starts at the
// start of the line. If there is no such file, found is false and path is the last word of
// before.
func (f *refFinder) file(before string, whole bool) (path string, found bool) {
	space := max(0, strings.LastIndexFunc(before, unicode.IsSpace))
	word := strings.TrimLeftFunc(before[space:], unicode.IsSpace)
	if strings.Contains(word, "://") {
		return "", false
	}
	// The path alone may be in a code span or a link: `a.go`:12.
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

// exists reports whether path is a file, and stores its number of lines in f.known.
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

// guesses returns the candidates for a path at the end of before, longest first. A path
// with spaces must begin after an opening quote or bracket, or at the start of the line.
// whole tells that before begins at the start of the line.
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

// lineBefore returns the last line of text, or its last maxRefPath bytes if it is longer.
// whole tells that before is the whole line.
func lineBefore(text string) (before string, whole bool) {
	cut := max(0, len(text)-maxRefPath)
	for cut > 0 && cut < len(text) && !utf8.RuneStart(text[cut]) {
		cut++
	}
	window := text[cut:]
	start := strings.LastIndexAny(window, "\r\n") + 1
	return window[start:], start > 0 || cut == 0
}

// looksLikePath reports whether s has the form of a file name.
func looksLikePath(s string) bool {
	return strings.ContainsAny(s, "./") && strings.ContainsFunc(s, unicode.IsLetter)
}

// place is the range of lines that a reference names.
type place struct {
	text        string
	first, last int
}

// parsePlace reads :line, :line-line or :line:column from the beginning of s, where an L may
// precede a line, or #Lline or #Lline-Lline. It returns false if s begins with none of them.
func parsePlace(s string) (place, bool) {
	start := 1 + letterL(s[1:])
	end := start + digits(s[start:])
	first := s[start:end]
	p := place{text: s[1:end], first: lineNumber(first), last: lineNumber(first)}
	if first == "" || s[0] == '#' && start == 1 || !endsNumber(s[end:]) {
		return place{}, false
	}
	for _, sep := range []string{"-", "–", ":"} {
		rest, ok := strings.CutPrefix(s[end:], sep)
		l := 0
		if sep != ":" {
			l = letterL(rest)
		}
		n := digits(rest[l:])
		if !ok || n == 0 || !endsNumber(rest[l+n:]) {
			continue
		}
		p.text = s[1 : end+len(sep)+l+n]
		if sep != ":" {
			p.last = lineNumber(rest[l : l+n])
		}
	}
	return p, true
}

// letterL is 1 if s begins with an L, else 0.
func letterL(s string) int {
	if strings.HasPrefix(s, "L") || strings.HasPrefix(s, "l") {
		return 1
	}
	return 0
}

// digits returns the number of digits at the beginning of s.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// lineNumber returns the value of digits, or MaxInt if it is too large.
func lineNumber(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return math.MaxInt
	}
	return n
}

// endsNumber reports whether a line number may end before s. It is false for the "pm" of
// 12:30pm and for the ".5" of 1:2.5, which are no references.
func endsNumber(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && (r != '.' || digits(s[1:]) == 0)
}

// wording returns the text in which references are searched. For an answer in JSON these
// are its keys and strings, one on each line.
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
