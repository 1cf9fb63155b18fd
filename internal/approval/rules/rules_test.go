package rules

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/tool"
)

func run(command string) tool.Intent { return tool.Intent{Tool: "run_pty_cmd", Command: command} }

func TestParse(t *testing.T) {
	for text, want := range map[string]Rule{
		"run_pty_cmd":                     {"run_pty_cmd", ""},
		" edit_file ( ./src/** ) ":        {"edit_file", "src/**"},
		"edit_file(src/)":                 {"edit_file", "src/**"},
		"edit_file(app/(group)/[[]id].x)": {"edit_file", "app/(group)/[[]id].x"},
		"run_pty_cmd(git log*)":           {"run_pty_cmd", "git log*"},
		"run_pty_cmd(echo 'a, (b')":       {"run_pty_cmd", "echo 'a, (b'"},
		"web_fetch(Docs.Python.org.)":     {"web_fetch", "docs.python.org"},
		"web_fetch(*.python.org)":         {"web_fetch", "*.python.org"},
		"web_fetch(wiki.local:8080)":      {"web_fetch", "wiki.local:8080"},
	} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
		again, err := Parse(got.String())
		require.NoError(t, err, text)
		assert.Equal(t, got, again, text)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                             `names "", which is no tool`,
		"Bash(git log)":                `names "Bash", which is no tool` + "\nhint: did you mean run_pty_cmd?",
		"zzzzzzzzzzzz":                 "hint: the tools are: read_file, list_files",
		"run_pty_cmd(git log":          "its parenthesis is not closed\nhint: accepted is TOOL or TOOL(PATTERN)",
		"run_pty_cmd()":                "its pattern is empty, and run_pty_cmd alone means every call",
		"run_pty_cmd(*)":               "its pattern must be literal words, with a * at the end for more of them: ",
		"run_pty_cmd(git * main)":      "for more of them: a word of it is not literal",
		"run_pty_cmd(git log; rm x)":   `has the rule "run_pty_cmd(git log; rm x)": `,
		"run_pty_cmd(git log && rm x)": "it is not one call of a program",
		"run_pty_cmd(git 'log)":        "it cannot be parsed",
		"run_pty_cmd(git log\x1b)":     "its pattern has a control character",
		"edit_file(/etc/passwd)":       "its path is not relative to the working directory and inside of it",
		"edit_file(../x)":              "its path is not relative",
		"edit_file(~/x)":               "its path is not relative",
		"edit_file(a[)":                "its path is no glob with at most 4 braces",
		"edit_file({}{}{}{}{})":        "its path is no glob with at most 4 braces",
		"web_fetch(https://x.org/)":    "its pattern is no host, such as x.org, *.x.org for those below it",
		"web_fetch(*)":                 "its pattern is no host",
		"web_fetch(bücher.example)":    "its pattern is no host",
		"list_files(src/**)":           "list_files takes no pattern",
		"delegate_task(coder)":         "delegate_task takes no pattern",
		"run_pty_cmd(" + strings.Repeat("x", 1001) + ")": "its pattern has more than 1000 bytes",
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
}

// slips are commands that a careless rule for "git log" lets through.
var slips = []string{
	"git log; rm x", "git log ;", "git log\nrm x", "git log & rm x", "git log && rm x", "git log || rm x",
	"git log | sh",
	"git log |& sh", "git log $(rm x)", "git log `rm x`", "git log <(rm x)", "git log > f", "git log >> f",
	"git log 2>f",
	"git log < f", "git log <<E\nE", "git log <<< x", "X=1 git log", "git log $X", "git log ${X}", "git log \"$X\"",
	"git log $'a'", "git log $\"a\"", "git log *", "git log a?", "git log [a]", "git log ~", "git log ~/x",
	"git log {a,b}",
	"git log a\\ b", "g\\it log", "\\git log", "(git log)", "{ git log; }", "! git log", "time git log",
	"git log() { rm x; }", "git log # rm x", "if git log; then rm x; fi", "git log\x00", "git log\rrm x", "git\tlog",
	"git log \x1b[2K", "git log \xff", "exec git log", "command git log", "eval git log", "builtin git log",
	"env git log",
	"sudo git log", "sh -c 'git log'", "/usr/bin/git log", "./git log", "git  'log; rm x'", "gitlog", "git logx",
	"git 'log '", "'git log'", "git --no-pager log", "", " ", "''",
	"git -c core.pager=x log", "git -C /tmp log", "git --git-dir=/x log", "git --exec-path=/x log",
	"git -p log", "git --config-env=a=b log", "coproc git log", "git log @(a|b)", "[[ git log ]]", "export git log",
	"alias git=x; git log", "git log $((1))", "git log !(x)", "function git { rm x; }",
}

