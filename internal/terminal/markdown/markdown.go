// Package markdown shows Markdown on a terminal while it is written.
//
// A [Renderer] takes text in pieces of any size and returns what to print for each. It only appends: what it has
// returned is never taken back. The words of a line are returned as they come. What needs more to be understood is held
// back until it is: a word until a space follows, emphasis and a link until they end, a line of code until it ends, and
// a table until its last row. All of that is bounded: text that goes on for longer is shown as it is written. Where the
// text is cut into pieces changes nothing in what is printed altogether.
//
// A line of the text is a line of the output, wrapped at the width. Lines of code are not wrapped, so that they can be
// copied.
//
// The text is that of a stranger. Each character that a terminal would obey, or that a reader would not see, is spelled
// out first. The address of a link is always shown. Every escape sequence in the output is one of this package, which
// are colours alone, and each ends in the line and in the piece in which it begins. Without colours there is none:
// emphasis and code then keep their marks.
//
// Not promised: all of Markdown. Emphasis does not go on in the next line. A table is recognized by the bar at the
// beginning of its rows. A heading that is underlined looks like a line of text above a rule. HTML, footnotes and links
// by reference are shown as they are written.
package markdown

import (
	"strings"
)

const (
	// maxHeld is how many bytes of a line are held back at most to find out what they are.
	maxHeld = 400
	// maxRow is how long a row of a table may be, and maxInfo what is read of the line that begins code, in bytes.
	maxRow, maxInfo = 8 << 10, 100
	// maxDepth is how deep quotes are shown, and how deep lists are.
	maxDepth = 8
	// least and most are the widths that are kept.
	least, most = 20, 1000
)

// Renderer turns Markdown into lines for a terminal. It is not safe for concurrent use.
type Renderer struct {
	width    int
	coloured bool
	cleaner  cleaner
	out      strings.Builder
	printed  bool // there is output
	gap      bool // an empty line comes before the next output

	rest  string // of the current line, what is not understood yet
	stage stage
	skips bool // the rest of the line is left out
	flow  flow // of the current line, when its words are shown
	prev  rune // the last character before rest

	depth int    // of the quote
	bars  int    // the depth of the empty line that is due
	lists []list // the open ones, outermost first
	mark  string // of an item that begins in the current line
	lead  int    // columns before the content of the current line
	lazy  bool   // the current line goes on with a quote without its mark
	text  bool   // the line before was a line of text
	code  *code  // nil outside of code
	table *table // nil outside of a table
}

// stage says how much of the beginning of a line is understood.
type stage int

const (
	margin  stage = iota // nothing
	opening              // marks of quotes, space, and the mark of a list
	words                // all: the words of the line come
)

// list is an open item of a list.
type list struct {
	indent int // columns before its mark, in the text
	wide   int // columns of its mark, in the output
}

// New returns a renderer for a terminal with so many columns; 0 means 80. Without colours it uses no escape sequence.
func New(width int, coloured bool) *Renderer {
	r := &Renderer{coloured: coloured}
	r.Resize(width)
	return r
}

// Resize changes the width. It counts from the next line of the text on.
func (r *Renderer) Resize(width int) {
	if width <= 0 {
		width = 80
	}
	r.width = min(max(width, least), most)
}

// Write takes the next piece of the text and returns what to print.
func (r *Renderer) Write(text string) string {
	text = r.cleaner.clean(text)
	for text != "" {
		line, after, ended := strings.Cut(text, "\n")
		r.take(line)
		if ended {
			r.endLine()
		}
		text = after
	}
	return r.printable()
}

// End ends the text and returns what was held back. What is written then is a new text.
func (r *Renderer) End() string {
	r.take(r.cleaner.end())
	if r.rest != "" || r.stage != margin || r.code != nil && r.code.begun {
		r.endLine()
	}
	r.endTable()
	out := r.printable()
	*r = Renderer{width: r.width, coloured: r.coloured}
	return out
}

func (r *Renderer) printable() string {
	out := r.out.String()
	r.out.Reset()
	return out
}

// take adds text to the current line, and shows what of it is understood. It takes large texts in parts, because what
// is held back is looked at again with each.
func (r *Renderer) take(text string) {
	for text != "" {
		n := min(len(text), maxRow)
		for n < len(text) && text[n]&0xc0 == 0x80 { // within a character
			n++
		}
		r.rest += text[:n]
		text = text[n:]
		r.advance(false)
	}
}

// endLine ends the current line.
func (r *Renderer) endLine() {
	r.advance(true)
	if r.stage == words && !r.skips {
		r.flow.end(&r.out)
	}
	r.rest, r.stage, r.skips, r.mark, r.lead, r.prev, r.lazy = "", margin, false, "", 0, 0, false
}

// advance understands and shows as much of the rest of the line as it can. whole says that the line has ended.
func (r *Renderer) advance(whole bool) {
	for {
		switch {
		case r.skips:
			r.rest = ""
			return
		case r.code != nil && r.stage == margin:
			if r.inCode(whole) {
				return
			}
		case r.stage == margin:
			if !r.readMargin(whole) {
				return
			}
		case r.stage == opening:
			if !r.open(whole) {
				return
			}
		default:
			in := inline{to: &r.flow, out: &r.out, plain: !r.coloured, prev: r.prev}
			n := in.scan(r.rest, whole, r.flow.style, 0)
			r.rest, r.prev = r.rest[n:], in.prev
			return
		}
	}
}

