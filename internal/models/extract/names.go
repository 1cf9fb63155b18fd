package extract

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// token is one word of a request.
type token struct {
	text string // without quotes and punctuation
	low  string // the same in small letters
	name bool   // it names a file, folder or glob: by its looks, or because it is quoted
}

var tokenPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("`[^`\n]+`|\"[^\"\n]+\"|'[^'\n]+'|(?:\\{[^}\\s]*\\}|[^\\s,])+")
})

// tokenize splits a request into words. A quoted text is one word. Hyphenated words are split
// unless they look like a file name.
func tokenize(line string) (out []token) {
	for _, raw := range tokenPattern().FindAllString(line, -1) {
		if last := len(raw) - 1; last > 1 && raw[0] == raw[last] && strings.ContainsAny(raw[:1], "`\"'") {
			out = append(out, token{text: raw[1:last], name: true})
			continue
		}
		text := strings.Trim(raw, "\"`'“”‘’()<>,;:!?")
		if base := path.Base(text); base != "." && base != ".." {
			text = strings.TrimRight(text, ".,;:!?")
		}
		parts := []string{text}
		if !pathLike(text) {
			parts = strings.Split(text, "-") // three-sentence
		}
		for _, part := range parts {
			if part != "" {
				out = append(out, token{text: part, low: strings.ToLower(part), name: pathLike(part)})
			}
		}
	}
	return out
}

// isForm reports whether t names a form in which this package cannot answer. Quoted words without the looks of a file
// name may do so too.
func (t token) isForm() bool {
	return !pathLike(t.text) && slices.ContainsFunc(strings.Fields(strings.ToLower(t.text)),
		func(word string) bool { return formSet()[word] })
}

// spell joins words again.
func spell(words []token) (text string) {
	for _, w := range words {
		text += " " + w.text
	}
	return strings.TrimSpace(text)
}

// pathLike reports whether a word looks like the name of a file, a folder or a glob: by a slash,
// a glob character or an extension.
func pathLike(s string) bool {
	if s == "." || s == ".." || strings.ContainsAny(s, "*[{") {
		return true
	}
	if strings.Contains(s, "/") {
		return !strings.Contains(s, "://") && s != "and/or"
	}
	ext := path.Ext(s)
	return len(ext) > 1 && len(ext) < 12 && len(ext) < len(s) && strings.ContainsFunc(ext, unicode.IsLetter) &&
		!strings.ContainsAny(ext, " ;'")
}

// target is a file, a folder or a glob that a request names.
type target struct {
	name    string // as it was written
	path    string
	pattern string // for list_files; empty for a file
	bare    bool   // an unknown word, which may be a name
}

// targetOf returns the files that a name in a prompt stands for. A glob stands for all files that
// match it. A name without an extension is a folder, and stands for all files in it.
func targetOf(name string) target {
	if at := strings.IndexAny(name, "*?[{"); at >= 0 {
		slash := strings.LastIndexByte(name[:at], '/') + 1
		return target{name: name, path: path.Clean(name[:slash]), pattern: name[slash:]}
	}
	clean := path.Clean(name)
	if base := path.Base(clean); !strings.HasSuffix(name, "/") && path.Ext(base) != "" && base != "." && base != ".." {
		return target{name: name, path: clean}
	}
	return target{name: name, path: clean, pattern: "**"}
}
