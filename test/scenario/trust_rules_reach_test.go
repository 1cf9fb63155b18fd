package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRuleForPush: a rule for git push reaches servers alone. A repository in the checkout would run its hooks.
func TestRuleForPush(t *testing.T) {
	w := newRulesWorld(t)
	w.git("init", "-q", "--bare", "vendor/evil.git")
	require.NoError(t, os.Rename(w.trap("hook.sh"), filepath.Join(w.work, "vendor/evil.git/hooks/pre-receive")))
	w.git("remote", "add", "origin", "https://127.0.0.1:1/x.git")
	push := []string{"--allow", "run_pty_cmd(git push*)", "--allow", "run_pty_cmd(git push --repo=./vendor/evil.git)"}
	for _, command := range []string{
		"git push ./vendor/evil.git HEAD:x", "git push vendor/evil.git HEAD:x", "git push vendor/evil HEAD:x",
		"git push file://" + w.work + "/vendor/evil.git HEAD:x", "git push 'ext::sh -c \"touch f\"' HEAD:x",
		"git push --repo=./vendor/evil.git", "git push https://127.0.0.1:1/y.git HEAD:x", "git push origin +HEAD:x",
		"git push origin :x", "git push --force origin HEAD:x", "git push --mirror", "git push --delete origin x",
		"git push --receive-pack='touch f' origin",
	} {
		e := w.does(shellCall(command), push...)
		assert.Equal(t, 1, e.code, command)
		assert.Contains(t, e.stdout, needsPerson, command)
	}
	w.unharmed()
	assert.Contains(t, w.does(shellCall("git push origin HEAD:x"), push...).stdout, "unable to access", "it ran")

	for _, set := range [][]string{
		{"remote.origin.url", "./vendor/evil.git"}, {"remote.origin.pushurl", "vendor/evil.git"},
		{"url../vendor/evil.git.insteadOf", "https://127.0.0.1:1/x.git"}, {"remote.origin.mirror", "true"},
	} {
		was := w.files("work")[".git/config"]
		w.git("config", set[0], set[1])
		e := w.does(shellCall("git push origin HEAD:x"), push...)
		assert.Contains(t, e.stdout, needsPerson, set)
		w.file(".git/config", was)
	}
	w.unharmed()
	w.git("push", "-q", "vendor/evil.git", "HEAD:x")
	assert.FileExists(t, filepath.Join(w.work, "sprung"), "it is a trap")
}

// TestRuleForSubcommands: a * stands for nothing after a subcommand whose arguments may be programs.
func TestRuleForSubcommands(t *testing.T) {
	w := newRulesWorld(t)
	w.trap("trap.sh")
	for rule, command := range map[string]string{
		"git bisect*": "git bisect run ./trap.sh", "git submodule*": "git submodule foreach ./trap.sh",
		"git rebase*": "git rebase --exec ./trap.sh HEAD", "git difftool*": "git difftool -y -x ./trap.sh",
		"git mergetool*": "git mergetool x", "git filter-branch*": "git filter-branch x",
		"git worktree*": "git worktree add tree", "git*": "git bisect run ./trap.sh",
	} {
		e := w.does(shellCall(command), "--allow", "run_pty_cmd("+rule+")")
		assert.Equal(t, 1, e.code, command)
		assert.Contains(t, e.stdout, needsPerson, command)
	}
	w.unharmed()
	assert.NoDirExists(t, filepath.Join(w.work, "tree"))
	e := w.does(shellCall("git worktree list"), "--allow", "run_pty_cmd(git worktree list)",
		"--allow", "run_pty_cmd(git bisect*)")
	assert.Equal(t, 0, e.code, "the words of the rule itself")
	assert.Contains(t, e.stderr, "the rule run_pty_cmd(git bisect*) allows only git bisect")
}

