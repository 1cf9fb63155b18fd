// Package editor edits a text of several lines with the keys of a person, and renders it. It reads and writes nothing.
//
// A [Editor] gets one key after the other ([Editor.Press]) and says what that asks of the program: an [Action].
// [Editor.Render] returns the lines that show the text at a given width, and where the cursor is. Characters are
// those that a person sees (grapheme clusters). A long paste is one piece, shown as its size; it is moved over and
// removed like one character, and [Editor.Text] has all of it.
//
// The keys are those of shells: arrows, Home, End, Control-A E B F P N, words with Alt-B F D, Control-W, Control-K U Y
// to cut and paste, Control-R to search the [History], Tab to complete, Alt-Enter or Control-J for a new line.
package editor

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"qq/internal/app/columns"
	"qq/internal/terminal/keys"
)

// Action is what a key asks of the program.
type Action int

// The actions. Most keys only edit.
const (
	None      Action = iota
	Submit           // Enter: take the text, then [Editor.Reset]
	Interrupt        // Control-C
	Leave            // Control-D with nothing typed
	Suspend          // Control-Z
	Clear            // Control-L
	Back             // Escape, with nothing of the editor to leave
)

// Completer knows how words go on.
type Completer interface {
	// Complete returns the possible ends of text, the text before the cursor. Each replaces text[from:].
	Complete(text string) (from int, candidates []string)
}

// Editor is a text with a cursor.
type Editor struct {
	History   *History
	Completer Completer // nil completes nothing

	pieces []piece
	at     int // the cursor is before this piece
	killed []piece
	goal   int // column that Up and Down aim at; -1 means that of the cursor
	width  int // of the last Render

	place  int     // in the history; its length means that the text is new
	draft  []piece // the new text while an old one is shown
	search *search // nil while nothing is searched
	offers *offers // nil while nothing is completed
	added  bool    // the last key cut something: what the next one cuts is added
}

// piece is a character, or a paste that is shown as its label.
type piece struct{ text, label string }

// newline ends a line.
var newline = piece{text: "\n"}

// Pastes that are longer than this are one piece.
const (
	maxTyped = 1000 // bytes
	maxLines = 10
)

// New returns an empty Editor.
func New(h *History, c Completer) *Editor {
	e := &Editor{History: h, Completer: c, width: 80}
	e.Reset()
	return e
}

// Reset empties the editor for the next text.
func (e *Editor) Reset() {
	e.pieces, e.at, e.goal = nil, 0, -1
	e.place, e.draft = e.History.Len(), nil
	e.search, e.offers, e.added = nil, nil, false
}

// Text returns the whole text, pastes included.
func (e *Editor) Text() string { return text(e.pieces) }

// Shown returns the text as it is shown: with the labels of pastes.
func (e *Editor) Shown() string {
	var b strings.Builder
	for _, p := range e.pieces {
		b.WriteString(p.shown())
	}
	return b.String()
}

// Empty reports whether there is no text.
func (e *Editor) Empty() bool { return len(e.pieces) == 0 }

// SetText replaces the text. The cursor is at its end.
func (e *Editor) SetText(s string) {
	e.pieces = split(s)
	e.at, e.goal = len(e.pieces), -1
}

func text(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.text)
	}
	return b.String()
}

func (p piece) shown() string {
	if p.label != "" {
		return p.label
	}
	return p.text
}

// split returns s as pieces: as one if it is long, else as characters.
func split(s string) []piece {
	lines := strings.Count(s, "\n")
	if !strings.HasSuffix(s, "\n") {
		lines++
	}
	if len(s) > maxTyped || lines > maxLines {
		return []piece{{s, label(len(s), lines)}}
	}
	var pieces []piece
	for s != "" {
		n := 1
		if s[0] >= ' ' { // no mark joins a newline
			n, _ = columns.Cluster(s)
		}
		pieces, s = append(pieces, piece{text: s[:n]}), s[n:]
	}
	return pieces
}