// readMargin reads the marks of quotes and the space at the beginning of a line. It returns false if it needs more of
// the line, or if there is no more.
func (r *Renderer) readMargin(whole bool) bool {
	depth, indent, i := 0, 0, 0
	window := r.rest[:min(len(r.rest), maxHeld)]
scan:
	for ; i < len(window); i++ {
		switch c := window[i]; {
		case c == ' ':
			indent++
		case c == '\t':
			indent += 4 - indent%4
		case c == '>' && indent < 4 && depth < maxDepth:
			depth, indent = depth+1, -1 // a space after it belongs to it
		default:
			break scan
		}
	}
	if i == len(r.rest) && !whole && i < maxHeld {
		return false
	}
	empty := i == len(r.rest) && whole
	if r.lazy = depth == 0 && r.depth > 0 && r.text && !empty; depth != r.depth && !r.lazy {
		r.quote(depth)
	}
	if empty {
		r.endTable()
		r.gap, r.bars, r.text = true, depth, false
		r.skip()
		return false
	}
	r.rest, r.lead, r.stage = r.rest[i:], max(0, indent), opening
	return true
}

// quote begins or ends quotes.
func (r *Renderer) quote(depth int) {
	r.endTable()
	r.depth, r.lists, r.text = depth, nil, false
	r.bars = min(r.bars, depth)
}

// open finds out what the line is. It returns false if it needs more of the line, or if nothing of it is left.
func (r *Renderer) open(whole bool) bool {
	if r.mark != "" {
		r.rest = strings.TrimLeft(r.rest, " \t")
	}
	b, n, ok := indented, 0, true
	if r.lead < 4 || len(r.lists) > 0 || r.text || r.mark != "" {
		b, n, ok = blockOf(r.rest, whole)
	}
	switch {
	case !ok:
		return false
	case b == underline && !r.text, b == item && r.mark != "": // such as the second mark of "- - text"
		b = paragraph
	}
	if b != row {
		r.endTable()
	}
	if b != paragraph && r.lazy {
		r.quote(0)
	}
	switch b {
	case item:
		r.openItem(n)
		return true
	case row:
		r.openRow(strings.TrimSpace(r.rest))
		r.skip()
		return false
	case fence:
		r.place(false)
		r.openCode(n)
		r.skip()
		return false
	case indented:
		r.place(false)
		r.openCode(0)
		r.rest, r.stage = strings.Repeat(" ", r.lead-4)+r.rest, margin
		return true
	case rule, underline:
		r.place(false)
		r.startRow()
		first, _ := r.margins()
		r.out.WriteString(first)
		write(&r.out, strings.Repeat("─", max(1, r.width-widthOf(first))), dim.when(r.coloured))
		r.out.WriteByte('\n')
		r.skip()
		return false
	case heading:
		r.place(false)
		r.startWords(title)
		if mark := r.rest[:n]; !r.coloured {
			r.flow.add(&r.out, mark, title, false)
		}
		r.rest = r.rest[n:]
		return true
	}
	r.place(true)
	r.startWords(0)
	return true
}

// skip leaves out the rest of the line, of which all is shown.
func (r *Renderer) skip() { r.skips, r.rest = true, "" }

// place finds the item to which a line belongs that begins none. A line of text after a line of text goes on with it.
func (r *Renderer) place(isText bool) {
	if goesOn := isText && r.text; !goesOn && r.mark == "" {
		for n := len(r.lists); n > 0 && r.lead < r.lists[n-1].indent+2; n-- {
			r.lists = r.lists[:n-1]
		}
	}
	r.text = isText
}

// openItem begins an item of a list, whose mark has n bytes.
func (r *Renderer) openItem(n int) {
	r.text = false
	r.place(true)
	if r.mark = r.rest[:n] + " "; n == 1 {
		r.mark = "• "
	}
	if k := len(r.lists); k == 2*maxDepth {
		r.lists = r.lists[:k-1]
	}
	r.lists = append(r.lists, list{r.lead, widthOf(r.mark)})
	r.rest, r.lead = r.rest[n:], r.lead+n+1
}

// margins returns what comes before the first row of the current line, and before its other rows.
func (r *Renderer) margins() (first, others string) {
	var b strings.Builder
	for range r.depth {
		write(&b, "│", dim.when(r.coloured))
		b.WriteByte(' ')
	}
	wide := 0
	for _, l := range r.lists {
		wide += l.wide
	}
	last := 0
	if n := len(r.lists); n > 0 && r.mark != "" {
		last = r.lists[n-1].wide
	}
	wide = min(wide, max(0, r.width/2-2*r.depth))
	quote := b.String()
	others = quote + strings.Repeat(" ", wide)
	if r.mark == "" {
		return others, others
	}
	return quote + strings.Repeat(" ", max(0, wide-last)) + r.mark, others
}

// startRow writes the empty line that is due before the next output.
func (r *Renderer) startRow() {
	if r.gap && r.printed {
		quote := strings.TrimRight(strings.Repeat("│ ", r.bars), " ")
		write(&r.out, quote, dim.when(r.coloured))
		r.out.WriteByte('\n')
	}
	r.gap, r.printed = false, true
}

// startWords begins to show the words of the current line.
func (r *Renderer) startWords(st style) {
	r.startRow()
	first, others := r.margins()
	r.flow = flow{width: r.width, first: first, others: others, coloured: r.coloured, style: st}
	r.stage = words
	if r.mark != "" {
		r.flow.begin(&r.out) // an item may be empty
	}
}
