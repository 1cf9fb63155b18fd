// Package block draws a block of lines below the text of a terminal and changes it in place. It makes the bytes and
// writes none.
//
// A [Block] follows the text that is written to the terminal, so that it knows where the last row of text ends. There
// the cursor rests, and there the text goes on. The lines of the block are in the rows below that one, and only those
// that change are drawn again. So a resize does no harm: whatever the terminal has made of the rows below the cursor,
// they are erased, and the text above them is not touched.
//
// A block of one line below a whole line of text is different: it is in the row of the cursor, which rests behind it.
package block

import (
	"fmt"
	"strings"

	"qq/internal/app/columns"
)

// Wipe removes the line of the cursor.
const Wipe = "\r\x1b[K"

// Control sequences of terminals.
const (
	erase   = "\x1b[J" // from the cursor to the end of the screen
	clear   = "\x1b[K" // from the cursor to the end of its row
	down    = "\x1bD"  // one row, and the screen scrolls at its end. The column stays
	save    = "\x1b7"  // the position of the cursor
	restore = "\x1b8"
)

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
	ended bool     // the last row of text was full and the block has ended it: a newline that follows is that one
}

// Lines returns how many lines are drawn.
func (b *Block) Lines() int { return len(b.lines) }

// Forget forgets what is on the screen. The cursor is in an empty row.
func (b *Block) Forget() { *b = Block{} }

// Wrote follows text that is written to the terminal.
func (b *Block) Wrote(text string, size Size) {
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
		b.used, b.most = 0, 0
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
		b.used = 0
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
	if b.ended && text != "" {
		b.ended = false
		return strings.TrimPrefix(text, "\n")
	}
	return text
}

// Erase returns what removes the block. Then the cursor is where the text goes on.
func (b *Block) Erase() string {
	if len(b.lines) == 0 {
		return ""
	}
	b.lines = nil
	if b.row {
		return Wipe
	}
	return erase
}

// Draw returns what makes lines those of the block. Each is cut to the width of the terminal.
func (b *Block) Draw(lines []string, size Size) string {
	lines = fit(lines, size)
	if len(lines) == 0 {
		return b.Erase()
	}
	if len(lines) == 1 && b.used == 0 {
		return b.drawRow(lines[0], size)
	}
	var s strings.Builder
	if b.row || size != b.size {
		s.WriteString(b.Erase())
	}
	if b.used > size.Columns && size.Columns > 0 {
		b.used %= size.Columns // it was made narrow
	}
	if b.used == size.Columns && b.used > 0 {
		// The cursor is at the last character of the row. What moves it makes it forget that the next one does not
		// belong there.
		s.WriteString(b.Erase() + "\r\n")
		b.used, b.most, b.ended = 0, 0, true
	}
	b.change(&s, lines)
	b.lines, b.size, b.row = lines, size, false
	return s.String()
}

// drawRow draws the only line in the row of the cursor.
func (b *Block) drawRow(line string, size Size) string {
	before := ""
	switch {
	case len(b.lines) == 1 && b.row && b.lines[0] == line && b.size == size:
		return ""
	case !b.row:
		before = b.Erase()
	}
	b.lines, b.size, b.row = []string{line}, size, true
	return before + Wipe + line
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
			s.WriteString(save)
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
		s.WriteString("\r" + erase)
	}
	if at > 0 {
		s.WriteString(restore)
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
