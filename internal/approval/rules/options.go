package rules

import (
	"path"
	"slices"
	"strings"

	"qq/internal/tools/tree"
)

// options are those of a program, or of one of its subcommands, that a * of a rule stands for:
// they start no program, write no file that they name, and read nothing from elsewhere.
type options struct {
	name string // of the program, or program and subcommand
	// letters are its options of one letter. After a letter with a colon the rest of the word is a value.
	letters string
	// long are its long options. One with = at the end may have a value.
	long string
	// style says how its long options are written.
	style style
	// changes says that the command changes the repository, and so may run hooks.
	changes bool
	// named says that a rule must name the subcommand: git* does not stand for it.
	named bool
	// transfers says that the command talks to another repository. Its first word without a dash is a remote.
	transfers bool
	// neutral are options that come before those of the command. They switch off what the configuration could start.
	neutral []string
}

type style int

const (
	gnu  style = iota // --name, letters may stand together, -- ends the options
	dash              // -name
	both              // -name and --name
)

// Options that several subcommands of git have in common.
const (
	gitDiff = "patch no-patch unified= raw numstat shortstat stat= summary name-only name-status minimal " +
		"patience histogram diff-algorithm= color= no-color word-diff= color-words full-index " +
		"abbrev= find-renames= no-renames find-copies diff-filter= ignore-all-space " +
		"ignore-space-change ignore-space-at-eol ignore-blank-lines function-context text pickaxe-all pickaxe-regex " +
		"relative compact-summary exit-code quiet check no-ext-diff no-textconv cc combined-all-paths no-prefix "
	gitLog = "oneline graph decorate= no-decorate all branches tags remotes author= committer= since= " +
		"after= until= before= grep= invert-grep all-match regexp-ignore-case extended-regexp fixed-strings " +
		"perl-regexp max-count= skip= reverse follow first-parent merges no-merges date= date-order " +
		"author-date-order topo-order abbrev-commit no-abbrev-commit pretty= format= full-history " +
		"simplify-merges ancestry-path cherry-pick cherry-mark left-right left-only right-only boundary " +
		"source parents children count encoding= no-notes "
	gitList = "all remotes list contains= no-contains= merged= no-merged= points-at= " +
		"sort= format= column= no-column ignore-case verbose show-current abbrev= no-abbrev color= no-color "
	diffLetters = "psuzwbaRctmrqiEFPWBDn:L:S:G:M:C:U:l:"
)

var gitQuiet = []string{"--no-ext-diff", "--no-textconv", "--ignore-submodules=all"}

