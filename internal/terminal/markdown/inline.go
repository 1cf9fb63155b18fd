package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// inline shows the text of a line: emphasis, code and links.
type inline struct {
	to    *flow
	out   *strings.Builder
	plain bool // without colours: marks are shown
	prev  rune // the last character before the text
}

// maxNested is how deep emphasis may be nested.
const maxNested = 8

// special are the bytes at which something other than text may begin.
const special = "\\`*_~![ \t"

// scan shows s and returns how many bytes of it. The others depend on what follows. whole says that nothing follows.
func (in *inline) scan(s string, whole bool, st style, depth int) (shown int) {
	for shown < len(s) {
		n := in.next(s[shown:], whole, st, depth)
		if n == 0 {
			break
		}
		in.prev, _ = utf8.DecodeLastRuneInString(s[:shown+n])
		shown += n
	}
	return shown
}

// next shows the beginning of s and returns its length, 0 if it depends on what follows.
func (in *inline) next(s string, whole bool, st style, depth int) int {
	window, more := s[:min(len(s), maxHeld)], !whole && len(s) < maxHeld
	switch c := s[0]; c {
	case '\\':
		if len(s) == 1 && more {
			return 0
		}
		if len(s) > 1 && isPunctuation(s[1]) {
			in.text(s[1:2], st)
			return 2
		}
	case '`':
		n := run(window)
		end, ok := closingTicks(window, n, more)
		switch {
		case !ok:
			return 0
		case end > 0:
			in.code(window[:end], n, st)
			return end
		}
		in.text(s[:n], st)
		return n
	case '*', '_', '~':
		return in.emphasis(window, more, st, depth)
	case '!', '[':
		return in.link(window, more, st, depth)
	case ' ', '\t':
		in.text(" ", st)
		return 1
	}
	n := 1 + strings.IndexAny(s[1:], special)
	if n == 0 {
		n = len(s)
	}
	in.text(s[:n], st)
	return n
}

func (in *inline) text(s string, st style) { in.to.add(in.out, s, st, false) }

// code shows code in a line of text, with its marks of n ticks.
func (in *inline) code(s string, n int, st style) {
	if in.plain {
		in.to.add(in.out, s, st, true)
		return
	}
	s = s[n : len(s)-n]
	if len(s) > 2 && s[0] == ' ' && s[len(s)-1] == ' ' && strings.Trim(s, " ") != "" {
		s = s[1 : len(s)-1]
	}
	in.to.add(in.out, s, st|literal, true)
}

// closingTicks returns the end of the code at the beginning of s, which begins with n ticks; 0 if it has no end. ok is
// false if that depends on what follows.
func closingTicks(s string, n int, more bool) (end int, ok bool) {
	for i := n; i < len(s); {
		at := strings.IndexByte(s[i:], '`')
		if at < 0 {
			break
		}
		i += at
		k := run(s[i:])
		if i+k == len(s) && more {
			return 0, false
		}
		if i += k; k == n {
			return i, true
		}
	}
	return 0, !more
}

// emphasis shows text between marks such as ** and returns how many bytes of s it has shown.
func (in *inline) emphasis(s string, more bool, st style, depth int) int {
	c, n := s[0], run(s)
	if n == len(s) && more {
		return 0
	}
	end, ok := 0, true
	if in.opens(s, c, n) && depth < maxNested {
		end, ok = closing(s, c, n, more)
	}
	if !ok {
		return 0
	}
	if end == 0 {
		in.text(s[:n], st)
		return n
	}
	inner := st
	switch {
	case c == '~':
		inner |= struck
	case n == 1:
		inner |= italic
	case n == 2:
		inner |= bold
	default:
		inner |= bold | italic
	}
	if in.plain {
		in.text(s[:n], st)
	}
	in.prev = rune(c)
	in.scan(s[n:end], true, inner, depth+1)
	if in.plain {
		in.text(s[:n], st)
	}
	return end + n
}