// slipOptions are further words of "git log" that do more than it.
var slipOptions = []string{
	"--output=f", "--output f", "--outpu=f", "--out f", "--ext-diff", "--ext-dif", "--textconv", "--no-index", "-Of",
	"-O f",
	"-pOf", "--open-files-in-pager", "--show-signature", "--output-directory=f", "--submodule=diff",
	"--recurse-submodules",
	"-o f", "--exec=x", "--upload-pack=x", "-c core.pager=x --git-dir=/x", "--stdin", "-h", "--help",
	"--no-ext-diff=x",
	"/etc/passwd", "../x", "a/../../x", "-- /etc/passwd", "-- ../x", "HEAD:.env", ".env", "-- .env", "id_rsa", "-é",
	"-:",
	"-L1,2:.env", "-L:f:a/.env", "-L1,2:/etc/passwd", "-L/a:b/,+2:../x", "-pL1,2:id_rsa", "-L 1,2:.env",
	"--", "--author --output=f", "-S --output=f", "---output=f", "--=f",
}

func TestSlips(t *testing.T) {
	for _, pattern := range []string{"git log*", "git log *", "git log:*", "git*"} {
		r := Rule{"run_pty_cmd", pattern}
		for _, c := range slips {
			assert.False(t, r.Covers(run(c), ""), "%s covers %q", r, c)
		}
		for _, o := range slipOptions {
			if o != "--" { // alone it ends the options of nothing
				assert.False(t, r.Covers(run("git log "+o), ""), "%s covers git log %s", r, o)
			}
		}
	}
	doubted := run("git log")
	doubted.Doubt = "as it is"
	assert.False(t, Rule{"run_pty_cmd", "git log*"}.Covers(doubted, ""))
}

