// Package gitconfig reads configurations of git. It says of that of a repository whether it certainly starts no
// program: a text that git might read in another way is a doubt. And it says which files and folders it names.
package gitconfig

import (
	"bytes"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"sync"
)

var (
	gitSection = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\[([A-Za-z0-9-]+)(?:[ \t]+"((?:[^"\\]|\\["\\])*)")?\]`)
	})
	gitKey = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:$|=[ \t]*(.*))`)
	})
)

// Setting is one line of a configuration of git.
type Setting struct {
	Section, Name, Key string // section and key in lower case; the name is that of a remote or a branch
	Value              string // as it is written
}

// Parse returns the settings of a configuration of git. doubt is the first key that is not known to start no
// program, or a text about what cannot be read; "" if there is none.
func Parse(text []byte) (all []Setting, doubt string) {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, "a NUL character"
	}
	for s, doubt := range lines(text) {
		if doubt == "" && !harmless(s.Section, s.Key) {
			doubt = s.Section + "." + s.Key
		}
		if doubt != "" {
			return nil, doubt
		}
		all = append(all, s)
	}
	return all, ""
}

// Read returns the settings of a configuration of git, whatever they do. It leaves out what cannot be read: values of
// several lines, which programs do not write, and what is no setting.
func Read(text []byte) (all []Setting) {
	for s, doubt := range lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		if doubt == "" {
			all = append(all, s)
		}
	}
	return all
}

// lines yields the settings of a configuration of git, and a doubt instead for each line that cannot be read.
func lines(text []byte) iter.Seq2[Setting, string] {
	return func(yield func(Setting, string) bool) {
		var at Setting
		for line := range strings.SplitSeq(string(text), "\n") {
			line = strings.Trim(line, " \t\r")
			if head := gitSection().FindStringSubmatch(line); head != nil {
				at = Setting{Section: strings.ToLower(head[1]), Name: head[2]}
				line = strings.TrimLeft(line[len(head[0]):], " \t")
			} else if strings.HasPrefix(line, "[") {
				at = Setting{} // whatever follows
			}
			if line == "" || line[0] == '#' || line[0] == ';' {
				continue
			}
			doubt := ""
			key := gitKey().FindStringSubmatch(line)
			if key == nil || strings.HasSuffix(line, `\`) {
				doubt = fmt.Sprintf("%.60q", line)
			} else {
				at.Key, at.Value = strings.ToLower(key[1]), key[2]
			}
			if !yield(at, doubt) {
				return
			}
		}
	}
}

// Text returns the value of s as git reads it: without a comment, quotes and escapes.
func (s Setting) Text() string {
	var b strings.Builder
	quoted, end := false, 0 // end is where the value ends if only space follows
	for i := 0; i < len(s.Value); i++ {
		c := s.Value[i]
		space := !quoted && (c == ' ' || c == '\t')
		switch {
		case c == '"':
			quoted = !quoted
			end = b.Len()
			continue
		case !quoted && (c == '#' || c == ';'):
			return b.String()[:end]
		case c == '\\' && i+1 < len(s.Value):
			i++
			if c = s.Value[i]; strings.IndexByte("ntb", c) >= 0 {
				c = map[byte]byte{'n': '\n', 't': '\t', 'b': '\b'}[c]
			}
		}
		b.WriteByte(c)
		if !space {
			end = b.Len()
		}
	}
	return b.String()[:end]
}

// harmless reports whether a key of the configuration of a repository names no program, no other
// configuration and no other place of files.
func harmless(section, key string) bool {
	switch section {
	case "core":
		switch key {
		case "repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode",
			"symlinks", "autocrlf", "eol", "safecrlf", "abbrev", "quotepath", "untrackedcache", "longpaths",
			"checkstat",
			"trustctime", "preloadindex", "commitgraph", "compression", "whitespace", "protecthfs", "protectntfs":
			return true
		}
	case "remote":
		switch key {
		case "url", "pushurl", "fetch", "push", "prune", "tagopt", "mirror", "gh-resolved":
			return true
		}
	case "branch":
		switch key {
		case "remote", "merge", "rebase", "pushremote", "description", "vscode-merge-base", "gh-merge-base":
			return true
		}
	case "user":
		return key == "name" || key == "email"
	case "submodule":
		return key == "url" || key == "active"
	case "extensions":
		return key == "objectformat" || key == "worktreeconfig"
	case "lfs":
		return key == "repositoryformatversion" || key == "access"
	case "commit":
		return key == "gpgsign"
	case "pull", "push", "rerere":
		return key == "rebase" || key == "ff" || key == "default" || key == "autosetupremote" || key == "enabled"
	case "color", "advice":
		return true
	}
	return false
}
