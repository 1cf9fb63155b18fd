// Package markdown splits a text into headings, paragraphs and list items, without markup, code,
// comments, tables and pictures. A text without markup is paragraphs.
//
// Not promised: all of CommonMark. The time is about linear in the length of the text.
package markdown

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// Kind is the type of a block.
type Kind int

// The kinds of blocks.
const (
	Paragraph Kind = iota
	Item           // of a list
	Heading
)

// Block is a heading, paragraph or list item on one line, without inline markup. Code spans keep
// their backticks.
type Block struct {
	Kind  Kind
	Level int // of a heading, 1 to 6
	Text  string
}

// scanner reads Markdown line by line. Lines without markup are paragraphs, so plain text works
// too.
type scanner struct {
	blocks   []Block
	lines    []string // of the open paragraph
	kind     Kind     // of the open paragraph
	until    string   // what ends the code or comment that is being skipped
	list     int      // column where the text of the list item begins; 0 outside of lists
	blank    bool     // the line before was blank
	headings bool     // headings have a #; then indented lines are code
}

// Parse splits a text into blocks.
func Parse(text string) []Block {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r", ""), "\uFFFD")
	s := scanner{headings: strings.Contains("\n"+text, "\n# ") || strings.Contains(text, "\n## ")}
	if front, ok := strings.CutPrefix(text, "---\n"); ok {
		if _, after, ok := strings.Cut(front, "\n---\n"); ok {
			text = after
		}
	}
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		s.line(line)
	}
	s.flush()
	return s.blocks
}

func (s *scanner) line(line string) {
	rest := strings.TrimLeft(line, " \t")
	column := len(strings.ReplaceAll(line[:len(line)-len(rest)], "\t", "    "))
	rest = strings.TrimRight(rest, " \t")
	for strings.HasPrefix(rest, "> ") || rest == ">" {
		rest = strings.TrimSpace(rest[1:])
	}
	switch {
	case s.skip(rest):
		return
	case rest == "":
		s.flush()
		s.blank = true
		return
	case s.blank && column < 2:
		s.list = 0
	}
	s.blank = false
	level, marker, mark := leading(rest, '#'), itemMarker(rest), rest[:1]
	isRule := strings.Trim(rest, mark+" ") == "" && strings.Contains("=-*_~", mark)
	switch {
	case s.headings && column >= s.list+4 && len(s.lines) == 0: // code
	case level > 0 && level <= 6 && strings.HasPrefix(rest[level:], " "):
		s.flush()
		s.heading(level, strings.TrimRight(rest[level:], "# "))
	case isRule && len(s.lines) == 1 && s.kind == Paragraph && strings.Contains("=-", mark): // below a heading
		text := s.lines[0]
		s.lines = nil
		s.heading(1+strings.Index("=-", mark), text)
	case isRule && len(rest) > 2, mark == "|", mark == "[" && strings.Contains(rest+" ", "]: "),
		mark == "[" && strings.HasSuffix(rest, "]"):
		s.flush()
	case marker > 0:
		s.flush()
		s.list, s.kind = column+marker, Item
		s.lines = append(s.lines, rest[marker:])
	default:
		s.lines = append(s.lines, rest)
	}
}

// skip reports whether a line is not prose but code, a comment or HTML. In s.until it keeps the text that ends a
// block of such lines.
func (s *scanner) skip(rest string) bool {
	low := strings.ToLower(rest)
	if s.until != "" {
		if strings.Contains(low, s.until) {
			s.until = ""
		}
		return true
	}
	for _, pair := range [...][2]string{
		{"```", "```"}, {"~~~", "~~~"}, {"<!--", "-->"}, {"<pre", "</pre>"}, {"<script", "</script>"},
		{"<style", "</style>"}, {"<table", "</table>"},
	} {
		if strings.HasPrefix(low, pair[0]) {
			s.flush()
			if !strings.Contains(low[len(pair[0]):], pair[1]) {
				s.until = pair[1]
			}
			return true
		}
	}
	return false
}

// flush ends the open paragraph. A short paragraph in bold or in capitals becomes a heading.
func (s *scanner) flush() {
	raw := strings.Join(s.lines, " ")
	text := stripInline(raw)
	bold := strings.HasPrefix(raw, "**") && strings.HasSuffix(raw, "**") && strings.Count(raw, "**") == 2
	capitals := strings.ToUpper(text) == text && Letters(text) > 0.9 && len(text) > 3
	switch {
	case text == "":
	case s.kind == Paragraph && len(text) <= 80 && (bold || capitals) && !strings.ContainsAny(text, ".!?;,"):
		s.heading(6, text)
	default:
		s.blocks = append(s.blocks, Block{Kind: s.kind, Text: text})
	}
	s.lines, s.kind = nil, Paragraph
}

func (s *scanner) heading(level int, raw string) {
	if text := strings.Trim(stripInline(raw), " #:"); text != "" {
		s.blocks = append(s.blocks, Block{Kind: Heading, Level: level, Text: text})
	}
}

// itemMarker returns the length of the list marker at the beginning of s, with its spaces and
// checkbox, or 0.
func itemMarker(s string) int { return len(markerPattern().FindString(s)) }

var markerPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[-*+•]|\d{1,3}[.)]) {1,4}(?:\[[ xX]\] )?`)
})

// leading counts how many times c stands at the beginning of s.
func leading(s string, c byte) int { return len(s) - len(strings.TrimLeft(s, string(c))) }

// Letters returns the share of letters in the non-space characters of s.
func Letters(s string) float64 {
	n, all := 0, 0
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsMark(r) {
			n++
		}
		if r != ' ' {
			all++
		}
	}
	return float64(n) / float64(max(all, 1))
}
