package llm

import (
	"strconv"
	"strings"
)

// WithContext returns the user message for a task about a long text: first the context,
// then the task, because models heed the end most. The context is put between <context>
// and </context>. If either text contains that tag, it is <context-2> and so on, so that
// no document can end its own context and pretend to be the user.
func WithContext(text, context string) string {
	if context == "" {
		return text
	}
	suffix := unusedSuffix(context, text)
	return contextOpen + suffix + ">\n" + context + "\n" + contextClose + suffix + ">\n\n" + text
}

// SplitContext is the reverse of WithContext. It also splits a text that only looks like
// the result of WithContext.
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

// unusedSuffix returns the suffix of the tag, such as "-2", with which no end tag is in
// texts. It reads them once, however many such tags they have.
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
