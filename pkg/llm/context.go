package llm

import (
	"strconv"
	"strings"
)

// WithContext returns the user message for a task about a long text: first the context, then the
// task, because models pay most attention to the end. The context stands between <context> and
// </context>. If one of the texts contains the closing tag, <context-2> is used, and so on, so that
// no document can close its own context and pretend to be the user.
func WithContext(text, context string) string {
	if context == "" {
		return text
	}
	suffix := unusedSuffix(context, text)
	return contextOpen + suffix + ">\n" + context + "\n" + contextClose + suffix + ">\n\n" + text
}

// SplitContext is the reverse of WithContext. A message without a context is returned as text. A
// message by somebody else that has the same form is split too.
func SplitContext(message string) (text, context string) {
	rest, ok := strings.CutPrefix(message, contextOpen)
	if !ok {
		return message, ""
	}
	suffix, rest, ok := strings.Cut(rest, ">\n")
	if !ok || strings.Trim(suffix, "-0123456789") != "" {
		return message, ""
	}
	context, text, ok = strings.Cut(rest, "\n"+contextClose+suffix+">\n\n")
	if !ok {
		return message, ""
	}
	return text, context
}

const (
	contextOpen  = "<context"
	contextClose = "</context"
)

// unusedSuffix returns a suffix for the tag, such as "" or "-2", for which no closing tag is in
// texts. It reads the texts once, however many such tags they contain.
func unusedSuffix(texts ...string) string {
	const longest = len("-2000000000")
	used := map[string]bool{}
	for _, s := range texts {
		for {
			_, after, found := strings.Cut(s, contextClose)
			if !found {
				break
			}
			if suffix, _, ended := strings.Cut(after[:min(len(after), longest+1)], ">"); ended {
				used[suffix] = true
			}
			s = after
		}
	}
	suffix := ""
	for n := 2; used[suffix]; n++ {
		suffix = "-" + strconv.Itoa(n)
	}
	return suffix
}
