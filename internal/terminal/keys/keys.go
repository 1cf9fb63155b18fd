// Package keys turns the bytes that a terminal sends into keys.
//
// A terminal sends UTF-8 text, control characters, escape sequences for the other keys, and pasted text between two
// marks if it was asked for that (bracketed paste). One read may end within any of them. A [Decoder] keeps the
// beginning until the rest comes or until [Decoder.Wait] has passed: then [Decoder.Flush] takes it as it is, so that
// the key Escape, which is the first byte of all sequences, is a key too.
//
// Everything is bounded: an unfinished sequence by maxSequence, a paste by [MaxPaste]. Unknown sequences are dropped.
package keys

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"
)

// Code says which key it is.
type Code int

// The keys. A [Rune] is a character, also one with Ctrl or Alt. A [Paste] is pasted text as one piece.
const (
	Rune Code = iota
	Paste
	Enter
	Tab
	Backspace
	Delete
	Escape
	Up
	Down
	Left
	Right
	Home
	End
	PageUp
	PageDown
	Insert
)

// Key is one pressed key.
type Key struct {
	Code             Code
	Rune             rune   // of a Rune; with Ctrl it is a lower-case letter or one of @ [ \ ] ^ _ and space
	Ctrl, Alt, Shift bool   // Shift is known for other keys than characters only
	Text             string // of a Paste: valid UTF-8 with \n between the lines
	Cut              int    // of a Paste: how many bytes were dropped because it is too long
}

// MaxPaste is how many bytes of a paste are kept.
const MaxPaste = 16 << 20

