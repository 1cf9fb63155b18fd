package astgrep

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"qq/pkg/tool"
)

// maxText is the longest pattern or replacement, in bytes.
const maxText = 16 << 10

// minWord is the length, in bytes, of the shortest word of a pattern that files are searched for before ast-grep
// parses them.
const minWord = 3

// query holds the decoded arguments of a call of ast_grep or ast_grep_replace.
type query struct {
	pattern, lang string
	rewrite       *string // nil if nothing is to be replaced
	start, glob   string
}

const queryProperties = `"pattern":{"type":"string"},"lang":{"type":"string"},` +
	`"path":{"type":"string"},"glob":{"type":"string"}`

// fields maps the arguments that both tools share to the fields of q.
func (q *query) fields() tool.Fields {
	return tool.Fields{"pattern": &q.pattern, "lang": &q.lang, "path": &q.start, "glob": &q.glob}
}

// check normalizes q, and returns an error in words for the model if q cannot work.
func (q *query) check() error {
	q.glob = strings.TrimPrefix(q.glob, "./")
	q.lang = strings.ToLower(strings.TrimSpace(q.lang))
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("+-_#", r))
	}
	switch {
	case strings.TrimSpace(q.pattern) == "":
		return tool.Missing("pattern")
	case q.lang == "":
		return tool.Missing("lang")
	case strings.ContainsFunc(q.lang, odd):
		return fmt.Errorf("lang %q is not the name of a language", q.lang)
	case !doublestar.ValidatePattern(q.glob):
		return fmt.Errorf("glob %q is not valid", q.glob)
	}
	if err := checkText("pattern", q.pattern); err != nil || q.rewrite == nil {
		return err
	}
	return checkText("rewrite", *q.rewrite)
}

func checkText(key, text string) error {
	if len(text) > maxText {
		return fmt.Errorf("%s is %d bytes long, at most %d", key, len(text), maxText)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%s contains a character that is no text", key)
	}
	return nil
}

// readRewrite decodes the replacement text. A missing one is an error. An empty text is valid, and
// deletes the matches.
func readRewrite(value json.RawMessage) (*string, error) {
	if value == nil {
		return nil, tool.Missing("rewrite")
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return nil, errors.New(`argument "rewrite" must be text`)
	}
	return &text, nil
}

// args returns the command line for ast-grep, without the files. Each text of the model is the
// end of an argument such as --pattern=TEXT, so it cannot become an option.
func (q *query) args() []string {
	pattern, selector := q.pattern, ""
	if language(q.lang) == "go" && isGoCall(pattern) {
		// Alone, f.G(x) would be parsed as a conversion to the type f.G and match no call in a function.
		pattern, selector = "func _() { "+pattern+" }", "--selector=call_expression"
	}
	args := []string{"run", "--json=stream", "--color=never", "--custom-languages=ignore", "--lang=" + q.lang,
		"--pattern=" + pattern}
	if selector != "" {
		args = append(args, selector)
	}
	if q.rewrite != nil {
		args = append(args, "--rewrite="+*q.rewrite)
	}
	return append(args, "--")
}

// words returns names and keywords that every matching file must contain; nil means that none are known. Searching
// for them takes a tenth of the time of parsing.
func (q *query) words() []string {
	if language(q.lang) == "php" || language(q.lang) == "html" || language(q.lang) == "css" {
		return nil // some of their words ignore case
	}
	for _, comment := range []string{"//", "/*", "#", "--"} {
		if strings.Contains(q.pattern, comment) {
			return nil
		}
	}
	var words []string
	// A word with a dollar sign is a placeholder.
	apart := func(r rune) bool { return r > unicode.MaxASCII || !nameRune(r) }
	for word := range strings.FieldsFuncSeq(q.pattern, apart) {
		if len(word) >= minWord && !strings.Contains(word, "$") {
			words = append(words, word)
		}
	}
	return words
}

// isGoCall reports whether the whole pattern is a Go call of a named function: names and dots,
// then parentheses that end it.
func isGoCall(pattern string) bool {
	rest := []rune(strings.TrimSpace(pattern))
	if len(rest) == 0 || rest[len(rest)-1] != ')' || !nameRune(rest[0]) {
		return false
	}
	depth := 0
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth < 0 {
				return false
			}
		case c == '"' || c == '`' || c == '\'':
			if depth == 0 {
				return false
			}
			i = endOfQuote(rest, i)
		case depth == 0 && c != '.' && !nameRune(c):
			return false
		}
	}
	return depth == 0
}

// endOfQuote returns the index of the quotation mark that closes the one at start, or len(text) if there is none.
func endOfQuote(text []rune, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch {
		case text[i] == text[start]:
			return i
		case text[i] == '\\' && text[start] != '`':
			i++
		}
	}
	return len(text)
}

func nameRune(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// language returns ast-grep's name for the language s, which may be another name of it or a file
// extension. An unknown name is returned unchanged.
func language(s string) string {
	switch s {
	case "golang":
		return "go"
	case "py", "pyi", "py3":
		return "python"
	case "js", "jsx", "mjs", "cjs":
		return "javascript"
	case "ts", "mts", "cts":
		return "typescript"
	case "rs":
		return "rust"
	case "rb":
		return "ruby"
	case "cs":
		return "csharp"
	case "kt", "kts":
		return "kotlin"
	case "cc", "cxx", "c++", "hpp", "hh":
		return "cpp"
	case "yml":
		return "yaml"
	case "htm":
		return "html"
	}
	return s
}

// foreign reports whether the extension of file belongs to another language than lang. It only
// saves time: ast-grep parses every file that it is given by name.
func foreign(file, lang string) bool {
	of := language(strings.ToLower(strings.TrimPrefix(path.Ext(file), ".")))
	switch of {
	case "go", "python", "javascript", "typescript", "tsx", "rust", "ruby", "csharp", "kotlin", "cpp", "yaml", "html",
		"java", "php", "json", "css":
		return of != language(lang)
	}
	return false
}
