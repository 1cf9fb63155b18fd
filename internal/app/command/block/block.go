// Package block draws a block of lines below the text of a terminal and changes it in place. It makes the bytes and
// writes none.
//
// A [Block] follows the text that is written to the terminal, so that it knows where the last row of text ends. There
// the cursor rests, and there the text goes on. The lines of the block are in the rows below that one, and only those
// that change are drawn again.
//
// After a resize nobody knows where the cursor is. Many terminals break rows that are too long now, and so push the
// last row of text off the screen, with rows of the block: when it is wider again these come back above the cursor. So
// the block is erased, what is above it leaves the screen, and the end of the text is printed again (see
// [Block.Erase]). Not promised: of such rows there are copies among the rows that have left the screen.
//
// A block of one line below a whole line of text is different: it is in the row of the cursor, which rests at its
// beginning.
package block

import (
	"bytes"
	"fmt"
	"strings"

	"qq/internal/app/columns"
)

// Wipe removes the line of the cursor.
const Wipe = "\r\x1b[K"

// Control sequences of terminals.
const (
	clear   = "\x1b[K" // from the cursor to the end of its row
	below   = "\x1b[J" // from the cursor to the end of the screen
	down    = "\x1bD"  // one row, and the screen scrolls at its end. The column stays
	save    = "\x1b7"  // the position of the cursor
	restore = "\x1b8"
	cut     = "\x1b[?7l" // what does not fit into a row is not shown: a terminal may be narrower than it has said yet
	wrap    = "\x1b[?7h"
	top     = "\x1b[2H" + below + "\x1b[H" + clear // erases the screen
	last    = "\x1b[999H"                          // moves to the last row

	// erase erases from the cursor to the end of the screen. In the first column of the screen tmux would not erase it
	// but scroll it away, so it begins behind that.
	erase = save + "\x1b[C" + below + restore + clear
)

// maxTail is how many bytes of text are kept at most, about, to be printed again.
const maxTail = 32 << 10

// tab is how many columns a tab takes at most.
const tab = 8

// Size is the size of a terminal; zero means that it is not known.
type Size struct{ Columns, Rows int }

// Block is the block of one terminal. The zero value is one that is not drawn, below an empty row.
type Block struct {
	used  int      // columns of the last row of text
	most  int      // columns that the last line of text takes at most
	size  Size     // of the terminal when the lines were drawn
	lines []string // that are drawn
	row   bool     // the only line is in the row of the cursor
	moved bool     // a resize may have moved rows of the block to above the cursor
	tall  int      // rows of the terminal, at most so far
	tail  []byte   // the end of the text
	rows  int      // that text has begun
	ended bool     // the last row of text was full and the block has ended it: a newline that follows is that one
}

// Lines returns how many lines are drawn.
func (b *Block) Lines() int { return len(b.lines) }

// Forget forgets what is on the screen. The cursor is in an empty row.
func (b *Block) Forget() { *b = Block{moved: b.moved, size: b.size, tall: b.tall} }

// Resized says that the size has changed, even if it is the same again.
func (b *Block) Resized() { b.size = Size{} }

// Wrote follows text that is written to the terminal.
func (b *Block) Wrote(text string, size Size) {
	if b.tail = append(b.tail, text...); len(b.tail) > 2*maxTail {
		_, last, _ := bytes.Cut(b.tail[len(b.tail)-maxTail:], []byte("\n"))
		b.tail = append(b.tail[:0], last...)
	}
	b.follow(text, size)
}

func (b *Block) follow(text string, size Size) {
	for i := 0; i < len(text); {
		if n := sequence(text[i:]); n > 0 {
			i += n
			continue
		}
		r, n := rune(text[i]), 1
		if r >= 0x80 {
			r, n = decode(text[i:])
		}
		i += n
		b.rune(r, size.Columns)
	}
}

func (b *Block) rune(r rune, wide int) {
	switch {
	case r == '\n', r == '\r':
		b.used, b.most, b.rows = 0, 0, b.rows+1
		return
	case r == '\t':
		b.most += tab
		if b.used += tab - b.used%tab; wide > 0 {
			b.used = min(b.used, wide-1)
		}
		return
	case r < ' ':
		return
	}
	b.most += most(r)
	n := columns.Rune(r)
	if wide > 0 && b.used+n > wide {
		b.used, b.rows = 0, b.rows+1
	}
	b.used += n
}

// Fits reports whether text can be written while the block is drawn: it is sure to stay in the last row of text.
func (b *Block) Fits(text string, size Size) bool {
	if len(b.lines) == 0 {
		return true
	}
	if b.row || size != b.size || strings.ContainsAny(text, "\n\r\t\x1b") {
		return false
	}
	n := b.most
	for _, r := range text {
		n += most(r)
	}
	return n < size.Columns
}

// most returns how many columns r takes at most. Terminals do not agree about all characters.
func most(r rune) int {
	if r < 0x300 {
		return 1
	}
	return 2
}