// opens reports whether a run of n marks c at the beginning of s begins emphasis.
func (in *inline) opens(s string, c byte, n int) bool {
	if n > 3 || n == len(s) || isSpace(s[n]) || c == '~' && n != 2 {
		return false
	}
	within := isWord(in.prev)
	if c == '*' {
		within = n == 1 && in.prev < utf8.RuneSelf && within // 2*3*4
	}
	return !within
}

// closing returns where the marks begin that end the emphasis at the beginning of s, which begins with n marks c; 0 if
// it has no end. ok is false if that depends on what follows.
func closing(s string, c byte, n int, more bool) (end int, ok bool) {
	for i := n; i < len(s); {
		k := 1
		switch s[i] {
		case '\\':
			k = 2
		case '`':
			k = run(s[i:])
			end, ok := closingTicks(s[i:], k, more)
			if !ok {
				return 0, false
			}
			k = max(k, end)
		case c:
			k = run(s[i:])
			if i+k == len(s) && more {
				return 0, false
			}
			after, _ := utf8.DecodeRuneInString(s[i+k:])
			fits := k == n || k >= 3 && n < 3
			if fits && !isSpace(s[i-1]) && (c != '_' || !isWord(after)) {
				return i + k - n, true
			}
		}
		i += k
	}
	return 0, !more
}

// link shows a link or an image and returns how many bytes of s it has shown. The address is shown too, so that nobody
// is led elsewhere than the text says.
func (in *inline) link(s string, more bool, st style, depth int) int {
	open := 0
	if s[0] == '!' {
		if open = 1; len(s) == 1 && more {
			return 0
		}
	}
	if !strings.HasPrefix(s[open:], "[") {
		in.text(s[:1], st)
		return 1
	}
	text, address, n, ok := linkOf(s[open:], more)
	if !ok {
		return 0
	}
	if n == 0 || depth >= maxNested {
		in.text(s[:open+1], st)
		return open + 1
	}
	if shown := strings.TrimSpace(text); shown != "" && shown != address {
		in.prev = '['
		in.scan(text, true, st, depth+1)
		in.text(" (", st)
		in.text(address, st|linked)
		in.text(")", st)
	} else {
		in.text(address, st|linked)
	}
	return open + n
}

// linkOf returns the parts of a link such as [text](address) at the beginning of s, and its length; 0 if it is none.
func linkOf(s string, more bool) (text, address string, n int, ok bool) {
	end, ok := matching(s, '[', ']', more)
	if !ok || end == 0 {
		return "", "", 0, ok
	}
	if end+1 == len(s) && more {
		return "", "", 0, false
	}
	if text = s[1:end]; !strings.HasPrefix(s[end+1:], "(") {
		return "", "", 0, true
	}
	last, ok := matching(s[end+1:], '(', ')', more)
	if !ok || last == 0 {
		return "", "", 0, ok
	}
	address = strings.TrimSpace(s[end+2 : end+1+last])
	if i := strings.IndexAny(address, " \t"); i > 0 && strings.ContainsAny(address[i:], `"'`) {
		address = address[:i] // without the title
	}
	if strings.HasPrefix(address, "<") && strings.HasSuffix(address, ">") {
		address = address[1 : len(address)-1]
	}
	if address == "" {
		return "", "", 0, true
	}
	return text, address, end + 1 + last + 1, true
}

// matching returns where the bracket is that matches the first byte of s; 0 if there is none.
func matching(s string, open, shut byte, more bool) (end int, ok bool) {
	depth := 0
	for i := 0; i < len(s); {
		k := 1
		switch s[i] {
		case '\\':
			k = 2
		case '`':
			k = run(s[i:])
			end, ok := closingTicks(s[i:], k, more)
			if !ok {
				return 0, false
			}
			k = max(k, end)
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return i, true
			}
		}
		i += k
	}
	return 0, !more
}

func isPunctuation(c byte) bool { return c > ' ' && c < 0x7f && !isWord(rune(c)) || c == '_' }

// isWord reports whether r is a part of a word.
func isWord(r rune) bool {
	return r == '_' || r != utf8.RuneError && r != 0 && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
