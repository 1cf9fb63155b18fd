package extract

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"qq/internal/models/extract/digest"
)

// token is one word of a request.
type token struct {
	text   string // without quotes and punctuation
	low    string // the same in small letters
	start  int    // where it begins in the line
	end    int    // where it ends
	quoted bool
	path   bool // looks like the name of a file, a folder or a glob
	comma  bool // a comma or a full stop follows
}

// tokenize splits a request into words. What stands in quotes is one word when
// it can be a path; words joined by hyphens are separate unless they are a path.
func tokenize(line string) []token {
	var out []token
	for i := 0; i < len(line); {
		if line[i] == ' ' || line[i] == '\t' || line[i] == '\n' || line[i] == '\r' {
			i++
			continue
		}
		if inner, n := quotedWord(line[i:]); n > 0 {
			i += n
			comma := i < len(line) && strings.IndexByte(",.;", line[i]) >= 0
			out = append(out, token{text: inner, low: strings.ToLower(inner), start: i - n, end: i, quoted: true, path: pathLike(inner) || !strings.Contains(inner, " "), comma: comma})
			continue
		}
		n := strings.IndexAny(line[i:], " \t\n\r")
		if n < 0 {
			n = len(line) - i
		}
		out = addWords(out, line[i:i+n], i)
		i += n
	}
	return out
}

// quotedWord returns what stands in the quotes that s begins with, if it can
// name a file, and the length with the quotes.
func quotedWord(s string) (string, int) {
	for _, pair := range [...][2]string{{"`", "`"}, {`"`, `"`}, {"'", "'"}, {"“", "”"}, {"«", "»"}, {"‘", "’"}} {
		rest, ok := strings.CutPrefix(s, pair[0])
		if !ok {
			continue
		}
		end := strings.Index(rest[:min(len(rest), 300)], pair[1])
		if end <= 0 {
			return "", 0
		}
		inner := strings.TrimSpace(rest[:end])
		if inner == "" || strings.Contains(inner, "\n") || strings.Contains(inner, " ") && !pathLike(inner) {
			return "", 0
		}
		return inner, len(pair[0]) + end + len(pair[1])
	}
	return "", 0
}

// addWords adds what stands between two spaces.
func addWords(out []token, raw string, start int) []token {
	text, comma := trimPunctuation(raw)
	if text == "" {
		if len(out) > 0 && comma {
			out[len(out)-1].comma = true
		}
		return out
	}
	parts := []string{text}
	isPath := pathLike(text)
	if strings.Contains(text, ",") && !strings.Contains(text, "{") {
		parts = strings.Split(text, ",") // a.md,b.md
	} else if !isPath {
		parts = strings.Split(text, "-") // three-sentence
	}
	for i, part := range parts {
		if part != "" {
			out = append(out, token{text: part, low: strings.ToLower(part), start: start, end: start + len(raw), path: pathLike(part), comma: comma && i == len(parts)-1})
		}
	}
	return out
}

// trimPunctuation drops what belongs to the sentence and not to the word.
func trimPunctuation(s string) (text string, comma bool) {
	s = strings.TrimLeft(s, "\"'`“”‘’(<")
	for s != "" {
		last := s[len(s)-1]
		switch {
		case strings.HasSuffix(s, "”") || strings.HasSuffix(s, "’"):
			s = s[:len(s)-len("”")]
			continue
		case last == '.' && (s == "." || s == ".." || strings.HasSuffix(s, "/.") || strings.HasSuffix(s, "/..")):
			return s, comma
		case strings.IndexByte(".,;:!?", last) >= 0:
			comma = true
		case strings.IndexByte("\"'`>", last) >= 0, last == ')' && !strings.Contains(s, "("):
		default:
			return s, comma
		}
		s = s[:len(s)-1]
	}
	return s, comma
}

// pathLike reports whether a word looks like the name of a file, a folder or a
// glob, by a slash, a glob character or an extension.
func pathLike(s string) bool {
	switch strings.ToLower(s) {
	case ".", "..", "./", "../":
		return true
	case "and/or", "either/or", "he/she", "his/her", "i/o", "n/a", "w/o", "tl/dr", "/", "*", "e.g", "i.e", "1/2", "24/7", "yes/no":
		return false
	}
	if strings.Contains(s, "://") {
		return false
	}
	if strings.ContainsAny(s, "*[{") || strings.Contains(strings.TrimRight(s, "?"), "?") {
		return true
	}
	if strings.Contains(s, "/") {
		return strings.Trim(s, "0123456789/") != ""
	}
	ext := path.Ext(s)
	if len(ext) < 2 || len(ext) > 11 || strings.ContainsAny(ext, " ;'") {
		return false
	}
	letters := strings.ContainsFunc(ext, unicode.IsLetter)
	version := strings.Trim(strings.TrimLeft(s, "vV"), "0123456789.") == ""
	return letters && !version
}

