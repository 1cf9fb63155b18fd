package prose

import "unicode"

// Tokens is about how many tokens a language model would count in s: a run of
// letters costs one for every 7, digits one for every 3, punctuation one for
// every 2, and a CJK character 0.8. White space costs only where it is a run.
func Tokens(s string) int {
	const (
		none = iota
		letters
		digits
		signs
		space
	)
	tokens, tenths := 0, 0
	kind, run := none, 0
	flush := func() {
		switch kind {
		case letters:
			tokens += (run + 6) / 7
		case digits:
			tokens += (run + 2) / 3
		case signs:
			tokens += (run + 1) / 2
		case space:
			tokens += min(run-1, 1)
		}
		run = 0
	}
	for _, r := range s {
		now := signs
		switch {
		case Wide(r):
			flush()
			kind = none
			tenths += 8
			continue
		case unicode.IsLetter(r):
			now = letters
		case unicode.IsDigit(r):
			now = digits
		case r == ' ' || r == '\n' || r == '\t' || r == '\r':
			now = space
		}
		if now != kind {
			flush()
			kind = now
		}
		run++
	}
	flush()
	return tokens + (tenths+9)/10
}
