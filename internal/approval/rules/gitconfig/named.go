package gitconfig

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Bounds of a Finder.
const (
	maxRepositories = 100
	maxNamed        = 50        // files with settings of one repository
	maxFile         = 256 << 10 // bytes of a file; of a longer one, the rest is not read
	maxBytes        = 1 << 20   // of all files
)

// Finder finds what the settings of repositories name, within bounds for all of them: some come from strangers. The
// zero Finder has read nothing yet.
type Finder struct{ repositories, bytes int }

// Folder returns the folder of git, without links, for the .git at the absolute path file: a folder, or a file that
// names one. real is file without links.
func Folder(file, real string) (dir string, ok bool) {
	info, err := os.Lstat(real)
	if err != nil || info.IsDir() {
		return real, err == nil
	}
	text, err := read(real, maxFile)
	if err != nil {
		return "", false
	}
	if dir, ok = named(text); !ok {
		return "", false
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(file), dir)
	}
	dir, err = filepath.EvalSymlinks(dir)
	return dir, err == nil
}

// named returns the folder that the content of a .git file names.
func named(content []byte) (string, bool) {
	path, ok := bytes.CutPrefix(content, []byte("gitdir: "))
	path = bytes.TrimRight(path, "\r\n")
	if !ok || len(path) == 0 || len(path) > 4096 || bytes.ContainsAny(path, "\x00\n") {
		return "", false
	}
	return filepath.Clean(string(path)), true
}

// Named returns the absolute paths of the files and folders that the settings of a repository name: further files
// with settings, whatever their condition, and folders with hooks. They need not exist. top is the folder with the
// files that are checked out, dir that of git.
func (f *Finder) Named(top, dir string) (paths []string) {
	if f.repositories++; f.repositories > maxRepositories {
		return nil
	}
	shared := dir
	if text, err := read(filepath.Join(dir, "commondir"), maxFile); err == nil {
		shared = under(dir, strings.TrimRight(string(text), "\r\n"))
	}
	files := []string{filepath.Join(shared, "config"), filepath.Join(dir, "config.worktree")}
	tops, hooks := []string{top}, []string{}
	for i := 0; i < len(files); i++ {
		tree, hook := "", ""
		for _, s := range f.settings(files[i]) {
			if s.Name != "" && s.Section != "includeif" {
				continue
			}
			switch value := s.Text(); s.Section + "." + s.Key {
			case "include.path", "includeif.path":
				file := under(filepath.Dir(files[i]), value)
				if value != "" && len(files) < maxNamed && !slices.Contains(files, file) {
					files = append(files, file)
				}
			case "core.worktree":
				tree = value // the last one counts
			case "core.hookspath":
				hook = value
			}
		}
		if tree != "" && i < 2 {
			tops = append(tops, under(dir, tree))
		}
		if hook != "" {
			hooks = append(hooks, hook)
		}
	}
	paths = files[2:]
	for _, hook := range hooks {
		for _, top := range tops {
			paths = append(paths, under(top, hook))
		}
	}
	return paths
}

// PerWorktree reports whether git reads config.worktree in the folder dir of a repository, if there is one.
func PerWorktree(dir string) bool {
	return slices.ContainsFunc(new(Finder).settings(filepath.Join(dir, "config")), func(s Setting) bool {
		return s.Name == "" && s.Section == "extensions" && s.Key == "worktreeconfig" // whatever the value
	})
}

// under returns the path that value means in a setting that is about dir. The home of another user is not looked up.
func under(dir, value string) string {
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(value) {
		return filepath.Clean(value)
	}
	return filepath.Join(dir, value)
}

// settings returns the settings in a file.
func (f *Finder) settings(file string) []Setting {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil
	}
	text, err := read(real, min(maxFile, maxBytes-f.bytes))
	if err != nil {
		return nil
	}
	f.bytes += len(text)
	return Read(text)
}

// read reads the first most bytes of a regular file, and does not wait for anybody.
func read(name string, most int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("no regular file")
	}
	return io.ReadAll(io.LimitReader(f, int64(most)))
}
