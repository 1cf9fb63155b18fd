package markdown

import (
	"strconv"
	"strings"

	"qq/internal/app/columns"
)

// style is how text looks: a set of properties.
type style uint16

const (
	bold style = 1 << iota
	italic
	struck
	literal // code in a line of text
	linked  // the address of a link
	title   // a heading
	dim
	keyword
	quoted // a string in code
	number
	comment
	added
	removed
)

// when returns s if there are colours.
func (s style) when(coloured bool) style {
	if coloured {
		return s
	}
	return 0
}

// sgr returns the parameters of the escape sequence for s.
func (s style) sgr() string {
	var codes []byte
	add := func(of style, code int) {
		if s&of != 0 {
			if codes != nil {
				codes = append(codes, ';')
			}
			codes = strconv.AppendInt(codes, int64(code), 10)
		}
	}
	add(bold|title, 1)
	add(dim|comment, 2)
	add(italic, 3)
	add(linked, 4)
	add(struck, 9)
	add(removed, 31)
	add(added|quoted, 32)
	add(title|keyword, 35)
	add(literal|number, 36)
	return string(codes)
}

// write writes text in a style. The escape sequence ends with the text.
func write(b *strings.Builder, text string, s style) {
	if s == 0 || text == "" {
		b.WriteString(text)
		return
	}
	b.WriteString("\x1b[" + s.sgr() + "m" + text + "\x1b[0m")
}

// widthOf returns how many columns text takes. It may have escape sequences of this package.
func widthOf(text string) (wide int) {
	for text != "" {
		if strings.HasPrefix(text, "\x1b") {
			_, text, _ = strings.Cut(text, "m")
			continue
		}
		n, w := columns.Cluster(text)
		text, wide = text[n:], wide+w
	}
	return wide
}

// flow puts words into rows of a width.
type flow struct {
	width         int
	first, others string // what comes before the first row, and before the other ones
	coloured      bool
	style         style // of the words that have no other

	begun  bool
	room   int // columns of the words in a row after the first one
	column int
	margin int // columns before the words in this row

	tail  string // the last character of the text, to which the next text may add marks
	tails style
	word  []piece
	wide  int // columns of word
	size  int // bytes of word
	gap   int // spaces before word
}

// piece is text in one style.
type piece struct {
	text  string
	style style
}

// maxWord is how many bytes a word has at most.
const maxWord = 4 << 10

// add adds text to the words. If verbatim is set, all spaces are kept; else a run of them is one.
func (f *flow) add(out *strings.Builder, text string, s style, verbatim bool) {
	if f.tails != s {
		f.endTail(out)
	}
	f.tail, f.tails = f.tail+text, s
	for f.tail != "" {
		if isSpace(f.tail[0]) {
			f.flush(out)
			if f.gap++; !verbatim {
				f.gap = 1
			}
			f.tail = f.tail[1:]
			continue
		}
		n, wide := columns.Cluster(f.tail)
		if n == len(f.tail) {
			return
		}
		f.put(out, f.tail[:n], wide)
		f.tail = f.tail[n:]
	}
}

func (f *flow) endTail(out *strings.Builder) {
	if f.tail != "" {
		_, wide := columns.Cluster(f.tail)
		f.put(out, f.tail, wide)
		f.tail = ""
	}
}

// put adds a character to the word.
func (f *flow) put(out *strings.Builder, text string, wide int) {
	f.begin(out)
	// A word that is wider than a row is broken, and so is text without spaces, such as Chinese.
	if wide == 2 || f.wide+wide > f.room || f.size > maxWord {
		f.flush(out)
	}
	if n := len(f.word); n > 0 && f.word[n-1].style == f.tails {
		f.word[n-1].text += text
	} else {
		f.word = append(f.word, piece{text, f.tails})
	}
	f.size += len(text)
	if f.wide += wide; wide == 2 {
		f.flush(out)
	}
}

// begin writes what comes before the first row.
func (f *flow) begin(out *strings.Builder) {
	if !f.begun {
		out.WriteString(f.first)
		f.margin = widthOf(f.first)
		f.begun, f.column, f.room = true, f.margin, f.width-widthOf(f.others)
	}
}

// flush writes the word, in the next row if this one has no room for it.
func (f *flow) flush(out *strings.Builder) {
	if len(f.word) == 0 {
		return
	}
	f.begin(out)
	if f.column == f.margin {
		f.gap = 0
	}
	if f.column > f.margin && f.column+f.gap+f.wide > f.width {
		out.WriteString("\n" + f.others)
		f.margin, f.gap = widthOf(f.others), 0
		f.column = f.margin
	}
	out.WriteString(strings.Repeat(" ", f.gap))
	for _, p := range f.word {
		write(out, p.text, p.style.when(f.coloured))
	}
	f.column += f.gap + f.wide
	f.word, f.wide, f.size, f.gap = f.word[:0], 0, 0, 0
}

// end ends the last row.
func (f *flow) end(out *strings.Builder) {
	f.endTail(out)
	f.flush(out)
	f.begin(out)
	out.WriteByte('\n')
}
