package vocabulary

import (
	"os"
	"strings"

	"qq/pkg/spelling"
)

// Nearly reports whether word is the name of a command with a typing error: it differs in one letter or, if the name
// has six letters or more, in two. The first letter is right, unless the only mistake is there.
func Nearly(word, name string) bool {
	d := spelling.Distance(word, name)
	right := word != "" && word[0] == name[0]
	swapped := len(word) > 1 && word[0] == name[1] && word[1] == name[0]
	switch {
	case len(name) < 4:
		return false
	case len(name) < 6:
		return d == 1 && (right || swapped)
	}
	return d == 1 || d == 2 && right
}

// IsFile reports whether name is a file, or looks like one: it has a slash, a dot inside or a wildcard, or is the :::
// of GNU parallel.
func IsFile(name string) bool {
	if info, err := os.Stat(name); err == nil {
		return !info.IsDir()
	}
	return strings.ContainsAny(name, "/*?[{") || strings.HasPrefix(name, ":::") ||
		strings.Contains(strings.Trim(name, "."), ".")
}
