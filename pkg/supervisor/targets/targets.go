// Package targets says which paths a task may touch, and which tasks may touch the same path.
//
// A [Target] is a file, a folder with all below it, or a glob. [Overlap] says whether some path is in
// two targets. An [Index] finds the targets that overlap with one without looking at all others.
//
// Targets are compared by their text. The caller makes paths absolute and follows links first: the
// package realpath does. All targets that are compared must have the same root.
//
// A glob has the syntax of doublestar: **, *, ?, [a-z], [!a-z], {a,b} and \ before a character. It
// stands for the paths that it matches, and for nothing below them: src/* and src/app/x.go have no
// path in common. A glob with [, { or \ also stands for the path that is spelled like it, with all
// below, because files may have such names: app/[id]/page.tsx. What cannot be decided overlaps, such
// as a malformed glob and anything that begins like it.
//
// The package reads no file and no clock.
package targets

import (
	"path"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Target is a set of paths. The zero Target is every path.
type Target struct {
	text   string // begins with / and does not end with one; "" is the root
	prefix int32  // each path begins with so many bytes of text
	suffix int32  // each path ends with so many bytes of text
	kind   kind
	fold   bool // case does not count
	plain  bool // of a glob: [, { and \ are characters like others
}

// kind says what the text of a Target means.
type kind uint8

const (
	folder kind = iota // the path and all below it
	file               // only the path
	glob               // what the glob matches
	loose              // every path that begins with the prefix: the glob cannot be decided
)

// meta are the characters that make a path a glob. spelled are those that names of files have, too.
const (
	meta    = `*?[{\`
	spelled = `[{\`
)

// maxGlob is how many bytes of a glob are compared. Anything that begins like a longer one overlaps with it.
const maxGlob = 512

// Parse returns the target for a path or a glob, relative to the root. With fold, case does not count,
// and neither does how a letter with an accent is composed.
func Parse(text string, fold bool) Target {
	if strings.Contains(text, "..") && strings.Contains(text, "{") {
		return Target{fold: fold} // {a,../b}: it may lead anywhere
	}
	text = strings.TrimSuffix(clean(text, fold), "/")
	for strings.HasSuffix(text, "/**/**") {
		text = text[:len(text)-3]
	}
	for strings.HasSuffix(text, "/**") && !strings.ContainsAny(text[:len(text)-3], meta) {
		text = text[:len(text)-3] // all below a folder is that folder
	}
	t := Target{text: text, prefix: int32(len(text)), fold: fold}
	i := strings.IndexAny(text, meta)
	if i < 0 {
		return t
	}
	if strings.HasPrefix(text[i:], "**") && text[i-1] == '/' {
		i-- // a/**/b matches a/b
	}
	t.prefix, t.kind = int32(i), glob
	if !strings.ContainsAny(text, spelled) {
		t.suffix = int32(len(text) - 1 - strings.LastIndexAny(text, "*?"))
	}
	decided := len(text)-i <= maxGlob
	if decided {
		_, decided = program(nil, t, i)
	}
	if !decided {
		t.kind = loose
		t.text = strings.TrimSuffix(text[:i], "/")
		t.prefix = int32(len(t.text))
	}
	return t
}

// foldRune returns the smallest of the characters that differ from r in case only.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// AsFile returns the target without what is below it. It is for a path that is known to be a file. A glob
// stays as it is.
func (t Target) AsFile() Target {
	if t.kind == folder {
		t.kind = file
	}
	return t
}

// Anything reports whether t is every path.
func (t Target) Anything() bool { return t.prefix == 0 && (t.kind == folder || t.kind == loose) }

// String returns the path or the glob.
func (t Target) String() string {
	switch {
	case t.kind == loose:
		return t.text + "**"
	case t.text == "":
		return "/"
	}
	return t.text
}

// Covers reports whether the path is in t. It returns true if that cannot be decided.
func (t Target) Covers(path string) bool { return Overlap(t, Literal(path, t.fold).AsFile()) }

// Literal returns the target for a path and all below it, whatever its characters are.
func Literal(name string, fold bool) Target {
	name = strings.TrimSuffix(clean(name, fold), "/")
	return Target{text: name, prefix: int32(len(name)), fold: fold}
}

// clean returns the form of a path in which paths are compared.
func clean(name string, fold bool) string {
	name = path.Clean("/" + name)
	if fold {
		name = strings.Map(foldRune, norm.NFC.String(name))
	}
	return name
}

// Budget is how much work is spent on globs in many comparisons. When it is used up, globs that would have to be
// compared overlap. A nil Budget has no end.
type Budget struct{ left int }

// NewBudget returns a budget for comparisons that take so many steps. A step takes some nanoseconds.
func NewBudget(steps int) *Budget { return &Budget{left: steps} }

// Spent reports whether the budget is used up.
func (w *Budget) Spent() bool { return w != nil && w.left <= 0 }

// take takes the steps from the budget. It returns false if that is more than there was.
func (w *Budget) take(steps int) bool {
	if w == nil {
		return true
	}
	w.left -= steps
	return w.left > 0
}

// Contains reports whether each path of b is in a. It may return false if that is hard to decide.
func Contains(a, b Target) bool { return (*Budget)(nil).Contains(a, b) }

// Contains is the function of that name, within the budget.
func (w *Budget) Contains(a, b Target) bool {
	begins := b.text[:b.prefix]
	switch {
	case a.kind == loose:
		return strings.HasPrefix(begins, a.text)
	case a.kind == folder && below(begins, a.text):
		return true
	case a.kind == glob && b.kind == file:
		return w.Overlap(a, b) && !w.Spent()
	case a.kind == folder && begins == a.text && b.kind == glob:
		return len(b.text) > len(begins) && b.text[len(begins)] == '/' && !strings.ContainsAny(b.text, spelled)
	}
	return a.text == b.text && (a.kind == b.kind || a.kind == folder && b.kind == file)
}

// below reports whether name is a path below the folder dir.
func below(name, dir string) bool {
	return len(name) > len(dir) && name[len(dir)] == '/' && name[:len(dir)] == dir
}

// Overlap reports whether some path is in both a and b. It returns true if that cannot be decided.
func Overlap(a, b Target) bool { return (*Budget)(nil).Overlap(a, b) }

// Overlap is the function of that name, within the budget.
func (w *Budget) Overlap(a, b Target) bool {
	n := min(a.prefix, b.prefix)
	if a.text[:n] != b.text[:n] {
		return false
	}
	if a.kind > b.kind {
		a, b = b, a
	}
	if b.kind <= file { // two paths
		return a.text == b.text || a.kind == folder && below(b.text, a.text) ||
			b.kind == folder && below(a.text, b.text)
	}
	if a.kind == folder && below(b.text[:b.prefix], a.text) {
		return true
	}
	if apart(a, b) {
		return false
	}
	return w.Spent() || w.intersect(a, b, int(n)) ||
		ambiguous(a) && w.Overlap(a.asSpelled(), b) || ambiguous(b) && w.Overlap(a, b.asSpelled())
}

// ambiguous reports whether t is a glob that may also be meant as it is spelled.
func ambiguous(t Target) bool {
	return t.kind == glob && !t.plain && strings.ContainsAny(t.text, spelled)
}

// asSpelled returns the glob t with [, { and \ as characters of names.
func (t Target) asSpelled() Target {
	if t.plain = true; !strings.ContainsAny(t.text, "*?") {
		t.kind, t.prefix = folder, int32(len(t.text))
	}
	return t
}

// apart reports whether a and the glob b have no path in common because their paths end differently.
// With false, they may or may not.
func apart(a, b Target) bool {
	if b.kind != glob {
		return false
	}
	ends := a.suffix
	switch {
	case a.kind == file:
		ends = a.prefix
	case a.kind == folder:
		if strings.Contains(b.text, "**") || strings.Contains(b.text, "{") {
			return false // it may match something in the folder
		}
		deep := strings.Count(a.text, "/") - strings.Count(b.text, "/")
		if deep != 0 {
			return deep > 0 && !strings.ContainsAny(b.text, spelled)
		}
		ends = a.prefix
	}
	n := min(ends, b.suffix)
	return a.text[len(a.text)-int(n):] != b.text[len(b.text)-int(n):]
}

// Effect is what a job can do to its targets.
type Effect uint8

// Effects. What is not known writes.
const (
	Writes Effect = iota
	Reads
	None // it touches no file, or its targets do not count
)

var effects = [...]string{"writes", "reads", "none"}

// String returns the name of the effect.
func (e Effect) String() string { return effects[e] }

// MarshalText implements [encoding.TextMarshaler].
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// Conflict reports whether a job with the effect e and one with the effect f may not touch one path at once.
func Conflict(e, f Effect) bool { return min(e, f) == Writes && e != None && f != None }