func TestCoversCommands(t *testing.T) {
	for pattern, commands := range map[string][]string{
		"git log*": {"git log", " git log \n", "git  log", "'git' log", `"git" "log"`, "git log --oneline -5",
			"git log -n 5",
			"git log -p -S'a b' --author=me --since '2 days ago' -- src/a.go", "git log main..dev",
			"git log --format='%h %s'",
			"git log -L1,2:a.go", "git log -L:f:a/b.go --format=%h:%s",
			"git log HEAD^ -- a.b", "git log --stat=80 origin/main", "git log -- '*.go'", "git log 'HEAD@{1}'"},
		"git diff*":   {"git diff", "git diff --cached --stat", "git diff HEAD~2 -- x"},
		"git status*": {"git status", "git status -sb", "git status --porcelain=v2 -uno"},
		"git *":       {"git log --oneline", "git status", "git commit -m 'x y'", "git add -A"},
		"git push*": {"git push", "git push origin main", "git push -u origin HEAD:main",
			"git push origin v1.0 --dry-run"},
		"git push --force*":                 {"git push --force origin main"},
		"git push origin*":                  {"git push origin main dev"},
		"git push -- https://x.org/y +main": {"git push -- https://x.org/y +main"},
		"git bisect*":                       {"git bisect"},
		"git bisect run make test":          {"git bisect run make test"},
		"git checkout*":                     {"git checkout main", "git checkout -q -- a.go"},
		"git stash*":                        {"git stash", "git stash pop"},
		"git pull*":                         {"git pull", "git pull --ff-only origin main"},
		"go run*":                           {"go run ./cmd/x a"},
		"git log --output=f": {
			"git log --output=f"},
		"go test*":       {"go test ./...", "go test -run=X -count=1 ./a", "go test --run X -v"},
		"go mod*":        {"go mod tidy"},
		"ls*":            {"ls", "ls -la src"},
		"cat *":          {"cat a b", "cat -n a"},
		"grep*":          {"grep -rn 'a b' src", "grep --include='*.go' -e x ."},
		"rg*":            {"rg -n x -g '*.go'"},
		"find*":          {"find . -name '*.go' -type f", "find . -maxdepth 2 -mtime -2 '(' -name a -o -name b ')'"},
		"npm run test*":  {"npm run test", "npm run test -- --watch=false", "npm run test --prefix /x"},
		"./build.sh*":    {"./build.sh", "./build.sh all"},
		"/usr/bin/git l": {"/usr/bin/git l"},
	} {
		r, err := Parse("run_pty_cmd(" + pattern + ")")
		require.NoError(t, err)
		for _, c := range commands {
			assert.True(t, r.Covers(run(c), ""), "%s covers %q", r, c)
		}
		assert.False(t, r.Covers(tool.Intent{Tool: "edit_file", Command: commands[0]}, ""))
		assert.True(t, r.Touches(run(commands[0]), ""), "what is covered is touched")
	}
	for pattern, commands := range map[string][]string{
		"git push*":  {"git push --force", "git push --receive-pack=x origin"},
		"git fetch*": {"git fetch --upload-pack=x", "git fetch origin +a:b", "git fetch https://x.org/y"},
		"git push* ": {"git push origin +main", "git push origin :main", "git push origin :", "git push -f",
			"git push --mirror", "git push --delete origin x", "git push -d origin x", "git push --prune origin",
			"git push --all", "git push -- origin +x", "git push https://x.org/y main", "git push me@x.org:y main",
			"git push ext::sh main", "git push ../x main", "git push --force-with-lease", "git push -o x",
			"git push --exec=x origin"},
		"git push origin*":   {"git push origin +main", "git push origin main :x", "git push --force origin"},
		"git bisect*":        {"git bisect run sh", "git bisect start", "git bisect run sh -c 'touch f'"},
		"git submodule*":     {"git submodule foreach sh", "git submodule update"},
		"git rebase*":        {"git rebase --exec x main", "git rebase main"},
		"git difftool*":      {"git difftool HEAD", "git difftool -y -x sh"},
		"git mergetool*":     {"git mergetool x"},
		"git filter-branch*": {"git filter-branch x"},
		"git worktree*":      {"git worktree add x"},
		"git lg*":            {"git lg x"},
		"git stash*":         {"git stash -p", "git stash show --ext-diff"},
		"git checkout*":      {"git checkout -f", "git checkout -B x", "git checkout --patch"},
		"git merge*":         {"git merge --strategy=x y", "git merge -s x y"},
		"go work*":           {"go work use x"},
		"git*":               {"git push origin", "git config core.pager x", "git lg", "git submodule foreach x"},
		"git log":            {"git log --oneline"},
		"git log --oneline*": {"git log", "git log --oneline --output=f", "git log --output=f --oneline"},
		"git diff*":          {"git diff --no-index a b", "git diff /etc/passwd /dev/null", "git diff ../a ../b"},
		"git branch*":        {"git branch -D x", "git branch --edit-description"},
		"git grep*":          {"git grep -Oless x", "git grep -fx", "git grep --no-index x"},
		"git commit*": {"git commit -F x", "git commit -eam x", "git commit -S",
			"git commit --no-verify -m x"},
		"git add*": {"git add -e", "git add -p"},
		"go test*": {"go test -exec=x", "go test --exec x", "go test -toolexec=x", "go test -o x",
			"go test -args x", "go test -C /x"},
		"go*":       {"go run x.go", "go generate", "go tool x", "go env -w A=b"},
		"go build*": {"go build -ldflags=-extld=x", "go build -overlay=x", "go build -o /x"},
		"find*": {"find . -exec rm {} +", "find . -exec rm '{}' ';'", "find . -delete", "find . -fprint f",
			"find . -okdir x",
			"find -- . -delete", "find -L .", "find / -name x", "find . --name x"},
		"rg*": {"rg --pre=x y", "rg --pre x y", "rg -z x", "rg --hidden x", "rg -uu x", "rg --hostname-bin=x y",
			"rg -f x"},
		"grep*": {"grep -R x .", "grep -f x y", "grep x /etc/passwd", "grep x .env", "grep -nf x y"},
		"cat*": {"cat /etc/passwd", "cat ../x", "cat .env", "cat -- .env", "cat ~/.ssh/id_rsa", "cat a/id_ed25519",
			"cats"},
		"tail*": {"tail -f x", "tail --pid=1 x"},
		"wc*":   {"wc --files0-from=x"},
	} {
		for _, c := range commands {
			assert.False(t, Rule{"run_pty_cmd", pattern}.Covers(run(c), ""), "%s covers %q", pattern, c)
		}
	}
}

