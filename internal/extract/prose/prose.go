// Package prose finds what a reader would read in a text: the headings,
// paragraphs and list items of Markdown, the comments of a program, and in them
// sentences and words.
//
// A text becomes blocks ([Parse]), a block becomes sentences ([Sentences]), a
// sentence becomes words ([Words]). Code, tables, pictures, HTML and comments of
// Markdown are left out, inline markup is stripped. Every text is accepted, and
// the time is linear in its length.
//
// Not promised: all of CommonMark. Where its rules are long and rarely matter,
// what is no markup to the scanner is a paragraph.
package prose

import "strings"

// Kind is what a block of text is.
type Kind int

// Kinds of blocks.
const (
	Paragraph Kind = iota
	Item           // of a list
	Quote          // a block quote, or a remark inside of a function
	Heading
)

// Block is one heading, paragraph or list item on one line, without inline
// markup; code spans keep their backticks.
type Block struct {
	Kind  Kind
	Level int // of a heading, 1 to 6
	Text  string
}

// Parse returns the blocks of a text. By the name of its file, or by its looks
// when the name is empty, it is read as a program or as Markdown.
func Parse(text, name string) []Block {
	text = strings.ToValidUTF8(text, "\uFFFD")
	c, code := language(name)
	if name == "" {
		c, code = looksLikeCode(text)
	}
	if code {
		return source(text, c)
	}
	return Markdown(text)
}