// targetOf says how to find what a word names.
func targetOf(name string) target {
	clean := strings.TrimPrefix(name, "./")
	if clean == "" {
		clean = "."
	}
	if strings.ContainsAny(clean, "*?[{") {
		fixed, glob := ".", clean
		for {
			head, tail, ok := strings.Cut(glob, "/")
			if !ok || strings.ContainsAny(head, "*?[{") {
				break
			}
			fixed, glob = path.Join(fixed, head), tail
			if strings.HasPrefix(clean, "/") && !strings.HasPrefix(fixed, "/") {
				fixed = "/" + fixed
			}
		}
		return target{name: name, path: fixed, pattern: glob}
	}
	base := path.Base(clean)
	if !strings.HasSuffix(clean, "/") && path.Ext(base) != "" && base != "." && base != ".." {
		return target{name: name, path: clean}
	}
	return folder(name)
}

func folder(name string) target {
	return target{name: name, path: path.Clean(name), pattern: "**"}
}

// places finds what a request is about: paths, words beside "folder" and
// "file", and else the bare words that are left.
func (p *headParser) places(req *request) {
	book := requests()
	free := func(i int) bool { // no word of the request itself
		if i < 0 || i >= len(p.words) || p.used[i] {
			return false
		}
		w := p.words[i]
		_, isNumber := number(w.low)
		return !w.path && !isNumber && !book.lead[w.low] && !digest.IsStop(w.low) && strings.ContainsFunc(w.text, unicode.IsLetter)
	}
	bare := func(i int) bool { return free(i) && !book.filler[p.words[i].low] }
	for i, w := range p.words {
		next := ""
		if i+1 < len(p.words) {
			next = p.words[i+1].low
		}
		isFiles := next == "files" || next == "file" || next == "documents"
		switch {
		case p.used[i]:
		case w.path && isFiles && strings.HasPrefix(strings.TrimPrefix(w.text, "*"), ".") && !strings.Contains(w.text, "/"):
			req.exts = append(req.exts, strings.TrimPrefix(w.low, "*"))
		case w.low == "markdown" && isFiles:
			req.exts = append(req.exts, ".md", ".markdown")
		case w.path:
			found := targetOf(w.text)
			found.longer = p.longer(i)
			req.targets = append(req.targets, found)
		case w.low == "folder" || w.low == "directory" || w.low == "dir":
			if before := p.before(i); before == "this" || before == "current" || before == "working" {
				req.targets = append(req.targets, folder("."))
			} else if free(i + 1) {
				req.targets = append(req.targets, folder(p.words[i+1].text))
			} else if bare(i - 1) {
				req.targets = append(req.targets, folder(p.words[i-1].text))
			}
		case w.low == "file" && free(i+1):
			req.targets = append(req.targets, folder(p.words[i+1].text))
		case w.low == "project" || w.low == "repo" || w.low == "repository" || w.low == "codebase":
			req.targets = append(req.targets, target{name: w.text, path: ".", pattern: "**/*.md"})
		case bare(i) && p.listed(i):
			req.targets = append(req.targets, folder(w.text))
		case bare(i):
			req.guesses = append(req.guesses, w.text)
		}
	}
	if len(req.targets) == 0 && len(req.exts) > 0 {
		req.targets = []target{folder(".")}
	}
	if len(req.targets) > 0 || len(req.guesses) > 3 {
		req.guesses = nil
	}
}

// longer returns the names with spaces that may end in the word at i, longest
// first; none where only words stand before it that nobody begins a name with.
func (p *headParser) longer(i int) (names []string) {
	end := p.words[i].start + len(p.words[i].text)
	unusual := false
	for j := i - 1; j >= max(0, i-6); j-- {
		w := p.words[j]
		if p.words[i].quoted || p.used[j] || w.path || w.quoted || w.comma {
			break
		}
		unusual = unusual || !requests().article[w.low]
		if name := p.line[w.start:end]; strings.HasSuffix(name, p.words[i].text) && !strings.ContainsAny(name, "*?[]{}\\\"'`(") {
			names = append(names, name)
		}
	}
	if !unusual {
		return nil
	}
	slices.Reverse(names)
	return names
}

// listed reports whether a bare word stands in a row with a path, as in "docs
// and README.md": then it names a folder too.
func (p *headParser) listed(i int) bool {
	link := func(low string) bool { return low == "and" || low == "or" || low == "&" || low == "plus" }
	path := func(i int) bool { return i >= 0 && i < len(p.words) && p.words[i].path }
	switch {
	case p.words[i].comma && path(i+1), i+1 < len(p.words) && link(p.words[i+1].low) && path(i+2):
		return true
	case i > 0 && p.words[i-1].comma && path(i-1), i > 0 && link(p.words[i-1].low) && path(i-2):
		return true
	}
	return false
}

func (p *headParser) before(i int) string {
	if i == 0 {
		return ""
	}
	return p.words[i-1].low
}