// A program that is named by a relative path, and a file that an interpreter is given, is another one in another
// folder. A model chooses the folder.
func TestCoversInAFolder(t *testing.T) {
	in := func(command, dir string) tool.Intent {
		return tool.Intent{Tool: "run_pty_cmd", Command: command, Dir: dir}
	}
	for _, command := range []string{"./run.sh", "./run.sh all", "bin/x", "sh run.sh", "make test", "python3 x.py"} {
		r := Rule{"run_pty_cmd", command + "*"}
		assert.True(t, r.Covers(in(command, ""), ""), command)
		assert.False(t, r.Covers(in(command, "vendor/evil"), ""), command)
		assert.False(t, r.Covers(in(command, ""), "vendor/evil"), command)
		assert.False(t, r.Covers(in(command, ""), ".."), command)
		lasting, ok := Exactly(in(command, "vendor"))
		assert.True(t, ok, "a rule for that folder")
		assert.Equal(t, command, lasting.Pattern)
	}
	for _, command := range []string{"git log", "ls -l", "npm test", "/usr/bin/x"} {
		assert.True(t, Rule{"run_pty_cmd", command}.Covers(in(command, "web"), "a"), command)
	}
}

func TestCoversPathsAndHosts(t *testing.T) {
	edit := func(files ...string) tool.Intent { return tool.Intent{Tool: "edit_file", Paths: files} }
	src := Rule{"edit_file", "src/**"}
	assert.True(t, src.Covers(edit("src/a/b.go"), ""))
	assert.True(t, src.Covers(edit("a.go"), "src"), "an agent in a folder")
	assert.False(t, src.Covers(edit("src/a.go"), "sub"))
	assert.False(t, src.Covers(edit("src/a.go", "b.go"), ""))
	assert.False(t, src.Covers(edit(), ""))
	assert.False(t, src.Covers(edit("SRC/a.go"), ""))
	assert.False(t, src.Covers(edit("src/a.go"), "../other"))

	assert.True(t, src.Touches(edit("b.go", "SRC/a.go"), ""), "as a file system may take it")
	assert.True(t, src.Touches(edit(), ""))
	assert.True(t, Rule{"edit_file", "src"}.Touches(edit("src/a/b.go"), ""), "a folder is what is in it")
	assert.False(t, src.Touches(edit("b.go", "srcs/x"), ""))

	fetch := func(host string) tool.Intent { return tool.Intent{Tool: "web_fetch", Host: host} }
	docs, below := Rule{"web_fetch", "docs.python.org"}, Rule{"web_fetch", "*.python.org"}
	for host, want := range map[string][4]bool{
		// covers: the host, what is below; touches: the same
		"docs.python.org":      {true, true, true, true},
		"x.docs.python.org":    {false, true, true, true},
		"python.org":           {false, false, false, true},
		"docs.python.org:8080": {false, false, true, true},
		"evildocs.python.org":  {false, true, false, true},
		"docs.python.org.evil": {false, false, false, false},
		"xpython.org":          {false, false, false, false},
		"docs.pythön.org":      {false, false, true, true},
		"":                     {false, false, true, true},
	} {
		in := fetch(host)
		got := [4]bool{docs.Covers(in, ""), below.Covers(in, ""), docs.Touches(in, ""), below.Touches(in, "")}
		assert.Equal(t, want, got, host)
	}
}

