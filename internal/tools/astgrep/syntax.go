// Package astgrep holds the tools that search and change code by its structure:
// ast_grep and ast_grep_replace. They ask the program ast-grep, which has the
// grammars; where it is missing the tools are not offered.
//
// This package lists the files, by the rules of package tree, and passes their
// names to the program, which only reads. Matches are read again through the root
// of the working directory before they are shown; replacements go through package
// store and need the file to be unchanged. So neither a link nor a file that
// changes meanwhile leads anywhere else.
//
// The program runs for [timeout] at most, loads no grammar of the working
// directory (that would be code of strangers), and its output is read up to a
// limit.
//
// Not promised: files of an extension that ast-grep does not know for a language,
// and the languageGlobs of an sgconfig.yml.
package astgrep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"qq/pkg/proc"
	"qq/pkg/tool"
)

// program is the name of the program.
const program = "ast-grep"

// ErrMissing says that there is no ast-grep, and how to get it.
var ErrMissing = errors.New("ast-grep is not installed: npm install -g @ast-grep/cli, or cargo install ast-grep " +
	"--locked, or brew install ast-grep")

// Starter starts programs; a [proc.Host] is one.
type Starter interface {
	Start(proc.Command) (*proc.Process, error)
}

// Config is what the tools work with.
type Config struct {
	Host    Starter
	Program string   // path of ast-grep, as [Find] returns it
	Root    *os.Root // the working directory
	Dir     string   // its path
	Env     []string // the environment of the program
	Depth   int      // of the agent: by that the sweep knows whose the program is
}

// Find looks for ast-grep in the folders of PATH. It starts nothing. Folders
// that are not absolute are left out: a working directory supplies no programs.
// Its short name sg is not looked for: on many systems that is another program,
// and whoever installs ast-grep gets both.
func Find(getenv func(string) string) (string, error) {
	for _, dir := range filepath.SplitList(getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, nil
		}
	}
	return "", ErrMissing
}

// Version asks the program of cfg for its version. Of cfg it needs Host, Program
// and Env.
func Version(ctx context.Context, cfg Config) (string, error) {
	var text []byte
	_, err := cfg.run(ctx, []string{"--version"}, func(r io.Reader) (err error) {
		text, err = io.ReadAll(io.LimitReader(r, 1<<10))
		return err
	})
	if err != nil {
		return "", err
	}
	version, ok := strings.CutPrefix(strings.TrimSpace(string(text)), program+" ")
	if !ok {
		return "", fmt.Errorf("%s is not ast-grep", cfg.Program)
	}
	return version, nil
}

// Tools returns the tool that searches and the tool that changes. They use the
// root of cfg until the last call has ended.
func Tools(cfg Config) (reading, writing tool.Set) {
	return tool.Set{tool.Function{About: searchSpec(), Do: tool.TextOnly(cfg.search)}},
		tool.Set{tool.Function{About: replaceSpec(), Do: cfg.replace, Intent: cfg.replaceIntent}}
}
