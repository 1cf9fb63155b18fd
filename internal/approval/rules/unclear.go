package rules

import (
	"slices"
	"strings"
)

// gitCommands are the subcommands of git that no alias replaces, and that do not start what their arguments say.
const gitCommands = " " +
	" add am annotate apply archive bisect blame branch bundle cat-file check-ignore check-attr checkout " +
	"cherry cherry-pick clean clone commit config count-objects describe diff diff-files diff-index " +
	"diff-tree fetch for-each-ref format-patch fsck gc grep hash-object help init log ls-files ls-remote " +
	"ls-tree maintenance merge merge-base mv name-rev notes pack-refs prune pull push range-diff " +
	"read-tree rebase reflog remote reset restore rev-list rev-parse revert rm shortlog show show-branch " +
	"show-ref sparse-checkout stash status submodule switch symbolic-ref tag update-index update-ref " +
	"verify-commit verify-tag version whatchanged worktree write-tree "

// unclear reports whether a call may start programs that its words do not name: an alias of git, code of another
// language, words from an input.
func unclear(words []string) bool {
	name, args := program(words), words[1:]
	has := func(parts ...string) bool {
		return slices.ContainsFunc(args, func(a string) bool {
			return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(a, p) })
		})
	}
	if subcommand, ok := strings.CutPrefix(name, "git-"); ok {
		return gitUnclear(append([]string{subcommand}, args...))
	}
	if same(strings.ToLower(name), "git") {
		return gitUnclear(args)
	}
	switch name {
	case "alias", "hash", "trap", "bind", "complete", "enable":
		return len(args) > 0
	case "xargs", "parallel":
		return slices.ContainsFunc(args, func(a string) bool {
			return a == anything || a != "" && a != "." && launches(program([]string{a}))
		})
	case "awk", "gawk", "mawk", "nawk":
		return has("system", "|", "getline", anything)
	case "deno":
		return len(args) == 0 || slices.Contains(args, "eval") || slices.Contains(args, "repl") || has(anything)
	}
	return runsCode(name) && (has(anything) || slices.ContainsFunc(args, isCode) ||
		!slices.ContainsFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") }))
}

// runsCode reports whether the program runs code of a language that is not the one of shells: an interpreter, an editor
// or a debugger.
func runsCode(program string) bool {
	switch strings.TrimRight(program, "0123456789.") {
	case "python", "pypy", "perl", "ruby", "node", "nodejs", "bun", "lua", "php", "tclsh", "expect", "Rscript", "R",
		"julia", "osascript", "pwsh", "awk", "gawk", "mawk", "nawk", "vi", "vim", "nvim", "ex", "emacs", "gdb":
		return true
	}
	return false
}

// isCode reports whether an argument is an option of an interpreter that is followed by code, or such as +code.
func isCode(arg string) bool {
	letters, short := strings.CutPrefix(arg, "-")
	if strings.HasPrefix(letters, "-") {
		return strings.HasPrefix(arg, "--e") || strings.HasPrefix(arg, "--p") || strings.HasPrefix(arg, "--r")
	}
	if line, ok := strings.CutPrefix(arg, "+"); ok { // a number is a line of the file
		return strings.Trim(line, "0123456789") != ""
	}
	return short && (letters == "" || strings.ContainsAny(letters, "cCeEpr"))
}

// gitUnclear reports whether git with these arguments may run an alias, or what its arguments say.
func gitUnclear(args []string) bool {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-C", a == "--git-dir", a == "--work-tree", a == "--namespace":
			i++
		case a == "-c":
			i++
			if i == len(args) || !plainSetting(args[i]) {
				return true
			}
		case strings.HasPrefix(a, "-c"), strings.HasPrefix(a, "--config-env"), strings.HasPrefix(a, "--exec-path="):
			return true
		case !strings.HasPrefix(a, "-"):
			return !strings.Contains(gitCommands, " "+a+" ") || startsArguments(a, args[i+1:])
		}
	}
	return false
}

// plainSetting reports whether a setting of git, key=value, certainly names no program.
func plainSetting(setting string) bool {
	key, value, _ := strings.Cut(strings.ToLower(setting), "=")
	return strings.HasPrefix(key, "user.") || strings.HasPrefix(key, "color.") ||
		slices.Contains([]string{"", "true", "false", "cat", "never", "always", "0", "1"}, value)
}

// startsArguments reports whether a subcommand of git starts a program that args name.
func startsArguments(subcommand string, args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		switch subcommand {
		case "bisect":
			return a == "run"
		case "submodule":
			return a == "foreach"
		case "rebase":
			return strings.HasPrefix(a, "-x") || strings.HasPrefix(a, "--e")
		case "config":
			return strings.ContainsAny(a, "! ") || a == anything
		}
		return false
	})
}