func TestTouchesCommands(t *testing.T) {
	for pattern, commands := range map[string][]string{
		"git push*": {"git push", "/usr/bin/git push", "\\git push", "g'i't push", "GIT push",
			"git -C x push --force",
			"git -c a=b push", "ls; git push", "ls\ngit push", "# x\ngit push", "gi\\\nt push", "a && (git push)",
			"ls | git push",
			"echo $(git push)", "echo \"`git push`\"", "cat <(git push)", "if x; then git push; fi",
			"f() { git push; }; f",
			"env git push", "sudo -u x git push", "X=1 git push", "xargs git", "echo push | xargs git",
			"find . -exec git push ';'",
			"sh -c 'git push'", "bash -lc \"cd x && git push\"", "eval git push", "eval 'git push'",
			"sh -c \"sh -c 'git push'\"",
			"$X push", "\"$@\"", "git $X", "$(echo git) push", "echo git push | sh", "sh <<E\ngit push\nE",
			"sh <<<'git push'",
			"sh", "sh -s x <y", "eval $X", "sh -c \"$X\"", "env $X push", "{git,push}", "g?t push",
			"python -c 'git push'",
			"nohup git push &", "git push\x00", "git push\r", "git 'push", "exec git push", "time git push",
			"! git push",
			strings.Repeat("x", 17<<10), "git pu*", "git 'push'", "echo git push",
			"sh -c \"sh -c \\\"sh -c 'sh -c ls'\\\"\""},
		"rm*":               {"rm x", "rm", "/bin/r? x", "find . -exec rm {} +", "sudo rm x", "xargs rm"},
		"rm":                {"rm -rf x"},
		"rm -rf*":           {"rm -rf x", "rm -fr x", "rm -r -f x", "rm x -vf -r", "sudo rm -rvf x"},
		"git push --force*": {"git push --force", "git push --forc", "git push origin --for main"},
	} {
		for _, c := range commands {
			assert.True(t, Rule{"run_pty_cmd", pattern}.Touches(run(c), ""), "%s touches %q", pattern, c)
		}
	}
	for pattern, commands := range map[string][]string{
		"git push*": {"git log", "git add *.go", "npm run push; git status", "sh build.sh", "./push",
			"echo 'it is done' > x",
			"git commit -m \"don't\"", "for f in a b; do ls $f; done", "cat <<E\nhello\nE", "X=$(date); ls",
			"ls\n\tls"},
		"rm*":               {"ls", "git rm", "npm run x", "term"},
		"rm -rf*":           {"rm -r x", "rm x", "rm --verbose x"},
		"git push --force*": {"git push", "git push --follow-tags", "git push --"},
	} {
		for _, c := range commands {
			if c == "git rm" {
				continue // rm is among its words: in doubt it is denied
			}
			assert.False(t, Rule{"run_pty_cmd", pattern}.Touches(run(c), ""), "%s touches %q", pattern, c)
		}
	}
	assert.True(t, Rule{"run_pty_cmd", "not 'readable"}.Touches(run("ls"), ""))
	assert.True(t, Rule{Tool: "run_pty_cmd"}.Touches(run("ls"), ""))
	assert.False(t, Rule{Tool: "edit_file"}.Touches(run("ls"), ""))
}

// What a denying rule is got round with. It refuses what it can read, and is not certain about the rest.
func TestEvasions(t *testing.T) {
	push := Rule{"run_pty_cmd", "git push*"}
	for _, c := range []string{
		"/usr/lib/git-core/git-push", "git-push origin", "/usr/lib/git-core/git-p?sh", "git -c alias.x=push x",
		"git -c alias.x='push' x", "env sh -c 'git push'", "sh -ce 'git push'", "sh -ce 'g\"\"it push'",
		"bash -lc 'gi\\t push'", "bash -ec 'g\"i\"t push'", "bash --norc -lc 'g\"\"it push'",
		"bash +c -c 'g\"\"it push'",
		"fish --command='g\"\"it push'", "env sh -c 'g\"\"it push'", "env -i A=b sh -ce 'g\"\"it push'",
		"timeout 5 sh -c 'g\"\"it push'", "command git push", "command sh -c 'g\"\"it push'", "nice git push",
		"nice -n 5 git push", "timeout 5 git push", "timeout 5s git -C x push", "xargs git push", "nohup git push",
		"[!x]it push", "[^x]it push", "[[:alpha:]]it push", "gi? push", "gi* push", "g[i]t push", "git p[!x]sh",
		"eval g\"\"it push", "eval 'g\"\"it' push", "eval g'\"\"'it push", "busybox sh -c 'g\"\"it push'",
		"watch 'g\"\"it push'", "find . -exec sh -c 'g\"\"it push' ';'", "npx sh -c 'g\"\"it push'",
		"su -c 'g\"\"it push'",
		"su x -c 'g\"\"it push'", "git submodule foreach git push", "git rebase -x 'git push' main",
	} {
		assert.True(t, push.Touches(run(c), ""), "%s touches %q", push, c)
	}
	for _, c := range []string{
		"git x", "git lg", "git send-pack x", "git subtree x", "git -c alias.x='!gi\"\"t pu\"\"sh' x",
		"git -c core.pager=x log",
		"git -ccore.pager=x log", "git --config-env=core.pager=X log", "git --exec-path=. log", "alias g=git; g x",
		"hash -p /usr/bin/x y", "trap x EXIT", "python3 -c 'import os'", "python3.12 -c x", "python3", "perl -e x",
		"perl -pie x y",
		"node --eval x", "node -p x", "ruby -e x", "awk 'BEGIN { system(x) }'", "awk '{ print | x }' f",
		"xargs env", "xargs sudo",
		"PAGER='git push' man x", "X='git push' true", "export X='git push'", "env bash", "git bisect run x",
		"git submodule foreach x", "git rebase --exec x y", "git config alias.x '!y'", "sudo -E python -c x",
		"timeout 5 git lg",
	} {
		assert.False(t, push.Touches(run(c), ""), "%s touches %q", push, c)
		assert.True(t, push.Suspects(run(c)), "%s suspects %q", push, c)
	}
	for _, c := range []string{
		"git log", "git -C sub status", "git -c user.name=x commit -m y", "git -c color.ui=false diff",
		"git --version",
		"git bisect start", "git submodule update", "git rebase main", "git config user.name x", "make test",
		"npm run push",
		"sh build.sh", "./push", "go test ./...", "python3 x.py", "python3 -m pytest -q", "node x.js",
		"awk '{ print $1 }' f",
		"xargs rm", "ls | xargs -n 1 wc", "command -v bash", "which sh", "grep sh -c file", "X=1 make",
		"[ -f push ] && git log",
		"for f in *.go; do wc $f; done", "cat x > y", "env A=b make", "timeout 5 go test ./x", "find . -name '*.sh'",
	} {
		assert.False(t, push.Touches(run(c), ""), "%s touches %q", push, c)
		assert.False(t, push.Suspects(run(c)), "%s suspects %q", push, c)
	}
	assert.False(t, Rule{"run_pty_cmd", "rm*"}.Touches(run("[ -f x ] && ls"), ""), "it is a program, no glob")
	assert.False(t, Rule{"edit_file", "x"}.Suspects(tool.Intent{Tool: "edit_file", Paths: []string{"y"}}))
	assert.False(t, push.Suspects(tool.Intent{Tool: "read_file", Command: "git x"}))
}

