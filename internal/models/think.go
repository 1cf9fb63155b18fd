package models

import "strings"

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// thinkSplitter takes thinking out of a content stream into which a template
// let it leak. Only a tag at the very start counts: later it is text that the
// model writes about, not thought. The zero value is ready.
type thinkSplitter struct {
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

// add takes the next piece of content and returns what of it, and of what was
// held back, is thinking and what is answer.
func (t *thinkSplitter) add(s string) (thinking, answer string) {
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
		case strings.HasPrefix(thinkOpen, trimmed):
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

// flush returns what is still held when the stream ends.
func (t *thinkSplitter) flush() (thinking, answer string) {
	s := t.held
	t.held = ""
	if t.state == splitThinking {
		return s, ""
	}
	return "", s
}

// partialSuffix is the length of the longest end of s with which tag begins.
func partialSuffix(s, tag string) int {
	for n := min(len(s), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(s, tag[:n]) {
			return n
		}
	}
	return 0
}