const (
	maxSequence = 256 // bytes of an escape sequence

	// escapeWait is how long the rest of an escape sequence may take: over a slow line it comes in pieces.
	escapeWait = 50 * time.Millisecond
	// pasteWait is how long the rest of a paste may take. Then the end mark counts as lost.
	pasteWait = 5 * time.Second

	escape     = 0x1b
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// Decoder makes keys from bytes. The zero value is ready.
type Decoder struct {
	rest    []byte // the beginning of a character or of a sequence
	pasting bool
	paste   []byte
	cut     int
}

// Wait returns how long [Decoder.Flush] must wait for more bytes; 0 means that no key is unfinished.
func (d *Decoder) Wait() time.Duration {
	switch {
	case d.pasting:
		return pasteWait
	case len(d.rest) > 0:
		return escapeWait
	}
	return 0
}

// Feed returns the keys that are complete with p.
func (d *Decoder) Feed(p []byte) []Key { return d.decode(p, false) }

// Flush returns the keys of what is unfinished.
func (d *Decoder) Flush() []Key {
	if d.pasting {
		d.paste = append(d.paste, d.rest...)
		d.rest = nil
		return []Key{d.endPaste()}
	}
	return d.decode(nil, true)
}

// decode returns the keys in what was kept and p. With all it keeps nothing but an unfinished paste.
func (d *Decoder) decode(p []byte, all bool) (keys []Key) {
	if len(d.rest) > 0 {
		p = append(d.rest, p...)
		d.rest = nil
	}
	for len(p) > 0 {
		if d.pasting {
			end := bytes.Index(p, []byte(pasteEnd))
			if end < 0 {
				p = d.keepPaste(p)
				break
			}
			d.keep(p[:end])
			keys = append(keys, d.endPaste())
			p = p[end+len(pasteEnd):]
			continue
		}
		key, n, known := next(p, all)
		if n == 0 {
			break
		}
		if bytes.HasPrefix(p[:n], []byte(pasteBegin)) {
			d.pasting = true
		} else if known {
			keys = append(keys, key)
		}
		p = p[n:]
	}
	d.rest = bytes.Clone(p)
	return keys
}

// keepPaste keeps p, a part of a paste, and returns its end if that may be the beginning of the end mark.
func (d *Decoder) keepPaste(p []byte) (rest []byte) {
	n := min(len(p), len(pasteEnd)-1)
	for ; n > 0 && !bytes.HasPrefix([]byte(pasteEnd), p[len(p)-n:]); n-- {
	}
	d.keep(p[:len(p)-n])
	return p[len(p)-n:]
}

func (d *Decoder) keep(p []byte) {
	n := min(len(p), MaxPaste-len(d.paste))
	d.paste = append(d.paste, p[:n]...)
	d.cut += len(p) - n
}

// lineEnds are what terminals send for the end of a line.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// endPaste returns the paste. The terminal sends \r for the end of a line.
func (d *Decoder) endPaste() Key {
	text := strings.ToValidUTF8(lineEnds.Replace(string(d.paste)), string(utf8.RuneError))
	key := Key{Code: Paste, Text: text, Cut: d.cut}
	d.pasting, d.paste, d.cut = false, nil, 0
	return key
}

// next returns the first key of p and how many bytes it takes; 0 means that more bytes are needed, which is never so
// with all. known is false for a sequence that is no key.
func next(p []byte, all bool) (key Key, n int, known bool) {
	if p[0] != escape {
		return character(p, all)
	}
	if len(p) == 1 {
		if !all {
			return Key{}, 0, false
		}
		return Key{Code: Escape}, 1, true
	}
	switch p[1] {
	case escape: // the key Escape, and after it a sequence or the key again
		return Key{Code: Escape}, 1, true
	case '[':
		key, n, known = control(p, all)
	case 'O':
		key, n, known = single(p)
	case ']', 'P', '_', '^', 'X':
		n = text(p)
	default:
		key, n, known = character(p[1:], all)
		key.Alt = true
		if n > 0 {
			n++
		}
		return key, n, known
	}
	if n == 0 && all { // no sequence: Alt and a character
		return Key{Code: Rune, Rune: rune(p[1]), Alt: true}, 2, true
	}
	return key, n, known
}

// character returns the key of a character that is no escape.
func character(p []byte, all bool) (key Key, n int, known bool) {
	switch c := p[0]; {
	case c == '\r':
		return Key{Code: Enter}, 1, true
	case c == '\t':
		return Key{Code: Tab}, 1, true
	case c == 0x7f || c == '\b':
		return Key{Code: Backspace, Ctrl: c == '\b'}, 1, true
	case c == 0:
		return Key{Rune: ' ', Ctrl: true}, 1, true
	case c < 0x1b:
		return Key{Rune: rune(c) + 'a' - 1, Ctrl: true}, 1, true
	case c < 0x20:
		return Key{Rune: rune(c) + '@', Ctrl: true}, 1, true
	}
	if !utf8.FullRune(p) && !all {
		return Key{}, 0, false
	}
	r, n := utf8.DecodeRune(p)
	return Key{Rune: r}, n, r < 0x80 || r > 0x9f // not the control characters above ASCII
}

// letters are the keys that a final letter of a sequence names.
var letters = [...]struct {
	letter byte
	code   Code
}{
	{'A', Up}, {'B', Down}, {'C', Right}, {'D', Left}, {'H', Home}, {'F', End}, {'M', Enter}, {'I', Tab},
}

// numbers are the keys that the number of a sequence names, which ends with a tilde.
var numbers = [...]Code{
	1: Home, 2: Insert, 3: Delete, 4: End, 5: PageUp, 6: PageDown, 7: Home, 8: End,
}

// single returns the key of ESC O and a letter.
func single(p []byte) (key Key, n int, known bool) {
	if len(p) < 3 {
		return Key{}, 0, false
	}
	if p[2] < 0x20 || p[2] > 0x7e {
		return Key{}, 2, false
	}
	for _, l := range letters {
		if l.letter == p[2] {
			return Key{Code: l.code}, 3, true
		}
	}
	return Key{}, 3, false
}

// control returns the key of ESC [, numbers and a final byte.
func control(p []byte, all bool) (key Key, n int, known bool) {
	end := 2
	for end < len(p) && p[end] >= 0x20 && p[end] < 0x40 {
		end++
	}
	switch {
	case end > maxSequence:
		return Key{}, end, false
	case end == len(p):
		if all && end > 2 { // a sequence that was cut off
			return Key{}, end, false
		}
		return Key{}, 0, false
	case p[end] < 0x20 || p[end] > 0x7e:
		return Key{}, end, false // what follows is no part of it
	}
	var args [3]int
	given := parameters(p[2:end], &args)
	key, known = named(p[end], &args)
	if !given && end > 2 {
		known = false
	}
	if held := args[1] - 1; held > 0 {
		key.Shift = key.Shift || held&1 != 0
		key.Alt, key.Ctrl = held&2 != 0, held&4 != 0
	}
	return key, end + 1, known
}

// named returns the key that a sequence with that final byte and those numbers names.
func named(final byte, args *[3]int) (key Key, known bool) {
	switch {
	case final == 'Z':
		return Key{Code: Tab, Shift: true}, true
	case final == 'u': // a key by its character
		return ofCode(args[0])
	case final == '~' && args[0] == 27: // the same in the manner of xterm
		return ofCode(args[2])
	case final == '~':
		if args[0] > 0 && args[0] < len(numbers) {
			return Key{Code: numbers[args[0]]}, true
		}
		return Key{}, false
	case final == 'M' || final == 'I': // of the mouse, and of the focus
		return Key{}, false
	}
	for _, l := range letters {
		if l.letter == final {
			return Key{Code: l.code}, true
		}
	}
	return Key{}, false
}

// ofCode returns the key of a character.
func ofCode(r int) (key Key, known bool) {
	switch {
	case r == escape:
		return Key{Code: Escape}, true
	case r == '\r', r == '\t', r == 0x7f, r == '\b':
		key, _, known = character([]byte{byte(r)}, true)
		key.Ctrl = false
		return key, known
	case r < 0x20, r >= 0x7f && r <= 0x9f, r > utf8.MaxRune, !utf8.ValidRune(rune(r)), r >= 0xe000 && r <= 0xf8ff:
		return Key{}, false // no character, or one of the private codes for keys that are not listed here
	}
	return Key{Rune: rune(r)}, true
}

// parameters reads numbers with ; between them. After a colon follow details of a number. It returns false if there is
// something else.
func parameters(p []byte, args *[3]int) bool {
	for i, field := range bytes.Split(p, []byte{';'}) {
		field, _, _ = bytes.Cut(field, []byte{':'})
		n := 0
		for _, c := range field {
			if c < '0' || c > '9' {
				return false
			}
			n = min(n*10+int(c-'0'), 1<<24)
		}
		if i < len(args) {
			args[i] = n
		}
	}
	return true
}

// text returns how many bytes a sequence takes that carries a text, such as an answer to a question that somebody
// asked the terminal; 0 means that its end is missing.
func text(p []byte) int {
	for i := 2; i < len(p); i++ {
		switch c := p[i]; {
		case c == 0x07:
			return i + 1
		case c == escape && i+1 < len(p) && p[i+1] == '\\':
			return i + 2
		case c == escape && i+1 < len(p), i > maxSequence:
			return i // what follows is no part of it
		}
	}
	return 0
}