// What an option has glued to it, a sign before a command, and other names of the same option hide nothing.
func TestGlued(t *testing.T) {
	for pattern, commands := range map[string][]string{
		"git push*": {"env -S'git push'", "env -Sgit push", "env --split-string=git push", "env -vS'git push'",
			"script -qc'git push' /dev/null", "script -aqec'g\"\"it push' f", "su -c'git push'",
			"su -c'g\"\"it push' x",
			"su --command='g\"\"it push'", "flock f -c'git push'", "flock f -c'sh -c \"git push\"'",
			"env -Ssh -c 'g\"\"it push'", "vim -c':!git push'", "vim '+!git push'", "vim -c '!git push'",
			"make --eval='x:;@git push' x", "make --eval='x:;@git pu$(E)sh' x", "make --eval='x:;-git push'",
			"tar --checkpoint-action=exec='git push' -cf x y", "socat - EXEC:'git push'", "find . -exec'git push'",
			"timeout -k1 5 git push", "uv run git push", "uv run $X push", "uv run sh -c 'g\"\"it push'",
			"git-push", "poetry run 'g\"\"it push'", "timeout -v 5 'g\"\"it push'"},
		"rm*": {"env -Srm x", "su -crm", "env -S/bin/rm x", "vim '+!rm x'", "make --eval='x:;@rm x'", "vim -c:!rm"},
		"rm -rf*": {"rm -rf x", "rm -Rf x", "rm -R -f x", "rm -fR x", "rm -r --force x", "rm --recursive --force x",
			"rm --rec --fo x", "rm --recursive -f x", "rm x -rf", "env -S'rm -r --force x'"},
		"rm --recursive --force*": {"rm -rf x", "rm -Rf x", "rm -r --force x", "rm --rec -f x"},
		"rm -R*":                  {"rm -r x", "rm --recursive x", "rm -Rf x"},
		"git push --force*":       {"git push -f", "git push -uf origin", "git push --fo"},
		"git push -d*":            {"git push origin --delete x", "git push --del origin x"},
		"git push origin +main*":  {"git push origin +main", "git push origin '+main' x"},
		"git push origin a:b*":    {"git push origin a:b", "git push -q origin a:b"},
	} {
		for _, c := range commands {
			assert.True(t, Rule{"run_pty_cmd", pattern}.Touches(run(c), ""), "%s touches %q", pattern, c)
		}
	}
	push := Rule{"run_pty_cmd", "git push*"}
	for _, c := range []string{
		"/usr/lib/git-core/git-send-pack x", "git-send-pack origin", "git-lfs x", "gi? lg", "GIT lg", "env -S'git lg'",
		"su -c'git lg'", "su --command='git lg'", "make --eval='x:;@git lg' x", "uv run python -c 'import os'",
		"uv run --with x python3.12 -c x", "poetry run python -c x", "bundle exec ruby -e x", "pdm run node -e x",
		"pipenv run python", "gdb -batch -ex 'python exec(1)'", "gdb -ex'python exec(1)'", "vim -es -c 'py3 exec(1)'",
		"vim '+py3 exec(1)' x", "emacs --batch --eval x", "julia -e x", "R -e x", "osascript -e x", "pwsh -Command x",
		"deno eval x", "timeout -v 5 python -c x",
	} {
		assert.False(t, push.Touches(run(c), ""), "%s touches %q", push, c)
		assert.True(t, push.Suspects(run(c)), "%s suspects %q", push, c)
	}
	for pattern, commands := range map[string][]string{
		"git push*": {"git-log", "git commit -m'fix: a' -q", "vim +10 x", "vim x",
			"make -j4",
			"uv add git", "uv sync", "uv run pytest -q", "uv run x.py", "poetry add $X", "bundle install",
			"scp a me@x.org:b", "g++ -c x.cc", "git fetch origin +a:b", "env -i make", "xargs -n1 wc", "deno run x.ts",
			"env -S'git log'", "make --eval='x:;@git log'", "npm run x", ": ${X:=a}", "find . -name push"},
		"rm*":               {"grep -nrm 1 x", "ls -lrm", "gcc -o form x.c", "ls --sort=term"},
		"rm -rf*":           {"rm -r x", "rm --force x", "rm --recursive x", "rm -R x", "rm --verbose x", "rm -- x"},
		"git push --force*": {"git push --follow-tags", "git push -u origin main", "git push --", "git -C sub push"},
	} {
		for _, c := range commands {
			assert.False(t, Rule{"run_pty_cmd", pattern}.Touches(run(c), ""), "%s touches %q", pattern, c)
			assert.False(t, Rule{"run_pty_cmd", pattern}.Suspects(run(c)), "%s suspects %q", pattern, c)
		}
	}
}