// label names a paste by its size.
func label(size, lines int) string {
	text := fmt.Sprintf("%d bytes", size)
	switch {
	case size >= 999_950:
		text = fmt.Sprintf("%.1f MB", float64(size)/1e6)
	case size >= 1000:
		text = fmt.Sprintf("%.1f kB", float64(size)/1e3)
	}
	if lines > 1 {
		text += ", " + thousands(lines) + " lines"
	}
	return "[pasted " + text + "]"
}

// thousands returns n with a comma before every three digits.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Press handles one key.
func (e *Editor) Press(k keys.Key) Action {
	added := e.added
	e.added = false
	if e.search != nil {
		if !e.searching(k) {
			return None
		}
	}
	if e.offers != nil && e.choose(k) {
		return None
	}
	vertical := k.Code == keys.Up || k.Code == keys.Down || k.Ctrl && (k.Rune == 'p' || k.Rune == 'n')
	if !vertical {
		e.goal = -1
	}
	switch k.Code {
	case keys.Paste:
		e.insert(split(k.Text))
	case keys.Rune:
		return e.character(k, added)
	case keys.Enter:
		return e.enter(k)
	case keys.Tab:
		if !k.Shift {
			e.complete()
		}
	case keys.Escape:
		return Back
	default:
		e.function(k, added)
	}
	return None
}

