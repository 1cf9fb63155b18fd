package console

import (
	"cmp"
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
	maxListed   = 5000    // names of a folder
	maxRead     = 200_000 // names of a folder that are looked at
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
			problem, hint := task.Explain(err)
			return t, command.Usagef(cmp.Or(hint, "name another file, or write the name without @"), "@%s: %s",
				m.path, problem)
		case image != nil:
			t.Images = append(t.Images, *image)
		default:
			parts = append(parts, "The file "+m.path+":\n"+text)
		}
	}
	t.Context = strings.Join(parts, "\n\n")
	return t, nil
}

// find returns the folder of a file or folder that a person names, and its name in there. A name in the working
// directory does not lead out of it: whoever made the files there may have made links.
func find(path string) (root *os.Root, name string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, "", err
	}
	whole := path
	if !filepath.IsAbs(path) {
		whole = filepath.Join(dir, path)
	}
	rel, err := filepath.Rel(dir, whole)
	inside := err == nil && filepath.IsLocal(rel)
	if whole, err = filepath.EvalSymlinks(whole); err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, "", err
	}
	if !inside {
		dir = filepath.Dir(whole)
	}
	if name, err = filepath.Rel(dir, whole); err != nil || !filepath.IsLocal(name) {
		return nil, "", task.Hinted("to give it all the same, name it by its own path: @"+whole,
			"it is a link that leads out of the working directory")
	}
	root, err = os.OpenRoot(dir)
	return root, name, err
}

// open reads a file that a person names: a text, an image, or a list of the names in a folder.
func open(path string) (text string, image *picture.Image, err error) {
	root, name, err := find(path)
	if err != nil {
		return "", nil, err
	}
	defer root.Close()
	if info, err := root.Stat(name); err == nil && info.IsDir() {
		names, more, err := list(root, name, "", maxListed)
		if more {
			names = append(names, fmt.Sprintf("(there are more: these are the first %d)", len(names)))
		}
		return strings.Join(names, "\n") + "\n", nil, err
	}
	f, info, err := regular.In(root, name)
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

// list returns what is in a folder and begins with prefix, sorted: at most most names, and whether there are more. A
// folder has a slash at its end.
func list(root *os.Root, dir, prefix string, most int) (names []string, more bool, err error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	for read := 0; err == nil && read < maxRead; {
		var part []fs.DirEntry
		part, err = f.ReadDir(1000)
		read += len(part)
		for _, e := range part {
			name := e.Name()
			if e.IsDir() {
				name += "/"
			}
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
	}
	more = err == nil
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.Sort(names)
	return names[:min(len(names), most)], more || len(names) > most, err
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
	root, name, err := find(cmp.Or(dir, "."))
	if err != nil {
		return 0, nil
	}
	defer root.Close()
	names, _, _ := list(root, name, first, maxListed)
	for _, n := range names {
		if hidden := strings.HasPrefix(n, ".") && first == ""; !hidden && len(candidates) < maxOffered {
			candidates = append(candidates, quote(dir+n))
		}
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