// A long command is judged in time, whatever is in it.
func TestTouchesInTime(t *testing.T) {
	for _, word := range []string{"sh ", "sh 'a b' ", "xargs ", "git ", "env ", "env 'sh -c \"a b\"' ", "[ ", "python ",
		"g* ", "eval ", "eval 'x' ", "$(", "a;", "busybox ", "su -abcdefg ", "-cbash ", "x -c'a -cde b' ",
		"su -aaaaac'su -aaaaac\"su -c a\\ b\"' ", "env -Suv=run ", "a:"} {
		command := strings.Repeat(word, maxCommand/len(word))
		start := time.Now()
		for _, r := range []Rule{{"run_pty_cmd", "git push*"}, {"run_pty_cmd", "rm*"}} {
			r.Touches(run(command), "")
			r.Suspects(run(command))
			r.Covers(run(command), "")
		}
		assert.Less(t, time.Since(start), 10*time.Second, word)
		t.Logf("%q %v", word, time.Since(start))
	}
}

// What a definition takes from one tool, it takes from all that do the same.
func TestTaken(t *testing.T) {
	taken := Taken([]string{"edit_file(a/**)", "write_file(b)", "delete_file(c)", "edit_file", "read_file(d)"})
	assert.Equal(t, []Rule{
		{"edit_file", "a/**"}, {"write_file", "a/**"}, {"create_file", "a/**"}, {"delete_file", "a/**"},
		{"ast_grep_replace", "a/**"}, {"write_file", "b"}, {"create_file", "b"}, {"delete_file", "c"},
		{"edit_file", ""}, {"read_file", "d"},
	}, taken)
	reading := []Rule{{"read_file", "a/"}, {"read_file", "/b"}, {"read_file", ""}, {"edit_file", "c"}}
	assert.Equal(t, []string{`/w/\[x\]/a/**`, `/w/\[x\]/**`}, Unreadable(reading, "/w/[x]"))
}

