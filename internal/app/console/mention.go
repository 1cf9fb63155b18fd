package console

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"qq/internal/app/command"
	"qq/pkg/picture"
	"qq/pkg/regular"
	"qq/pkg/task"
)

// Limits of what is read for a text.
const (
	maxMentions = 50
	maxFile     = 1 << 20 // bytes
	maxListed   = 5000    // files of a folder
	maxOffered  = 200
)

// mention is a file that a person names in a text: @path, or @"path" if it has spaces.
type mention struct {
	path     string
	from, to int // in the text, with the @
}

// mentions returns the files that a text names. Only an @ at the beginning of a word begins a name.
func mentions(text string) (all []mention) {
	for at := 0; at < len(text) && len(all) < maxMentions; at++ {
		if text[at] != '@' || at > 0 && !strings.ContainsRune(" \t\n(", rune(text[at-1])) {
			continue
		}
		rest := text[at+1:]
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			if path, _, ok := strings.Cut(quoted, `"`); ok && path != "" {
				all = append(all, mention{path, at, at + len(path) + 3})
			}
			continue
		}
		end := strings.IndexAny(rest, " \t\n")
		if end < 0 {
			end = len(rest)
		}
		if path := strings.TrimRight(rest[:end], ".,;:!?)"); path != "" {
			all = append(all, mention{path, at, at + 1 + len(path)})
		}
	}
	return all
}

// attach adds the files that t names to its context, and the images to its images. A name that no file has is a word
// like any other.
func attach(t task.Task) (task.Task, error) {
	known := map[string]bool{}
	var parts []string
	if t.Context != "" {
		parts = append(parts, t.Context)
	}
	for _, m := range mentions(t.Text) {
		if known[m.path] {
			continue
		}
		known[m.path] = true
		text, image, err := open(m.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return t, command.Usagef("name another file, or write the name without @", "@%s: %v", m.path, err)
		case image != nil:
			t.Images = append(t.Images, *image)
		default:
			parts = append(parts, "The file "+m.path+":\n"+text)
		}
	}
	t.Context = strings.Join(parts, "\n\n")
	return t, nil
}

// open reads a file that a person names: a text, an image, or a list of the names in a folder.
func open(path string) (text string, image *picture.Image, err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		entries, err := list(path)
		var b strings.Builder
		for _, e := range entries {
			b.WriteString(name(e) + "\n")
		}
		return b.String(), nil, err
	}
	f, info, err := regular.Open(path, os.O_RDONLY)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	head := make([]byte, picture.HeadBytes)
	n, _ := io.ReadFull(f, head)
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", nil, err
	}
	if picture.Type(head[:n]) != "" {
		whole, err := filepath.Abs(path)
		if err != nil {
			return "", nil, err
		}
		one, err := picture.Read(regular.Reader(f, info), whole)
		return "", &one, err
	}
	if info.Size() > maxFile {
		return "", nil, fmt.Errorf("it has %d bytes, and %d is the limit: let the agent read it", info.Size(), maxFile)
	}
	text, err = command.ReadText(io.LimitReader(f, maxFile), path)
	return text, nil, err
}

// list returns what is in a folder, sorted.
func list(dir string) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxListed)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

func name(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// Complete implements editor.Completer: names of files behind @, slash commands and what follows them.
func (c *console) Complete(text string) (from int, candidates []string) {
	if word, ok := strings.CutPrefix(text, "/"); ok && !strings.Contains(text, "\n") {
		command, argument, more := strings.Cut(word, " ")
		if !more {
			return 0, begin(c.commandNames(), text)
		}
		if command == "agents" {
			return len(text) - len(argument), begin(c.agentNames(), argument)
		}
		if !strings.Contains(argument, "@") {
			return 0, nil
		}
	}
	at := strings.LastIndexByte(text, '@')
	if at < 0 || at > 0 && !strings.ContainsRune(" \t\n(", rune(text[at-1])) {
		return 0, nil
	}
	word := strings.TrimPrefix(text[at+1:], `"`)
	if strings.ContainsAny(word, "\"\n") || word == text[at+1:] && strings.Contains(word, " ") {
		return 0, nil
	}
	dir, first := filepath.Split(word)
	look := dir
	if look == "" {
		look = "."
	}
	entries, err := list(look)
	if err != nil {
		return 0, nil
	}
	for _, e := range entries {
		hidden := strings.HasPrefix(e.Name(), ".") && first == ""
		if hidden || !strings.HasPrefix(e.Name(), first) || len(candidates) == maxOffered {
			continue
		}
		candidates = append(candidates, quote(dir+name(e)))
	}
	return at, candidates
}

// quote returns what a person would type to name a file.
func quote(path string) string {
	if strings.ContainsAny(path, " \t") {
		path = `"` + path
		if !strings.HasSuffix(path, "/") {
			path += `"`
		}
	}
	if strings.HasSuffix(path, "/") {
		return "@" + path
	}
	return "@" + path + " "
}

// begin returns those of all that begin with start, each with a space behind it.
func begin(all []string, start string) (found []string) {
	for _, s := range all {
		if strings.HasPrefix(s, start) {
			found = append(found, s+" ")
		}
	}
	return found
}
