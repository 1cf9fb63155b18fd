// Package template finds the slash commands that people write for themselves: Markdown files whose text becomes a task.
//
// A file .qq/commands/review.md is the command /review. $ARGUMENTS in its text is what a person types behind the name;
// without it, that comes at the end. Front matter may have a description. Commands of a checkout count only if a person
// trusts their file; those below the folder of the user's settings always do.
//
// Everything is bounded, and only regular files inside of the checkout are read.
package template

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"qq/internal/config/trust"
	"qq/pkg/regular"
	"qq/pkg/task"
)

// Limits of what is read.
const (
	maxFiles = 200
	maxBytes = 64 << 10
	maxName  = 60
)

// Command is a command of a person.
type Command struct {
	Name        string // without the slash
	Description string // one line; may be empty
	File        string // relative to the checkout; or the whole path, if it is one of the user
	Sum         string // SHA-256 of the file
	Own         bool   // it is one of the user, not of the checkout
	Text        string // that becomes the task
}

// Folders are those of a checkout. The first one that has a name counts.
var folders = []string{".qq/commands", ".claude/commands"}

// Of returns the commands of the checkout dir, trusted or not, sorted by name.
func Of(dir string) []Command {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	var all []Command
	for _, folder := range folders {
		all = add(all, root, folder)
	}
	return all
}

// OfUser returns the commands of the user. configHome is the base folder of the settings of users.
func OfUser(configHome string) []Command {
	if configHome == "" {
		return nil
	}
	root, err := os.OpenRoot(filepath.Join(configHome, "qq"))
	if err != nil {
		return nil
	}
	defer root.Close()
	all := add(nil, root, "commands")
	for i := range all {
		all[i].File, all[i].Own = filepath.Join(root.Name(), all[i].File), true
	}
	return all
}

// Usable returns the commands that count in the checkout dir. left are those of the checkout that need trust.
func Usable(dir, configHome string, decided *trust.Folder) (usable, left []Command) {
	for _, c := range Of(dir) {
		if decided.State(c.File, c.Sum) == trust.Trusted {
			usable = append(usable, c)
		} else {
			left = append(left, c)
		}
	}
	for _, c := range OfUser(configHome) {
		if !slices.ContainsFunc(usable, func(o Command) bool { return o.Name == c.Name }) {
			usable = append(usable, c)
		}
	}
	slices.SortFunc(usable, func(a, b Command) int { return strings.Compare(a.Name, b.Name) })
	return usable, left
}

// add adds the commands in folder to all.
func add(all []Command, root *os.Root, folder string) []Command {
	f, err := root.Open(folder)
	if err != nil {
		return all
	}
	entries, _ := f.ReadDir(maxFiles)
	f.Close()
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".md")
		known := slices.ContainsFunc(all, func(c Command) bool { return c.Name == name })
		if !ok || known || !valid(name) {
			continue
		}
		if c, ok := read(root, path.Join(folder, e.Name())); ok {
			c.Name = name
			all = append(all, c)
		}
	}
	return all
}

// valid reports whether name can be typed behind a slash.
func valid(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	return name != "" && len(name) <= maxName && strings.Trim(name, letters) == ""
}

func read(root *os.Root, file string) (c Command, ok bool) {
	f, info, err := regular.In(root, file)
	if err != nil {
		return c, false
	}
	defer f.Close()
	if info.Size() > maxBytes {
		return c, false
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil || len(text) > maxBytes || !utf8.Valid(text) {
		return c, false
	}
	sum := sha256.Sum256(text)
	c = Command{File: file, Sum: hex.EncodeToString(sum[:])}
	c.Description, c.Text = parse(string(text))
	return c, c.Text != ""
}

// parse returns the description and the text of a file.
func parse(text string) (description, body string) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	if rest, ok := strings.CutPrefix(text, "---\n"); ok {
		head, tail, found := strings.Cut(rest, "\n---\n")
		if found {
			text = tail
			for line := range strings.Lines(head) {
				if value, ok := strings.CutPrefix(line, "description:"); ok {
					description = task.Shorten(strings.Trim(strings.TrimSpace(value), `"'`), 100)
				}
			}
		}
	}
	return description, strings.TrimSpace(text)
}

// Brief returns the beginning of the text on one line, for a person who decides about it.
func (c Command) Brief() string { return task.Shorten(strings.Join(strings.Fields(c.Text), " "), 200) }

// Task returns the text with the arguments of a person.
func (c Command) Task(arguments string) string {
	const place = "$ARGUMENTS"
	switch {
	case strings.Contains(c.Text, place):
		return strings.ReplaceAll(c.Text, place, arguments)
	case arguments == "":
		return c.Text
	}
	return c.Text + "\n\n" + arguments
}
