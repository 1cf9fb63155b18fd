package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"qq/internal/tools/tree"
)

// maxEntries is how many files and folders are looked at below the folders that a command reads.
const maxEntries = 20_000

// reader says how a program reads the folders that its words name.
type reader struct {
	recursive bool // it reads the files below
	pattern   bool // its first word without a dash is no path
	here      bool // without a path it reads the folder that it runs in
	skipsDots bool // it leaves out files and folders that begin with a dot
	skipsGit  bool // it leaves out .git
	follows   bool // it follows links below a folder
}

// readerOf returns how the program that words call reads folders.
func readerOf(words []string) reader {
	has := func(letters string, long ...string) bool {
		return slices.ContainsFunc(words[1:], func(w string) bool {
			name, _, _ := strings.Cut(w, "=")
			cluster := strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--")
			return cluster && strings.ContainsAny(w, letters) || slices.Contains(long, name)
		})
	}
	switch program(words) {
	case "grep", "egrep", "fgrep", "zgrep":
		return reader{recursive: has("rRd", "--recursive", "--dereference-recursive", "--directories"), pattern: true,
			here: true, follows: has("R", "--dereference-recursive"), skipsGit: program(words) == "grep"}
	case "rg", "ag", "ack":
		dots := has("u.", "--hidden", "--no-ignore", "--unrestricted")
		return reader{recursive: true, pattern: true, here: true, skipsDots: !dots, follows: has("L", "--follow")}
	case "git":
		untracked := slices.Contains(words[1:], "grep") && has("", "--untracked", "--no-index")
		return reader{recursive: untracked, pattern: true, here: true, skipsGit: true}
	case "find", "fd":
		return reader{recursive: has("xX", "-exec", "-execdir", "-ok", "-okdir"), here: true, follows: true}
	case "tar", "bsdtar", "zip", "7z", "rsync", "cp", "scp", "diff", "cpio":
		return reader{recursive: true, follows: true}
	}
	return reader{}
}

// looks returns an error if the words of a command name a link that leads out of the folder of the agent or to
// secrets, or a folder below which the program would read secrets. What a word says by itself is not looked at:
// the rule names it.
func (at Place) looks(words []string) error {
	root, err := filepath.EvalSymlinks(at.Root)
	if err != nil {
		return fmt.Errorf("the working directory: %w", tree.Reason(err))
	}
	l := lookout{reader: readerOf(words), root: root}
	for _, word := range words[1:] {
		named := []string{word}
		if _, value, ok := strings.Cut(word, "="); ok { // --file=x, if=x
			named = append(named, value)
		}
		if file, ok := strings.CutPrefix(word, "@"); ok {
			named = append(named, file)
		}
		for _, path := range named {
			if err := l.look(absolute(at.Dir, path), word); err != nil {
				return err
			}
		}
	}
	if l.recursive && l.here && !l.named(words) {
		return l.below(at.Dir, "the folder")
	}
	return nil
}

// named reports whether words certainly name the paths that the program reads.
func (r reader) named(words []string) bool {
	o, ok := optionsOf(words)
	if o.style == dash { // find: its paths come first
		return len(words) > 1 && !strings.HasPrefix(words[1], "-")
	}
	value, paths := false, 0
	if r.pattern {
		paths--
	}
	for _, w := range words[len(strings.Fields(o.name)):] {
		switch {
		case value:
			value = false
		case !strings.HasPrefix(w, "-"):
			paths++
		case !ok || !o.admits(w) && w != "--" || strings.HasPrefix(w, "--") && !strings.Contains(w, "=") &&
			slices.Contains(strings.Fields(o.long), w[2:]+"="): // it may take the next word
			return false
		case strings.HasPrefix(w, "-e"), strings.HasPrefix(w, "--regexp="):
			paths++
			value = w == "-e"
		default:
			value = w[1] != '-' && strings.Contains(o.letters, w[len(w)-1:]+":")
		}
	}
	return paths > 0
}

// lookout looks at what a command would read.
type lookout struct {
	reader
	root    string // the real path of the folder of the agent
	entries int
}

// look is about one word, which may be the path.
func (l *lookout) look(path, word string) error {
	_, err := os.Lstat(path)
	switch {
	case !inside(l.root, filepath.Clean(path)), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, syscall.ENAMETOOLONG):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", word, tree.Reason(err))
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case err != nil:
		return fmt.Errorf("%s is a link that cannot be followed", word)
	case !inside(l.root, real):
		return fmt.Errorf("%s leads out of the working directory", word)
	case l.secret(real) && !l.secret(path):
		return fmt.Errorf("%s leads to a file that looks like secrets", word)
	}
	if info, err := os.Stat(real); err == nil && info.IsDir() && l.recursive {
		return l.below(real, word)
	}
	return nil
}

// below returns an error if the program would read a secret below the folder dir.
func (l *lookout) below(dir, word string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if l.entries++; l.entries > maxEntries {
			return fmt.Errorf("more than %d files are below %s: too many to look for secrets", maxEntries, word)
		}
		name := filepath.Base(path)
		skipped := path != dir && (l.skipsDots && strings.HasPrefix(name, ".") || l.skipsGit && name == ".git")
		switch {
		case err != nil || skipped && !e.IsDir(): // what qq cannot read, the command cannot either
			return nil
		case skipped:
			return fs.SkipDir
		case l.follows && e.Type() == fs.ModeSymlink:
			real, err := filepath.EvalSymlinks(path)
			if err == nil && (!inside(dir, real) || l.secret(real)) {
				return fmt.Errorf("%s would be followed", path)
			}
		case e.Type().IsRegular() && l.secret(path):
			rel, _ := filepath.Rel(l.root, path) // both are absolute
			return fmt.Errorf("it would read %s, which looks like secrets", rel)
		}
		return nil
	})
}

// secret reports whether a file looks like secrets by its path below the folder of the agent.
func (l *lookout) secret(path string) bool {
	rel, err := filepath.Rel(l.root, path)
	return err != nil || tree.Secret(filepath.ToSlash(rel))
}
