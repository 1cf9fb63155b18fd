// Package think separates the thinking of a model from its answer, where a template mixes them.
package think

import "strings"

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
	// maxHeld is how many bytes of white space before a tag are held back.
	maxHeld = 1 << 10
)

// Splitter separates thinking from the answer in a content stream, for templates that mix
// them. Only a tag at the very start counts; a later tag is part of the text. The zero value is
// ready for use.
type Splitter struct {
	state splitState
	held  string // not yet decided: could be the beginning of a tag
}

type splitState int

const (
	splitStart splitState = iota
	splitThinking
	splitGap // behind the closing tag: the blank lines that separate it from the answer
	splitAnswer
)

// Add processes the next piece of content. It returns the thinking and the answer that are certain now, together
// with text that was held back before. The rest is held back for the next call.
func (t *Splitter) Add(s string) (thinking, answer string) {
	if t.state == splitAnswer {
		return "", s
	}
	s, t.held = t.held+s, ""
	if t.state == splitStart {
		trimmed := strings.TrimLeft(s, " \t\r\n")
		rest, ok := strings.CutPrefix(trimmed, thinkOpen)
		switch {
		case ok:
			t.state, s = splitThinking, rest
		case strings.HasPrefix(thinkOpen, trimmed) && len(s) < maxHeld:
			t.held = s
			return "", ""
		default:
			t.state = splitAnswer
			return "", s
		}
	}
	if t.state == splitThinking {
		before, after, ok := strings.Cut(s, thinkClose)
		if !ok {
			keep := len(s) - partialSuffix(s, thinkClose)
			t.held = s[keep:]
			return s[:keep], ""
		}
		thinking, s, t.state = before, after, splitGap
	}
	if s = strings.TrimLeft(s, " \t\r\n"); s != "" {
		t.state = splitAnswer
	}
	return thinking, s
}

// Flush returns the text still held back at the end of the stream.
func (t *Splitter) Flush() (thinking, answer string) {
	s := t.held
	t.held = ""
	if t.state == splitThinking {
		return s, ""
	}
	return "", s
}

// partialSuffix returns the length of the longest suffix of s that is a prefix of tag.
func partialSuffix(s, tag string) int {
	for n := min(len(s), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(s, tag[:n]) {
			return n
		}
	}
	return 0
}