// Rest returns what is left to write of text: not its first newline, if the block has ended the row already.
func (b *Block) Rest(text string) string {
	if !b.ended || text == "" {
		return text
	}
	b.ended = false
	text, begins := strings.CutPrefix(text, "\n")
	if begins {
		b.tail = append(b.tail, '\n')
	}
	return text
}

// Erase returns what removes the block. Then the cursor is where the text goes on.
func (b *Block) Erase(size Size) string {
	drawn, row := len(b.lines) > 0, b.row
	switch {
	case size != b.size && (drawn && !row || b.moved):
		return b.again(size)
	case !drawn:
		return ""
	}
	b.lines, b.row = nil, false
	if row && size == b.size {
		return Wipe
	}
	if row {
		return "\r" + erase // it may have been broken
	}
	return erase
}

// again returns what removes all from the screen and prints the end of the text again, in the last rows. What is of
// others is scrolled away, never erased, also if the terminal is larger than it has said yet. A text that fills the
// screen twice leaves no room for others.
func (b *Block) again(size Size) string {
	b.tall = max(b.tall, size.Rows)
	clean := erase + last + strings.Repeat(down, b.tall)
	if height(string(b.tail), size) > 2*b.tall {
		clean = top
	}
	text := end(string(b.tail), Size{size.Columns, size.Rows - len(b.lines)})
	*b = Block{size: size, moved: true, tall: b.tall, tail: b.tail}
	b.follow(text, size)
	return clean + text
}

// height returns how many rows text takes.
func height(text string, size Size) int {
	var b Block
	b.follow(text, size)
	return b.rows + 1
}

// end returns the last lines of text that fit; at least the last one.
func end(text string, size Size) string {
	at, rows := len(text), 0
	for at > 0 {
		begin := strings.LastIndexByte(text[:at-1], '\n') + 1
		line := strings.TrimSuffix(text[begin:at], "\n")
		if rows += height(line, size); rows >= size.Rows && at < len(text) {
			break
		}
		at = begin
	}
	return text[at:]
}

// Draw returns what makes lines those of the block. Each is cut to the width of the terminal.
func (b *Block) Draw(lines []string, size Size) string {
	lines, b.tall = fit(lines, size), max(b.tall, size.Rows)
	if len(lines) == 0 {
		return b.Erase(size)
	}
	var s strings.Builder
	if one := len(lines) == 1 && b.used == 0; size != b.size || one != b.row {
		s.WriteString(b.Erase(size))
	}
	if len(lines) == 1 && b.used == 0 {
		return s.String() + b.drawRow(lines[0], size)
	}
	if b.used > size.Columns && size.Columns > 0 {
		b.used %= size.Columns // it was made narrow
	}
	if b.used == size.Columns && b.used > 0 {
		// The cursor is at the last character of the row. What moves it makes it forget that the next one does not
		// belong there.
		s.WriteString(b.Erase(size) + "\r\n")
		b.used, b.most, b.ended = 0, 0, true
	}
	b.change(&s, lines)
	b.lines, b.size, b.row = lines, size, false
	return s.String()
}

// drawRow draws the only line in the row of the cursor.
func (b *Block) drawRow(line string, size Size) string {
	if b.row && b.lines[0] == line {
		return ""
	}
	b.lines, b.size, b.row = []string{line}, size, true
	return Wipe + cut + line + wrap + "\r"
}

// change draws those lines that are not on the screen already.
func (b *Block) change(s *strings.Builder, lines []string) {
	if n := len(lines); n > len(b.lines) { // make room: below the last row of the screen there is none
		s.WriteString(strings.Repeat(down, n))
		fmt.Fprintf(s, "\x1b[%dA", n)
	}
	at := 0 // rows below the one of the cursor
	move := func(row int) {
		if at == 0 {
			s.WriteString(save + cut)
		}
		fmt.Fprintf(s, "\x1b[%dB", row-at)
		at = row
	}
	for i, line := range lines {
		switch {
		case i >= len(b.lines):
			move(i + 1)
			s.WriteString("\r" + line + clear)
		case b.lines[i] != line:
			move(i + 1)
			s.WriteString(Change(b.lines[i], line))
		}
	}
	if n := len(lines); n < len(b.lines) {
		move(n + 1)
		s.WriteString("\r" + below)
	}
	if at > 0 {
		s.WriteString(restore + wrap)
	}
}

// fit returns lines as they fit into the terminal, which has room for the last row of text too. The last column stays
// free, because some terminals wrap after it.
func fit(lines []string, size Size) []string {
	if size.Rows > 0 {
		lines = lines[:min(len(lines), max(size.Rows-2, 1))]
	}
	fitting := make([]string, len(lines))
	for i, line := range lines {
		if fitting[i] = line; size.Columns > 0 {
			fitting[i] = columns.First(line, max(size.Columns-1, 1))
		}
	}
	return fitting
}
