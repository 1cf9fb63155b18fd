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

	"qq/internal/tools/tree"
	"qq/pkg/proc"
	"qq/pkg/tool"
)

// program is the file name of ast-grep.
const program = "ast-grep"

// errMissing says that there is no ast-grep, and how to get it.
var errMissing = errors.New("ast-grep is not installed: npm install -g @ast-grep/cli, or cargo install ast-grep " +
	"--locked, or brew install ast-grep")

// Starter starts ast-grep as a supervised process; a [proc.Host] is one.
type Starter interface {
	Start(proc.Command) (*proc.Process, error)
}

// Config tells the tools where ast-grep is and which directory they work in.
type Config struct {
	Host    Starter
	Program string     // path of ast-grep, as [Find] returns it
	Root    *os.Root   // the working directory
	Dir     string     // its path
	Env     []string   // the environment of the program
	Depth   int        // of the agent; the sweep tells by it whose process this is
	Private []string   // absolute paths of folders whose files need an approval
	Taken   tree.Taken // files that the agent may not read
}

// Find looks for ast-grep in the folders of PATH, without starting it. It ignores relative
// folders, so that a working directory cannot supply the program. It ignores the short name sg as
// well, which is another program on many systems; whoever installs ast-grep gets both names.
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
	return "", errMissing
}

// Version runs ast-grep to get its version. It needs only Host, Program and Env of cfg.
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

// Tools returns ast_grep, which searches, and ast_grep_replace, which writes. They use the root
// of cfg until their last call has ended.
func Tools(cfg Config) (reading, writing tool.Set) {
	return tool.Set{tool.Function{About: searchSpec(), Do: tool.TextOnly(cfg.search)}},
		tool.Set{tool.Function{About: replaceSpec(), Do: cfg.replace, Intent: cfg.replaceIntent}}
}
