package llm

import (
	"strconv"
	"strings"
)

// WithContext is the user message for a task about a context: the long text
// first, the request last, where models heed it most. The context stands
// between <context> and </context>, or, when one of the two texts holds that,
// between <context-2> and </context-2> and so on: no document can end its own
// context and go on as if it were the user.
func WithContext(text, context string) string {
	if context == "" {
		return text
	}
	suffix := unusedSuffix(context, text)
	return contextOpen + suffix + ">\n" + context + "\n" + contextClose + suffix + ">\n\n" + text
}

// SplitContext undoes WithContext. A text without a context that looks as if it
// had one is read that way.
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

// unusedSuffix returns what makes an end of a context that is in none of texts.
// It looks at them once, however many such ends they hold.
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
