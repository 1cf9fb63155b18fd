package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Place is where a command is to run.
type Place struct {
	Dir  string   // the real path of its folder
	Root string   // the folder of the agent, which Dir is or is below
	Env  []string // what it would inherit
	// Untrusted are the folders that programs must not come from: the checkout, and what agents may write to.
	Untrusted []string
}

// Call is a command that a rule allows, as it is started: without a shell.
type Call struct {
	Path      string // of the program, absolute
	Args, Env []string
}

// Prepare returns how to start a command that is certainly one call of one program. The error says
// why no rule can allow it: its words are not certain, its program comes from an untrusted folder,
// the configuration of git would start something else, or it would read what its words do not say.
func Prepare(command string, at Place) (Call, error) {
	words, err := Words(command)
	if err != nil {
		return Call{}, err
	}
	c := Call{Args: words, Env: at.cleaned()}
	if c.Path, err = at.find(words[0]); err != nil {
		return Call{}, err
	}
	if err := at.looks(words); err != nil {
		return Call{}, err
	}
	switch program(words) {
	case "git":
		return c.asGit(at.Dir)
	case "go":
		c.Env = append(c.Env, "GOFLAGS=-buildvcs=false") // go would run git
	case "grep":
		if readerOf(words).recursive {
			c.Args = slices.Insert(slices.Clone(words), 1, "--exclude-dir=.git")
		}
	}
	return c, nil
}

// path returns the folders of PATH.
func (at Place) path() (folders []string) {
	for _, entry := range at.Env { // the last of several counts
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			folders = filepath.SplitList(value)
		}
	}
	return folders
}

// find returns the path of the program that a shell would start by that name. A rule that names a
// path means that file, and counts only in the folder where its paths begin: see [Rule.Covers].
func (at Place) find(name string) (string, error) {
	if strings.Contains(name, "/") {
		return absolute(at.Dir, name), nil
	}
	for _, folder := range at.path() {
		file := filepath.Join(folder, name)
		if !filepath.IsAbs(folder) {
			file = filepath.Join(at.Dir, folder, name)
		}
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if !filepath.IsAbs(folder) || at.distrusts(file) {
			return "", fmt.Errorf("%s would be started from %s, which agents may change", name, folder)
		}
		return file, nil
	}
	return "", fmt.Errorf("no program %s is found", name)
}

// distrusts reports whether a file is in an untrusted folder, by its path or as what it is a link to.
func (at Place) distrusts(file string) bool {
	for _, path := range []string{file, filepath.Dir(file)} {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || slices.ContainsFunc(at.Untrusted, func(f string) bool { return inside(f, real) }) {
			return true
		}
	}
	return false
}

// inside reports whether path is folder or below it. Links in folder are followed.
func inside(folder, path string) bool {
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// cleaned returns the environment without the variables by which programs are told to start others
// or to load code, and with the trusted folders of PATH.
func (at Place) cleaned() []string {
	env := slices.DeleteFunc(slices.Clone(at.Env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		for _, prefix := range []string{"GIT_", "LD_", "DYLD_", "BASH_"} {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		switch name {
		case "PATH", "ENV", "BASHOPTS", "SHELLOPTS", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "EDITOR", "VISUAL",
			"PS4", "CDPATH", "IFS", "PROMPT_COMMAND", "GOFLAGS", "GREP_OPTIONS", "RIPGREP_CONFIG_PATH":
			return true
		}
		return false
	})
	folders := slices.DeleteFunc(at.path(), func(f string) bool { return !filepath.IsAbs(f) || at.distrusts(f) })
	return append(env, "PATH="+strings.Join(folders, string(filepath.ListSeparator)))
}

// exists reports whether there is a file of that name, of any kind. In doubt there is.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