// TestRuleReads: a granted command reads no secrets behind a link or in the folders below.
func TestRuleReads(t *testing.T) {
	w := newRulesWorld(t)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "id_rsa"), []byte("the key\n"), 0o600))
	require.NoError(t, os.Symlink("../id_rsa", filepath.Join(w.work, "notes")))
	w.file("conf/.env", "the key\n")
	w.file("src/a", "the text\n")
	var rules []string
	for _, rule := range []string{"cat*", "grep*", "find . -exec cat {} +", "find conf -exec cat '{}' +", "tar c conf"} {
		if rule != "find . -exec cat {} +" {
			rules = append(rules, "--allow", "run_pty_cmd("+rule+")")
		}
	}
	for command, why := range map[string]string{
		"cat notes": "notes leads out of the working directory", "grep key notes": "notes leads out",
		"grep -r key": "it would read conf/.env", "grep -rn key .": "it would read conf/.env",
		"find conf -exec cat '{}' +": "it would read conf/.env", "tar c conf": "it would read conf/.env",
	} {
		e := w.does(shellCall(command), rules...)
		assert.Equal(t, 1, e.code, command)
		assert.Contains(t, e.stdout, needsPerson, command)
		assert.Contains(t, e.stdout, why, command)
		assert.NotContains(t, e.stdout, "the key", command)
	}
	assert.Contains(t, w.does(shellCall("grep -r text src"), rules...).stdout, "src/a:the text")
	assert.Contains(t, w.does(shellCall("cat src/a"), rules...).stdout, "the text")
}

// TestRuleForAProgramOfTheFolder: ./x is the file of the folder of the rule, not of one that a model chooses.
func TestRuleForAProgramOfTheFolder(t *testing.T) {
	w := newRulesWorld(t)
	require.NoError(t, os.Mkdir(filepath.Join(w.work, "evil"), 0o700))
	require.NoError(t, os.Rename(w.trap("run.sh"), filepath.Join(w.work, "evil/run.sh")))
	require.NoError(t, os.Chmod(w.file("run.sh", "#!/bin/sh\necho it ran\n"), 0o700))
	elsewhere := func(command string) string {
		return callOf("run_pty_cmd", map[string]string{"command": command, "working_dir": "evil"})
	}
	rules := []string{"--allow", "run_pty_cmd(./run.sh*)", "--allow", "run_pty_cmd(sh run.sh)"}
	for _, command := range []string{"./run.sh", "sh run.sh"} {
		assert.Contains(t, w.does(shellCall(command), rules...).stdout, "it ran", command)
		assert.Contains(t, w.does(elsewhere(command), rules...).stdout, needsPerson, command)
		tasks, err := json.Marshal([]map[string]string{{"agent": "coder", "working_dir": "evil", "task": shellCall(command)}})
		require.NoError(t, err)
		e := w.qq(append([]string{"batch", w.file("tasks.json", string(tasks)), "--no-bar"}, rules...)...)
		assert.Contains(t, e.stdout+e.stderr, needsPerson, command)
	}
	w.unharmed()
}

// TestRuleSuspects: what a denying rule cannot exclude needs a person, whatever allows it.
func TestRuleSuspects(t *testing.T) {
	w := newRulesWorld(t)
	w.git("config", "alias.p", "!touch sprung")
	deny := []string{"--deny", "run_pty_cmd(git push*)", "--auto-approve"}
	for _, command := range []string{"/usr/lib/git-core/git-push", "git -c alias.x=push x", "env sh -c 'g\"\"it push'",
		"sh -ce 'g\"\"it push'", "bash -lc 'g\"\"it push'", "command git push", "nice git push", "timeout 5 git push",
		"xargs git push", "[!x]it push", "gi? push"} {
		e := w.does(shellCall(command), deny...)
		assert.Equal(t, 1, e.code, command)
		assert.Contains(t, e.stdout, "the rule run_pty_cmd(git push*) denies it", command)
	}
	const suspects = "the rule run_pty_cmd(git push*) may deny it, which its words do not tell, and nobody can be asked here"
	for _, command := range []string{"git p", "perl -e 'print 1'", "alias g=git; g x", "git -c core.pager=x log"} {
		assert.Contains(t, w.does(shellCall(command), deny...).stdout, suspects, command)
		assert.Contains(t, w.does(shellCall(command), append(deny, "--allow", "run_pty_cmd")...).stdout, suspects, command)
	}
	w.unharmed()
	assert.Contains(t, w.does(shellCall("git status --short; make -v"), deny...).stdout, " M a.txt")

	q := w.onTerminal("-a", "coder", shellCall("git p"), "--allow", "run_pty_cmd", "--deny", "run_pty_cmd(git push*)")
	asked := q.answer(1, "n")
	assert.Contains(t, asked, "run: git p (the rule run_pty_cmd(git push*) may deny it)")
	assert.Contains(t, asked, "special: asked each time")
	q.wait()
	w.unharmed()
}

