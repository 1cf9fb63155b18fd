// Package gitconfig reads the configuration of a repository, and says whether it certainly starts no program. A text
// that git might read in another way is a doubt.
package gitconfig

import (
	"bytes"
	"fmt"
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
	var at Setting
	for line := range strings.SplitSeq(string(text), "\n") {
		line = strings.Trim(line, " \t\r")
		if head := gitSection().FindStringSubmatch(line); head != nil {
			at = Setting{Section: strings.ToLower(head[1]), Name: head[2]}
			line = strings.TrimLeft(line[len(head[0]):], " \t")
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key := gitKey().FindStringSubmatch(line)
		if key == nil || strings.HasSuffix(line, `\`) {
			return nil, fmt.Sprintf("%.60q", line)
		}
		at.Key, at.Value = strings.ToLower(key[1]), key[2]
		if !harmless(at.Section, at.Key) {
			return nil, at.Section + "." + at.Key
		}
		all = append(all, at)
	}
	return all, ""
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
