package tree

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// verdict is what the rules of one .gitignore file say about a path.
type verdict int

const (
	silent verdict = iota
	ignored
	kept // by a rule that begins with !
)

// rule is one line of a .gitignore file.
type rule struct {
	glob    string
	negated bool // begins with !
	folder  bool // ends with /: matches folders only
	base    bool // has no other /: matches the last name of a path
	literal bool // has nothing special: is compared
}

// rules holds the lines of one .gitignore file. The last that matches decides.
type rules []rule

// parseIgnore parses the text of a .gitignore file. As in git, an invalid pattern matches
// nothing.
func parseIgnore(text string) rules {
	var rs rules
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		if r, ok := parseRule(strings.TrimSuffix(line, "\r")); ok {
			rs = append(rs, r)
		}
	}
	return rs
}

func parseRule(line string) (r rule, ok bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.folder = strings.CutSuffix(line, "/")
	r.base = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	if strings.HasSuffix(line, "/**") {
		line += "/*" // what is in the folder, not the folder
	}
	r.glob = escapeBraces(line)
	r.literal = !strings.ContainsAny(line, `*?[\{}`)
	return r, doublestar.ValidatePattern(r.glob)
}

// escapeBraces escapes braces, which are special in globs but not in .gitignore.
func escapeBraces(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{', '}':
			b.WriteByte('\\')
		case '\\':
			b.WriteByte('\\')
			if i++; i == len(s) {
				return b.String()
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// match applies the rules to rel, a path with slashes, relative to the folder of the .gitignore
// file.
func (rs rules) match(rel string, isDir bool) verdict {
	base := path.Base(rel)
	for i := len(rs) - 1; i >= 0; i-- {
		r := rs[i]
		if r.folder && !isDir {
			continue
		}
		s := rel
		if r.base {
			s = base
		}
		if r.literal && r.glob != s || !r.literal && !doublestar.MatchUnvalidated(r.glob, s) {
			continue
		}
		if r.negated {
			return kept
		}
		return ignored
	}
	return silent
}