func TestExactly(t *testing.T) {
	for _, in := range []tool.Intent{
		run("git log --format='%h %s' \"it's\""), run("echo '*' '(a, b' ''"), run("./x.sh"),
		{Tool: "edit_file", Paths: []string{"app/[id]/{a}*.x"}}, {Tool: "web_fetch", Host: "wiki.local:8080"},
	} {
		r, ok := Exactly(in)
		require.True(t, ok, "%+v", in)
		assert.True(t, r.Covers(in, ""), r)
		other := in
		other.Command += " x"
		other.Paths = slices.Concat(in.Paths, []string{"y"})
		other.Host += "x"
		assert.False(t, r.Covers(other, ""), r)
	}
	r, _ := Exactly(run("git  log   'a b'"))
	assert.Equal(t, "run_pty_cmd(git log 'a b')", r.String())
	for _, in := range []tool.Intent{
		run("git log; rm x"), run("git log *"), run(`echo 'it'"'"'s "$x"'`), {Tool: "run_pty_cmd", Command: "ls",
			Doubt: "x"},
		{Tool: "run_pty_cmd", Command: "ls", Special: true}, {Tool: "edit_file", Paths: []string{"a", "b"}},
		{Tool: "edit_file"}, {Tool: "edit_file", Paths: []string{"a\x1bb"}}, {Tool: "delegate_task"},
		{Tool: "web_search"},
		{Tool: "edit_file", Paths: []string{".git/config"}, Special: true}, {Tool: "web_fetch",
			Host: "bücher.example"},
		run(strings.Repeat("x ", 600)),
	} {
		_, ok := Exactly(in)
		assert.False(t, ok, "%+v", in)
	}
}

func TestCaution(t *testing.T) {
	for pattern, want := range map[string]string{
		"env *": "allows any program, because env runs what its arguments name", "sh -c*": "because sh runs",
		"npm run*":        "allows any option: qq does not know which ones of npm are harmless",
		"git bisect run*": "allows only git bisect run: qq does not know what further words would start",
		"git log*":        "", "git push*": "", "ls*": "", "npm test": "",
	} {
		got := Rule{"run_pty_cmd", pattern}.Caution()
		assert.Equal(t, want == "", got == "", pattern)
		assert.Contains(t, got, want)
	}
	assert.Empty(t, Rule{Tool: "run_pty_cmd"}.Caution())
}

// A rule that can be read is written as it is read.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"run_pty_cmd(git log*)", "edit_file(src/**)", "web_fetch(*.x.org)", "read_file(a", "x",
		"run_pty_cmd(echo 'a' \"b\")", "edit_file({a,b}/[c]?)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
		r.Covers(tool.Intent{Tool: r.Tool, Command: text, Paths: []string{"a/b"}, Host: "x.org"}, "sub")
		r.Touches(tool.Intent{Tool: r.Tool, Command: text, Paths: []string{"a/b"}, Host: "x.org"}, "sub")
		r.Suspects(tool.Intent{Tool: r.Tool, Command: text})
	})
}

// What matches git log* is git log with options that are listed, in words that a shell would not
// expand; it is written as a rule for itself, and a rule that denies git log denies it.
func FuzzCommand(f *testing.F) {
	for _, s := range slips {
		f.Add(s)
	}
	for _, s := range slipOptions {
		f.Add("git log " + s)
	}
	log := Rule{"run_pty_cmd", "git log*"}
	f.Fuzz(func(t *testing.T, command string) {
		if !log.Covers(run(command), "") {
			return
		}
		words, err := Words(command)
		require.NoError(t, err)
		require.Equal(t, []string{"git", "log"}, words[:2])
		operands := false
		for _, w := range words[2:] {
			operands = operands || w == "--"
			require.NotContains(t, strings.Split(w, "/"), "..")
			if !operands && strings.HasPrefix(w, "-") && w != "-" {
				name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
				listed := strings.Fields(strings.ReplaceAll(gitDiff+gitLog, "=", ""))
				require.True(t, w[1] == '-' && slices.Contains(listed, name) ||
					w[1] != '-' && strings.Contains(diffLetters+"0123456789", w[1:2]), w)
			}
		}
		require.True(t, log.Touches(run(command), ""))
		require.False(t, Rule{"run_pty_cmd", "rm*"}.Suspects(run(command)), "it is one call of git log")
		if again, ok := quoted(words); ok {
			same, err := Words(again)
			require.NoError(t, err)
			require.Equal(t, words, same)
		}
	})
}
