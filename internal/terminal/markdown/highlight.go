package markdown

import "strings"

// lexer colours the lines of code of one language, roughly: it knows words, strings, comments and numbers.
type lexer struct {
	words   string // the keywords, each between spaces
	line1   string // begins a comment that ends with the line
	open    string // begins a comment that ends with shut
	shut    string
	quotes  string // begin strings that end with the line
	long    string // begin strings that may have several lines
	prefix  bool   // what a line begins with says all: diff
	keys    bool   // a word before a colon is a keyword: YAML, JSON
	inside  string // what ends the comment or string that the line before has begun
	comment bool   // inside is the end of a comment
	last    byte   // of the part before
}

// newLexer returns the lexer for a language, by the word after the fence.
func newLexer(language string) lexer {
	const (
		c = " auto break case catch class const continue default delete do else enum extern false final finally for " +
			"fn if impl import in interface let loop match mod mut namespace new null nullptr override package " +
			"private protected pub public return self static struct super switch template this throw trait true try " +
			"type typedef union unsafe use using virtual void volatile where while bool char double float int long " +
			"short signed unsigned string String i32 i64 u8 u32 u64 usize f64 val var fun def object "
		goWords = " any append bool break byte cap case chan const continue copy default defer delete else error " +
			"fallthrough false float64 for func go goto if import int int64 interface iota len make map new nil " +
			"package panic range return rune select string struct switch true type uint uint64 var "
		python = " False None True and as assert async await break case class continue def del elif else except " +
			"finally for from global if import in is lambda match nonlocal not or pass raise return self try while " +
			"with yield "
		script = " any as async await boolean break case catch class const continue debugger default delete do else " +
			"enum export extends false finally for from function if implements import in instanceof interface let " +
			"new null number of private public readonly return static string super switch this throw true try type " +
			"typeof undefined var void while with yield "
		shell = " case do done elif else esac export fi for function if in local return select set then time until " +
			"while cd echo exit source unset "
		sql = " ADD ALTER AND AS ASC BY CASE CREATE DELETE DESC DISTINCT DROP ELSE END EXISTS FROM GROUP HAVING IN " +
			"INDEX INSERT INTO IS JOIN KEY LEFT LIMIT LIKE NOT NULL ON OR ORDER PRIMARY RIGHT SELECT SET TABLE THEN " +
			"UNION UPDATE VALUES WHEN WHERE WITH "
		literals = " true false null yes no on off "
	)
	switch strings.ToLower(strings.Trim(language, "{}.")) {
	case "go", "golang":
		return lexer{words: goWords, line1: "//", open: "/*", shut: "*/", quotes: `"'`, long: "`"}
	case "python", "py", "python3":
		return lexer{words: python, line1: "#", quotes: `"'`}
	case "javascript", "js", "jsx", "typescript", "ts", "tsx", "mjs":
		return lexer{words: script, line1: "//", open: "/*", shut: "*/", quotes: `"'`, long: "`"}
	case "c", "cpp", "c++", "h", "cc", "cs", "csharp", "java", "kotlin", "rust", "rs", "scala", "swift", "php", "dart",
		"zig", "proto":
		return lexer{words: c, line1: "//", open: "/*", shut: "*/", quotes: `"'`}
	case "sh", "bash", "zsh", "shell", "console", "dockerfile", "makefile", "make", "fish":
		return lexer{words: shell, line1: "#", quotes: `"'`}
	case "sql", "sqlite", "postgresql", "mysql":
		return lexer{words: sql + strings.ToLower(sql), line1: "--", open: "/*", shut: "*/", quotes: `"'`}
	case "json", "jsonc", "json5", "jsonl":
		return lexer{words: literals, line1: "//", quotes: `"`, keys: true}
	case "yaml", "yml", "toml", "ini", "env":
		return lexer{words: literals, line1: "#", quotes: `"'`, keys: true}
	case "diff", "patch":
		return lexer{prefix: true}
	}
	return lexer{}
}

// line returns a line of code in colours. whole is false if more of the line follows.
func (l *lexer) line(s string, whole bool) (out []piece) {
	if l.prefix {
		return l.diff(s, whole)
	}
	if l.words == "" {
		return []piece{{s, 0}}
	}
	start := 0 // of the last piece
	for at := 0; at < len(s); {
		n, st := l.next(s[at:])
		if k := len(out); k == 0 || out[k-1].style != st {
			out, start = append(out, piece{"", st}), at
		}
		at += n
		l.last, out[len(out)-1].text = s[at-1], s[start:at]
	}
	if whole {
		if l.last = 0; len(l.inside) == 1 && !strings.Contains(l.long, l.inside) || l.inside == "\n" {
			l.inside = "" // it ends with the line
		}
	}
	return out
}

// next returns the length and the style of what s begins with.
func (l *lexer) next(s string) (n int, st style) {
	c := s[0]
	switch {
	case l.inside != "":
		return l.within(s, 0)
	case l.line1 != "" && strings.HasPrefix(s, l.line1) && (l.line1 != "#" || l.last == 0 || isSpace(l.last)):
		l.inside, l.comment = "\n", true
		return l.within(s, len(l.line1))
	case l.open != "" && strings.HasPrefix(s, l.open):
		l.inside, l.comment = l.shut, true
		return l.within(s, len(l.open))
	case strings.IndexByte(l.quotes+l.long, c) >= 0:
		if l.inside, l.comment = s[:1], false; strings.HasPrefix(s, `"""`) || strings.HasPrefix(s, "'''") {
			l.inside = s[:3]
		}
		return l.within(s, len(l.inside))
	case isLetter(c):
		for n < len(s) && (isLetter(s[n]) || isDigit(s[n])) {
			n++
		}
		word := s[:n]
		if n < 20 && strings.Contains(l.words, " "+word+" ") || l.keys && n < len(s) && s[n] == ':' {
			return n, keyword
		}
		return n, 0
	case isDigit(c):
		for n < len(s) && (isLetter(s[n]) || isDigit(s[n]) || s[n] == '.') {
			n++
		}
		return n, number
	}
	return 1, 0
}

// within returns the length of the comment or string that goes on in s, whose first bytes begin it.
func (l *lexer) within(s string, first int) (n int, st style) {
	if st = quoted; l.comment {
		st = comment
	}
	for n = first; n < len(s); n++ {
		if s[n] == '\\' && !l.comment && l.inside != "`" {
			n++
			continue
		}
		if strings.HasPrefix(s[n:], l.inside) {
			n += len(l.inside)
			l.inside = ""
			if l.keys && strings.HasPrefix(strings.TrimLeft(s[n:], " "), ":") {
				st = keyword
			}
			return n, st
		}
	}
	return len(s), st
}

// diff colours a line of a diff.
func (l *lexer) diff(s string, whole bool) []piece {
	c := l.last
	if c == 0 {
		if c = ' '; s != "" {
			c = s[0]
		}
	}
	if l.last = c; whole {
		l.last = 0
	}
	var st style
	switch c {
	case '+':
		st = added
	case '-':
		st = removed
	case '@':
		st = number
	}
	return []piece{{s, st}}
}

// isLetter takes the bytes of characters that are not ASCII for letters too, so that none is cut.
func isLetter(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
