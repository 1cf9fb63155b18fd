package worktree

import "strings"

// Apply returns the command for a shell that applies the patch in a file, as far as it fits. Its paths are those in the
// folder dir, which has no links. git reads the paths in a patch from the top of a repository, and leaves out those
// that are not below its working directory.
func Apply(dir, file string) string {
	words := []string{"git", "-C", dir, "apply", "--reject"}
	if top := Top(dir); top != "" && top != dir {
		words[2] = top
		words = append(words, "--directory="+strings.TrimPrefix(dir, strings.TrimSuffix(top, "/")+"/"))
	}
	words = append(words, file)
	for i, word := range words {
		words[i] = quoted(word)
	}
	return strings.Join(words, " ")
}

// quoted returns a word for a shell.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
