// Package prose finds what a reader would read in a text: the headings,
// paragraphs and list items of Markdown, the comments of a program, and in them
// sentences and words.
//
// A text becomes blocks ([Parse]), a block becomes sentences ([Sentences]), a
// sentence becomes words ([Words]). Code, tables, pictures, HTML and comments of
// Markdown are left out, inline markup is stripped. In a text without markup a
// line that is no part of a paragraph, as in a log, is a record and stays as it
// is. Every text is accepted, and the time is linear in its length.
//
// Not promised: all of CommonMark. Where its rules are long and rarely matter,
// what is no markup to the scanner is a paragraph.
package prose

import (
	"path"
	"strings"
)

// Kind is what a block of text is.
type Kind int

// Kinds of blocks.
const (
	Paragraph Kind = iota
	Item           // of a list
	Quote          // a block quote, or a remark inside of a function
	Heading
	Record // a line of a log, a table or a listing
)

// Block is one heading, paragraph or list item on one line, without inline
// markup; code spans keep their backticks.
type Block struct {
	Kind  Kind
	Level int // of a heading, 1 to 6
	Text  string
}

// Parse returns the blocks of a text. What kind of text it is, says the name of
// its file, and else its looks.
func Parse(text, name string) []Block {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if IsDiff(text) && !isMarkdown(name) {
		return diff(text)
	}
	return parse(text, name)
}

func parse(text, name string) []Block {
	c, code := language(name)
	switch {
	case isMarkdown(name):
		return Markdown(text)
	case code:
		return source(text, c)
	}
	text = terminal(text)
	if c, code = looksLikeCode(text); code {
		return source(text, c)
	}
	if looksLikeMarkdown(text) {
		return Markdown(text)
	}
	return plainText(text)
}

// isMarkdown reports whether the name of a file says that it has markup which
// the scanner of Markdown understands.
func isMarkdown(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd", ".rst", ".adoc", ".asciidoc", ".html", ".htm", ".xhtml":
		return true
	}
	return false
}
