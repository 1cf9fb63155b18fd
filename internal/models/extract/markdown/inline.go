package markdown

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// rewrite is a pattern and the replacement for its matches.
type rewrite struct {
	pattern *regexp.Regexp
	with    string
}

const htmlTags = "a|abbr|b|big|blockquote|br|center|cite|code|dd|del|details|div|dl|dt|em|font|h[1-6]|hr|i|img|ins" +
	"|kbd|li|mark|ol|p|picture|q|s|samp|section|small|source|span|strike|strong|sub|summary|sup|tt|u|ul|video"

// inlineMarkup lists the rewrites that remove inline Markdown and HTML, in the order in which
// they run. A link becomes its text; an image and a footnote mark become nothing.
var inlineMarkup = sync.OnceValue(func() []rewrite {
	return []rewrite{
		{regexp.MustCompile(`<!--.*?-->`), " "},
		{regexp.MustCompile(`<(https?://[^<> ]+)>`), "$1"},
		{regexp.MustCompile(`</?(?i:` + htmlTags + `)(?:[ /][^<>]*)?>`), " "},
		{regexp.MustCompile(`!\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])?`), " "},
		{regexp.MustCompile(`\[\^[^\[\]]*\]|^\[![A-Z]+\]`), " "},
		{regexp.MustCompile(`\[([^\[\]]*)\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])`), "$1"},
		{regexp.MustCompile(`(^|\s):[a-z][a-z0-9_+-]+:`), "$1"},
		{regexp.MustCompile(`~~`), ""},
		{regexp.MustCompile(`(^|[\s("“'–—-])[*_]{1,3}([^\s*_])`), "$1$2"},
		{regexp.MustCompile(`([^\s*_])[*_]{1,3}($|[\s).,;:!?"”'–—-])`), "$1$2"},
		{regexp.MustCompile(`\s+`), " "},
		{regexp.MustCompile(` ([.,;:!?)])( |$)`), "$1$2"},
	}
})

// literalPattern and heldPattern protect text in which markup does not count: placeholders stand for it while
// markup is removed.
var (
	// literalPattern matches code spans and backslash escapes. heldPattern matches their placeholders.
	literalPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("``+ ?[^`].*?[^`] ?``+|`[^`]+`|\\\\[[:punct:]]")
	})
	heldPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\uE000\\d+\uE001") })
)

// stripInline removes inline Markdown and HTML from a paragraph. Code spans stay.
func stripInline(s string) string {
	if !strings.ContainsAny(s, "\\`![]<*_~&:") {
		return strings.Join(strings.Fields(s), " ")
	}
	s = strings.TrimSpace(strings.NewReplacer("\uE000", "", "\uE001", "").Replace(s))
	var held []string
	s = literalPattern().ReplaceAllStringFunc(s, func(literal string) string {
		switch {
		case literal[0] == '\\':
			literal = literal[1:]
		case strings.HasPrefix(literal, "``"):
			literal = "`" + strings.Trim(literal, "` ") + "`"
		}
		held = append(held, strings.Join(strings.Fields(literal), " "))
		return "\uE000" + strconv.Itoa(len(held)-1) + "\uE001"
	})
	for _, r := range inlineMarkup() {
		s = r.pattern.ReplaceAllString(s, r.with)
	}
	s = heldPattern().ReplaceAllStringFunc(html.UnescapeString(s), func(place string) string {
		i, _ := strconv.Atoi(strings.Trim(place, "\uE000\uE001"))
		return held[i]
	})
	return strings.Join(strings.Fields(s), " ")
}