// TestLastingRuleOfAnOddFolder: the name of a folder is on one row of the list, with all its characters.
func TestLastingRuleOfAnOddFolder(t *testing.T) {
	w := newRulesWorld(t)
	folder := filepath.Join(w.dir, "config", "qq")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	odd := "/a\n2\t2026-01-01 10:00\t/b\u00a0\u202e\x1b[2J"
	kept, err := json.Marshal(map[string]any{"rules": []map[string]string{
		{"folder": odd, "rule": "run_pty_cmd(ls)", "added": "2026-01-01T10:00:00Z"}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "permissions.json"), kept, 0o600))
	const shown = "/a␊2␉2026-01-01 10:00␉/b<U+00A0><U+202E>␛[2J"
	listed := w.qq("permissions", "list").stdout
	assert.Equal(t, 2, strings.Count(listed, "\n"), listed)
	assert.Contains(t, listed, shown+"  run_pty_cmd(ls)\n")
	assert.Equal(t, odd, w.permissions()[0].Folder, "as JSON as it is")
	assert.Contains(t, w.qq("permissions", "rm", "1").stderr, "removed: run_pty_cmd(ls) in "+shown+"\n")
}

// TestRestrictedReading: what a definition takes from the editing or reading tools, it takes from all of them, and from
// the agents below.
func TestRestrictedReading(t *testing.T) {
	w := newRulesWorld(t)
	w.file("docs/secret/a.go", "package hidden\n")
	w.file("docs/b.go", "package shown\n")
	const taken = "disallowedTools: Read(docs/secret/**), Edit(docs/secret/**)\n---\nLook.\n"
	w.file(".claude/agents/keeper.md", "---\nname: keeper\ndescription: d\ntools: Read, Grep, Glob, LS, Edit, Write, "+
		"create_file, delete_file\n"+taken)
	w.file(".claude/agents/boss.md", "---\nname: boss\ndescription: d\ntools: Task\n"+taken)
	w.file(".claude/agents/middle.md", "---\nname: middle\ndescription: d\ntools: Task\n---\nAsk.\n")
	hand := func(agent, task string) string {
		return callOf("delegate_task", map[string]string{"agent": agent, "task": task})
	}
	for who, wrap := range map[string]func(string) string{
		"keeper": func(call string) string { return call },
		"boss":   func(call string) string { return hand("middle", hand("coder", call)) },
	} {
		does := func(tool string, args map[string]string) string {
			return w.qq("-a", who, wrap(callOf(tool, args)), "--auto-approve").stdout
		}
		assert.Contains(t, does("read_file", map[string]string{"path": "docs/b.go"}), "package shown", who)
		for tool, args := range map[string]map[string]string{
			"read_file":   {"path": "docs/secret/a.go"},
			"edit_file":   {"path": "docs/secret/a.go", "old_text": "hidden", "new_text": "changed"},
			"write_file":  {"path": "docs/secret/a.go", "content": "changed"},
			"create_file": {"path": "docs/secret/new", "content": "changed"},
			"delete_file": {"path": "docs/secret/a.go"},
		} {
			assert.Regexp(t, `takes (read|edit|write|create|delete)_file\(docs/secret/\*\*\) from it|the rule .* denies it`,
				does(tool, args), who+" "+tool)
		}
		found := does("grep_file", map[string]string{"pattern": "package", "path": "docs"})
		assert.Contains(t, found, "package shown", who)
		assert.NotContains(t, found, "hidden", who)
		assert.Contains(t, does("grep_file", map[string]string{"pattern": "package", "path": "docs/secret/a.go"}),
			"is taken from this agent by a definition", who)
		listed := does("list_files", map[string]string{"pattern": "**"})
		assert.Contains(t, listed, "docs/b.go", who)
		assert.NotContains(t, listed, "secret/a.go", who)
		assert.NotContains(t, does("list_directory", map[string]string{"path": "docs/secret"}), "a.go", who)
	}
	files := w.files("work")
	assert.Equal(t, "package hidden\n", files["docs/secret/a.go"])
	assert.NotContains(t, files, "docs/secret/new")
}