// known is what qq knows. A * stands for nothing after a subcommand of git or go that is missing here, because its
// arguments may be programs: git bisect run, git submodule foreach, git rebase --exec.
var known = []options{
	{name: "git log", letters: diffLetters, long: gitDiff + gitLog, neutral: gitQuiet},
	{name: "git show", letters: diffLetters, long: gitDiff + gitLog, neutral: gitQuiet},
	{name: "git diff", letters: diffLetters, long: gitDiff + "cached staged merge-base", neutral: gitQuiet},
	{name: "git status", letters: "sbzu:", neutral: gitQuiet[2:], long: "short branch porcelain= long " +
		"untracked-files= ignored= column= no-column renames no-renames show-stash " +
		"ahead-behind no-ahead-behind null"},
	{name: "git blame", letters: "wbcefnsltL:M:C:", long: "porcelain line-porcelain show-name show-number " +
		"show-email root date= since= abbrev= minimal first-parent"},
	{name: "git shortlog", letters: "sncew:", long: "numbered summary email committer group= " + gitLog},
	{name: "git rev-parse", long: "abbrev-ref= short= verify quiet show-toplevel git-dir " +
		"is-inside-work-tree show-prefix show-cdup symbolic-full-name all branches tags remotes"},
	{name: "git rev-list", letters: "n:", long: gitLog},
	{name: "git ls-files", letters: "cdmostukzvx:", long: "cached deleted modified others ignored stage unmerged " +
		"exclude= exclude-standard full-name error-unmatch deduplicate directory"},
	{name: "git ls-tree", letters: "rdtlz", long: "name-only name-status long full-name full-tree abbrev="},
	{name: "git describe", long: "all tags long always abbrev= match= exclude= contains exact-match first-parent"},
	{name: "git grep", letters: "inlLcwvhHEFPGpWqaIozm:e:A:B:C:", long: "ignore-case line-number " +
		"files-with-matches files-without-match name-only count word-regexp invert-match extended-regexp " +
		"fixed-strings perl-regexp and or not cached untracked all-match quiet heading break show-function " +
		"function-context context= after-context= before-context= max-depth= max-count= only-matching text " +
		"color= no-color exclude-standard full-name", neutral: gitQuiet[1:2]},
	{name: "git branch", letters: "arvl", long: gitList, changes: true},
	{name: "git tag", letters: "ln:", long: gitList, changes: true},
	{name: "git add", letters: "AuvnN", long: "all update verbose dry-run intent-to-add", changes: true},
	{name: "git commit", letters: "asqm:", changes: true, long: "all message= signoff quiet amend no-edit " +
		"allow-empty author= date= dry-run short branch porcelain long"},
	{name: "git push", letters: "unvq", changes: true, named: true, transfers: true,
		long: "set-upstream dry-run verbose quiet porcelain progress no-progress atomic"},
	{name: "git fetch", letters: "vqpt", changes: true, named: true, transfers: true,
		long: "all prune tags no-tags dry-run verbose quiet depth= progress no-progress"},
	{name: "git pull", letters: "vq", changes: true, named: true, transfers: true,
		long: "ff-only verbose quiet rebase no-rebase"},
	{name: "git ls-remote", letters: "htq", named: true, transfers: true, long: "heads tags refs quiet"},
	{name: "git checkout", letters: "q", changes: true, named: true, long: "quiet detach"},
	{name: "git switch", letters: "q", changes: true, named: true, long: "quiet detach"},
	{name: "git restore", letters: "qSW", changes: true, named: true, long: "quiet staged worktree"},
	{name: "git merge", changes: true, named: true, long: "ff-only no-ff abort quiet"},
	{name: "git cherry-pick", letters: "x", changes: true, named: true, long: "abort"},
	{name: "git revert", changes: true, named: true, long: "no-edit abort"},
	{name: "git stash", changes: true, named: true, long: "include-untracked keep-index"},
	{name: "git mv", letters: "nv", changes: true, named: true, long: "dry-run verbose"},
	{name: "git rm", letters: "nrq", changes: true, named: true, long: "dry-run cached quiet"},
	{name: "go build", style: both, long: "v n x race p= tags= trimpath"},
	{name: "go vet", style: both, long: "v n x p= tags= c= json"},
	{name: "go list", style: both, long: "f= json= m deps test e find tags= u versions"},
	{name: "go version", style: both, long: "m v"},
	{name: "go doc", style: both, long: "all c cmd short src u"},
	{name: "go test", style: both, long: "v= v run= skip= count= timeout= short race cover coverpkg= covermode= " +
		"json bench= benchtime= benchmem failfast fullpath parallel= cpu= shuffle= list= tags= p= n x vet= " +
		"fuzz= fuzztime="},
	{name: "go run", named: true},
	{name: "go generate", named: true},
	{name: "go install", named: true},
	{name: "go get", named: true},
	{name: "go mod", named: true},
	{name: "go fmt", named: true},
	{name: "ls", letters: "aAlhFRrtSd1isnogpqCmxXGkLuvUHcB", long: "all almost-all human-readable recursive " +
		"reverse directory size inode numeric-uid-gid sort= time= time-style= full-time color= " +
		"group-directories-first ignore= si classify"},
	{name: "cat", letters: "AbeEnstTuv", long: "number number-nonblank show-all show-ends show-tabs squeeze-blank"},
	{name: "head", letters: "n:c:qv", long: "lines= bytes= quiet silent verbose"},
	{name: "tail", letters: "n:c:qv", long: "lines= bytes= quiet silent verbose"},
	{name: "wc", letters: "lwcmL", long: "lines words bytes chars max-line-length"},
	{name: "pwd", letters: "LP"},
	{name: "grep", letters: "ivnclLwxohHrsqazEFGPUbTZA:B:C:m:e:", long: "ignore-case invert-match line-number " +
		"count files-with-matches files-without-match word-regexp line-regexp only-matching no-filename " +
		"with-filename recursive no-messages quiet text extended-regexp fixed-strings basic-regexp perl-regexp " +
		"after-context= before-context= context= max-count= regexp= include= exclude= exclude-dir= color= " +
		"colour= null byte-offset"},
	{name: "rg", letters: "iSsvnNclwxoFPUpHIqaA:B:C:m:e:g:t:T:", long: "ignore-case smart-case case-sensitive " +
		"invert-match line-number no-line-number count files-with-matches files-without-match word-regexp " +
		"line-regexp only-matching fixed-strings pcre2 multiline with-filename no-filename heading no-heading " +
		"quiet text after-context= before-context= context= max-count= regexp= glob= iglob= type= type-not= " +
		"type-list files max-depth= color= json stats trim vimgrep column sort= sortr= no-config no-messages"},
	{name: "find", style: dash, long: "name iname path ipath wholename regex iregex type maxdepth mindepth size " +
		"mtime mmin atime ctime empty newer not o or a and print print0 prune depth xdev mount perm user group " +
		"readable writable executable links true false ls"},
}

// program returns the name of the program that words call.
func program(words []string) string { return path.Base(words[0]) }