// enter submits, or begins a line after a backslash and with a modifier.
func (e *Editor) enter(k keys.Key) Action {
	if k.Alt || k.Shift || k.Ctrl {
		e.insert([]piece{newline})
		return None
	}
	if e.at > 0 && e.pieces[e.at-1].text == `\` {
		e.pieces[e.at-1] = newline
		return None
	}
	return Submit
}

// function handles the keys that are no characters.
func (e *Editor) function(k keys.Key, added bool) {
	far := k.Ctrl || k.Alt
	switch k.Code {
	case keys.Left:
		e.at = e.left(far)
	case keys.Right:
		e.at = e.right(far)
	case keys.Home:
		if e.at = e.lineStart(); k.Ctrl {
			e.at = 0
		}
	case keys.End:
		if e.at = e.lineEnd(); k.Ctrl {
			e.at = len(e.pieces)
		}
	case keys.Up:
		e.up()
	case keys.Down:
		e.down()
	case keys.PageUp:
		e.recall(-1)
	case keys.PageDown:
		e.recall(1)
	case keys.Backspace:
		if far {
			e.kill(e.left(true), e.at, added)
		} else {
			e.remove(e.left(false), e.at)
		}
	case keys.Delete:
		if far {
			e.kill(e.at, e.right(true), added)
		} else {
			e.remove(e.at, e.right(false))
		}
	}
}

// character handles characters, also those with Control and Alt.
func (e *Editor) character(k keys.Key, added bool) Action {
	switch {
	case k.Ctrl:
		return e.control(k.Rune, added)
	case k.Alt:
		e.alt(k.Rune, added)
		return None
	}
	e.insert([]piece{{text: string(k.Rune)}})
	e.join()
	return None
}

func (e *Editor) control(r rune, added bool) Action {
	switch r {
	case 'c':
		return Interrupt
	case 'z':
		return Suspend
	case 'l':
		return Clear
	case 'd':
		if e.Empty() {
			return Leave
		}
		e.remove(e.at, e.right(false))
	case 'a':
		e.at = e.lineStart()
	case 'e':
		e.at = e.lineEnd()
	case 'b':
		e.at = e.left(false)
	case 'f':
		e.at = e.right(false)
	case 'p':
		e.up()
	case 'n':
		e.down()
	case 'h':
		e.remove(e.left(false), e.at)
	case 'j':
		e.insert([]piece{newline})
	case 'w':
		e.kill(e.left(true), e.at, added)
	case 'u':
		e.kill(e.lineStart(), e.at, added)
	case 'k':
		e.killLine(added)
	case 'y':
		e.insert(e.killed)
	case 't':
		e.swap()
	case 'r':
		e.startSearch()
	}
	return None
}

func (e *Editor) alt(r rune, added bool) {
	switch unicode.ToLower(r) {
	case 'b':
		e.at = e.left(true)
	case 'f':
		e.at = e.right(true)
	case 'd':
		e.kill(e.at, e.right(true), added)
	case '<':
		e.at = 0
	case '>':
		e.at = len(e.pieces)
	}
}

// insert inserts pieces at the cursor.
func (e *Editor) insert(pieces []piece) {
	e.pieces = slices.Insert(e.pieces, e.at, pieces...)
	e.at += len(pieces)
}

// join makes one character of the one before the cursor and of those around it, if they belong together: marks and
// parts of an emoji come one by one.
func (e *Editor) join() {
	for e.at > 1 && e.joined(e.at-1) {
		e.pieces[e.at-2].text += e.pieces[e.at-1].text
		e.pieces = slices.Delete(e.pieces, e.at-1, e.at)
		e.at--
	}
	if e.at > 0 && e.at < len(e.pieces) && e.joined(e.at) {
		e.pieces[e.at-1].text += e.pieces[e.at].text
		e.pieces = slices.Delete(e.pieces, e.at, e.at+1)
	}
}

// joined reports whether piece i belongs to the one before it.
func (e *Editor) joined(i int) bool {
	before, p := e.pieces[i-1], e.pieces[i]
	if before.label != "" || p.label != "" || len(p.text) == 1 || before.text[0] < ' ' {
		return false
	}
	n, _ := columns.Cluster(before.text + p.text)
	return n > len(before.text)
}

func (e *Editor) remove(from, to int) []piece {
	gone := slices.Clone(e.pieces[from:to])
	e.pieces = slices.Delete(e.pieces, from, to)
	e.at = from
	return gone
}

// kill removes pieces so that Control-Y can insert them again.
func (e *Editor) kill(from, to int, added bool) {
	if from == to {
		e.added = added
		return
	}
	forward := from == e.at
	gone := e.remove(from, to)
	switch {
	case !added:
		e.killed = gone
	case forward:
		e.killed = append(e.killed, gone...)
	default:
		e.killed = append(gone, e.killed...)
	}
	e.added = true
}

// killLine removes the rest of the line, or its end if there is no rest.
func (e *Editor) killLine(added bool) {
	end := e.lineEnd()
	if end == e.at && end < len(e.pieces) {
		end++
	}
	e.kill(e.at, end, added)
}

// swap exchanges the two characters around the cursor.
func (e *Editor) swap() {
	at := e.at
	if at == len(e.pieces) {
		at--
	}
	if at < 1 {
		return
	}
	e.pieces[at-1], e.pieces[at] = e.pieces[at], e.pieces[at-1]
	e.at = at + 1
}

// left returns the place before the character, or the word, that is left of the cursor.
func (e *Editor) left(word bool) int {
	at := e.at
	if !word {
		return max(0, at-1)
	}
	for at > 0 && !e.pieces[at-1].inWord() {
		at--
	}
	for begun := at; at > 0 && e.pieces[at-1].inWord(); at-- {
		if e.pieces[at-1].label != "" && at < begun {
			break
		}
	}
	return at
}

// right returns the place behind the character, or the word, that is right of the cursor.
func (e *Editor) right(word bool) int {
	at := e.at
	if !word {
		return min(len(e.pieces), at+1)
	}
	for at < len(e.pieces) && !e.pieces[at].inWord() {
		at++
	}
	for at < len(e.pieces) && e.pieces[at].inWord() {
		at++
	}
	return at
}

func (p piece) inWord() bool {
	r, _ := utf8.DecodeRuneInString(p.text)
	return p.label != "" || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// lineStart returns where the line of the cursor begins.
func (e *Editor) lineStart() int {
	at := e.at
	for at > 0 && e.pieces[at-1] != newline {
		at--
	}
	return at
}

// lineEnd returns where the line of the cursor ends.
func (e *Editor) lineEnd() int {
	at := e.at
	for at < len(e.pieces) && e.pieces[at] != newline {
		at++
	}
	return at
}