// subcommands reports whether the first argument of that program says what it does.
func subcommands(program string) bool { return program == "git" || program == "go" }

// starts reports whether words call a program that runs what its arguments name.
func starts(words []string) bool {
	switch name := program(words); name {
	case "uv", "poetry", "bundle", "pdm", "pipenv", "hatch", "rye", "pixi", "conda", "mise":
		return slices.Contains(words, "run") || slices.Contains(words, "exec")
	default:
		return launches(name)
	}
}

// launches reports whether the program runs what its arguments name.
func launches(program string) bool {
	switch program {
	case "env", "command", "exec", "builtin", "sudo", "doas", "xargs", "parallel", "nohup", "nice", "ionice",
		"timeout", "time", "setsid", "stdbuf", "script", "watch", "strace", "unshare", "nsenter", "chroot", "flock",
		"ssh", "su", "runuser", "chrt", "taskset", "ltrace", "coproc", "tmux", "screen",
		"python", "python3", "perl", "ruby", "node", "awk", "gawk", "make", "npx", "uvx":
		return true
	}
	return interprets(program)
}

// interprets reports whether the program is a shell, or runs what a shell would.
func interprets(program string) bool {
	switch program {
	case "eval", "source", ".", "busybox":
		return true
	}
	return shells(program)
}

// shells reports whether the program is a shell.
func shells(program string) bool {
	switch program {
	case "sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh":
		return true
	}
	return false
}

// isKnown reports whether qq knows options of that program.
func isKnown(program string) bool {
	return subcommands(program) ||
		slices.ContainsFunc(known, func(o options) bool { return o.name == program })
}

// optionsOf returns what qq knows about the command that words call; ok is false if it is not listed.
func optionsOf(words []string) (o options, ok bool) {
	name := program(words)
	if subcommands(name) && len(words) > 1 {
		name += " " + words[1]
	}
	i := slices.IndexFunc(known, func(o options) bool { return o.name == name })
	if i < 0 {
		return options{name: name, changes: true}, false
	}
	return known[i], true
}

// admitsRest reports whether a * may stand for words[n:]. Of a program that qq does not know it
// stands for anything.
func admitsRest(words []string, n int) bool {
	name := program(words)
	o, ok := optionsOf(words)
	switch {
	case !isKnown(name):
		return true
	case subcommands(name) && (!ok || n < 2 && o.named):
		return false
	case o.transfers && !transfersOnly(words, n):
		return false
	case subcommands(name):
		n = max(n, 2)
	}
	for i, w := range words[n:] {
		switch {
		case w == "--" && o.style == gnu:
			return !slices.ContainsFunc(words[n+i:], elsewhere)
		case len(w) > 1 && w[0] == '-':
			if _, named, _ := strings.Cut(w, ":"); !o.admits(w) || elsewhere(named) { // -L1,2:file
				return false
			}
		case elsewhere(w):
			return false
		}
	}
	return true
}

// transfersOnly reports whether words[n:] of a command that talks to another repository name no server, and no
// branch there that is overwritten or deleted: +branch, :branch.
func transfersOnly(words []string, n int) bool {
	operand := func(w string) bool { return !strings.HasPrefix(w, "-") }
	remote := max(slices.IndexFunc(words[2:], operand)+2, 2)
	for i, w := range words {
		forces := strings.HasPrefix(w, "+") || strings.HasPrefix(w, ":")
		if i >= n && (forces || i == remote && strings.Contains(w, ":")) {
			return false
		}
	}
	return true
}

// elsewhere reports whether a word names a path outside of the working directory, or one that looks
// like secrets. "git diff" compares files outside of the repository without being told to.
func elsewhere(word string) bool {
	for part := range strings.SplitSeq(word, ":") { // git show HEAD:path
		if path.IsAbs(part) || slices.Contains(strings.Split(part, "/"), "..") || tree.Secret(part) {
			return true
		}
	}
	return false
}

// admits reports whether a word that begins with a dash is one of the options. Abbreviations are not.
func (o options) admits(word string) bool {
	long, double := strings.CutPrefix(word, "--")
	if !double {
		long = word[1:]
	}
	if !double && strings.Trim(long, "0123456789") == "" { // git log -5, find -mtime -2
		return o.style == dash || strings.Contains(o.letters, "n:")
	}
	if double && o.style != dash || !double && o.style != gnu {
		name, _, valued := strings.Cut(long, "=")
		listed := strings.Fields(o.long)
		return slices.Contains(listed, name+"=") || !valued && slices.Contains(listed, name)
	}
	if double {
		return false
	}
	for _, letter := range long {
		at := strings.IndexRune(o.letters, letter)
		if at < 0 || letter == ':' {
			return false
		}
		if strings.HasPrefix(o.letters[at+1:], ":") {
			return true
		}
	}
	return true
}
