package scenario

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// calling answers a task whose last line is {"name": …, "arguments": …} with that call, and then says
// what the tool answered.
func calling(p standin.Prompt) string {
	if last := p.Messages[len(p.Messages)-1]; last.Role == "tool" {
		return "It says: " + last.Content
	}
	return "<tool_call>" + standin.EchoLast(p) + "</tool_call>"
}

// callOf is a task for calling.
func callOf(tool string, args map[string]string) string {
	text, _ := json.Marshal(map[string]any{"name": tool, "arguments": args}) // of maps and strings
	return string(text)
}

func shellCall(command string) string {
	return callOf("run_pty_cmd", map[string]string{"command": command})
}

// rulesWorld is a world with a model that makes the call of its task, and a checkout.
type rulesWorld struct {
	*world
	server *standin.Server
}

func newRulesWorld(t *testing.T, env ...string) rulesWorld {
	t.Helper()
	server := standin.Start(t, standin.Reply(calling))
	w := rulesWorld{newWorld(t, server.Host(), "stand-in", env...), server}
	w.git("init", "-q")
	w.file("a.txt", "one\n")
	w.file("b.txt", "same\n")
	w.git("add", "a.txt", "b.txt")
	w.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "the first commit")
	w.file("a.txt", "one\ntwo\n")
	return w
}

// git runs git as the person would.
func (w rulesWorld) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = w.work, w.env
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, "git %q: %s", args, out)
	return string(out)
}

// trap writes a program that notes that it was started, and returns its path.
func (w rulesWorld) trap(name string) string {
	w.t.Helper()
	path := w.file(name, "#!/bin/sh\ntouch "+filepath.Join(w.work, "sprung")+"\ncat 2>/dev/null\n")
	require.NoError(w.t, os.Chmod(path, 0o700))
	return path
}

func (w rulesWorld) unharmed() {
	w.t.Helper()
	for _, name := range []string{"sprung", "f", "f2"} {
		assert.NoFileExists(w.t, filepath.Join(w.work, name))
	}
	assert.FileExists(w.t, filepath.Join(w.work, "a.txt"))
}

// does runs a call by an agent that may use the shell and change files.
func (w rulesWorld) does(call string, args ...string) ended {
	w.t.Helper()
	return w.qq(append([]string{"-a", "coder", call}, args...)...)
}

const (
	gitLog      = "run_pty_cmd(git log*)"
	needsPerson = "it needs an approval and nobody can be asked here"
)

func TestRuleAllowsACommand(t *testing.T) {
	for name, run := range map[string]func(rulesWorld, string) ended{
		"flag": func(w rulesWorld, call string) ended { return w.does(call, "--allow", gitLog) },
		"flag, among others": func(w rulesWorld, call string) ended {
			return w.does(call, "--allow", "run_pty_cmd(echo 'a, (b'),edit_file(x)", "--allow", gitLog)
		},
		"environment": func(w rulesWorld, call string) ended {
			w.env = append(w.env, "QQ_ALLOW="+gitLog)
			return w.does(call)
		},
		"the user's .env": func(w rulesWorld, call string) ended {
			folder := filepath.Join(w.dir, "config", "qq")
			require.NoError(t, os.Mkdir(folder, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(folder, ".env"), []byte("QQ_ALLOW='"+gitLog+"'\n"), 0o600))
			return w.does(call)
		},
		"a child": func(w rulesWorld, call string) ended {
			tasks, err := json.Marshal([]map[string]string{{"agent": "coder", "task": call}})
			require.NoError(t, err)
			return w.qq("batch", w.file("tasks.json", string(tasks)), "--no-bar", "--allow", gitLog)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRulesWorld(t)
			inner := *w.world
			inner.t, w.world = t, &inner
			e := run(w, shellCall("git log --format=%s -n 1"))
			assert.Equal(t, 0, e.code, "exit code")
			assert.Contains(t, e.stdout, "It says: the first commit")
		})
	}
	t.Run("not the .env of a checkout", func(t *testing.T) {
		w := newRulesWorld(t)
		w.file(".env", "QQ_ALLOW='"+gitLog+"'\n")
		e := w.does(shellCall("git log"))
		assert.Equal(t, 1, e.code, "exit code")
		assert.Contains(t, e.stderr, "QQ_ALLOW in .env is ignored")
		assert.Contains(t, e.stdout, needsPerson)
	})
}

// TestRuleWithoutViews: a rule for git does not count where commands can write .git/config. Other rules do.
func TestRuleWithoutViews(t *testing.T) {
	for _, agent := range []string{"the root", "a child"} {
		t.Run(agent, func(t *testing.T) {
			w := newRulesWorld(t)
			sandboxNoNamespaces(t)
			does := func(call, rule string) ended {
				if agent == "the root" {
					return w.does(call, "--allow", rule)
				}
				tasks, err := json.Marshal([]map[string]string{{"agent": "coder", "task": call}})
				require.NoError(t, err)
				return w.qq("batch", w.file("tasks.json", string(tasks)), "--no-bar", "--allow", rule)
			}
			e := does(shellCall("git log"), gitLog)
			assert.NotZero(t, e.code, "exit code")
			assert.Contains(t, e.stdout, "commands could write .git/config here, which says what git starts")
			e = does(shellCall("cat a.txt"), "run_pty_cmd(cat*)")
			assert.Equal(t, 0, e.code, "exit code")
			assert.Contains(t, e.stdout, "one")
		})
	}
}

// TestRuleSlips: what a rule for git log* does not let through. Nobody can be asked, so each is refused.
func TestRuleSlips(t *testing.T) {
	w := newRulesWorld(t)
	w.trap("git")
	w.trap("bin/git")
	w.env = append(w.env, "GIT_EXTERNAL_DIFF="+w.trap("diff.sh"), "GIT_PAGER="+w.trap("pager.sh"))
	for _, command := range []string{
		"git log; rm a.txt", "git log\nrm a.txt", "git log && touch f", "git log | tee f", "git log > f", "git log & touch f",
		"git log $(touch f)", "git log `touch f`", "git log <(touch f)", "X=1 git log", "git log $HOME", "git log *.txt",
		"(git log)", "{ git log; }", "! git log", "time git log", "\\git log", "/usr/bin/git log", "./git log", "bin/git log",
		"git log -p --output=f", "git log -p --outpu=f", "git log -p --output f", "git log -p --ext-diff", "git log --textconv",
		"git log -Of", "git diff --no-index /etc/passwd a.txt", "git log -- /etc/passwd", "git log ../x", "git log .env",
		"git -c core.pager=./pager.sh log", "git -C . log", "git --git-dir=.git log", "git --exec-path=. log", "git -p log",
		"git --config-env=core.pager=HOME log", "git status", "git logs", "eval git log", "exec git log", "command git log",
		"env git log", "sh -c 'git log'", "git log # x", "git log \x1b[2K", "git\tlog", "git log --show-signature",
	} {
		e := w.does(shellCall(command), "--allow", gitLog)
		assert.Equal(t, 1, e.code, "%q", command)
		assert.Contains(t, e.stdout, needsPerson, "%q", command)
	}
	w.unharmed()
	e := w.does(shellCall("git log -p"), "--allow", gitLog)
	assert.Contains(t, e.stdout, "+one")
	w.unharmed()
}

// TestRuleAndTheRepository: what a checkout brings starts nothing under a rule, and the refusal says why.
func TestRuleAndTheRepository(t *testing.T) {
	rules := []string{"--allow", gitLog, "--allow", "run_pty_cmd(git status*)", "--allow", "run_pty_cmd(git diff*)",
		"--allow", "run_pty_cmd(git commit*)", "--allow", "run_pty_cmd(git lg*)"}
	for _, trap := range []struct {
		name, command string
		set           func(w rulesWorld, trap string)
		why           string // empty: it runs and the trap is not sprung
	}{
		{"pager", "git log", func(w rulesWorld, trap string) { w.git("config", "core.pager", trap) },
			".git/config sets core.pager"},
		{"pager of log", "git log", func(w rulesWorld, trap string) { w.git("config", "pager.log", trap) },
			".git/config sets pager.log"},
		{"fsmonitor", "git status", func(w rulesWorld, trap string) { w.git("config", "core.fsmonitor", trap) },
			".git/config sets core.fsmonitor"},
		{"external diff", "git diff", func(w rulesWorld, trap string) { w.git("config", "diff.external", trap) },
			".git/config sets diff.external"},
		{"textconv", "git diff", func(w rulesWorld, trap string) {
			w.file(".gitattributes", "*.txt diff=x\n")
			w.git("config", "diff.x.textconv", trap)
		}, ".git/config sets diff.textconv"},
		{"alias", "git lg", func(w rulesWorld, trap string) { w.git("config", "alias.lg", "!"+trap) },
			".git/config sets alias.lg"},
		{"include", "git status", func(w rulesWorld, trap string) {
			w.file("more", "[core]\n\tfsmonitor = "+trap+"\n")
			w.git("config", "include.path", "../more")
		}, ".git/config sets include.path"},
		{"hook", "git commit -m x --allow-empty", func(w rulesWorld, trap string) {
			require.NoError(t, os.Rename(trap, filepath.Join(w.work, ".git/hooks/pre-commit")))
		}, ".git/hooks has the hook pre-commit"},
		{"hook of the index", "git status", func(w rulesWorld, trap string) {
			require.NoError(t, os.Rename(trap, filepath.Join(w.work, ".git/hooks/post-index-change")))
			w.file("b.txt", "same\n")
		}, ""},
		{"submodule", "git status", func(w rulesWorld, trap string) {
			w.git("init", "-q", "sub")
			w.git("-C", "sub", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "x")
			w.git("add", "sub")
			w.git("-C", "sub", "config", "core.fsmonitor", trap)
		}, ""},
		{"git in the folder", "git log", func(w rulesWorld, trap string) {
			require.NoError(t, os.Mkdir(filepath.Join(w.work, "bin"), 0o700))
			require.NoError(t, os.Rename(trap, filepath.Join(w.work, "bin/git")))
			w.env[0] = "PATH=" + w.work + "/bin:" + os.Getenv("PATH")
		}, "bin, which agents may change"},
		{"relative PATH", "git log", func(w rulesWorld, trap string) {
			require.NoError(t, os.Rename(trap, filepath.Join(w.work, "git")))
			w.env[0] = "PATH=.:" + os.Getenv("PATH")
		}, "git would be started from ., which agents may change"},
	} {
		t.Run(trap.name, func(t *testing.T) {
			w := newRulesWorld(t)
			trap.set(w, w.trap("trap.sh"))
			e := w.does(shellCall(trap.command), rules...)
			if trap.why == "" {
				assert.Equal(t, 0, e.code, "exit code")
			} else {
				assert.Equal(t, 1, e.code, "exit code")
				assert.Contains(t, e.stdout, needsPerson)
				assert.Contains(t, e.stdout, trap.why)
			}
			w.unharmed()
			if trap.name == "fsmonitor" || trap.name == "submodule" {
				w.does(shellCall(trap.command), "--allow", "run_pty_cmd")
				assert.FileExists(t, filepath.Join(w.work, "sprung"), "it is a trap: a shell springs it")
			}
		})
	}
}

// TestRuleDenies: a denying rule wins over all that allows, and refuses what may run what it names.
func TestRuleDenies(t *testing.T) {
	w := newRulesWorld(t)
	deny := []string{"--auto-approve", "--deny", "run_pty_cmd(git push*)", "--deny", "edit_file(secret/**)"}
	for _, command := range []string{"git push", "git -C . push --force", "sh -c 'git push'", "ls; git push", "$(echo git) push",
		"env git push", "env -S'git push'", "script -qc'git push' /dev/null", "echo push | xargs git",
		"echo git push | sh", "/usr/bin/git push", "g'i't push", "git 'push"} {
		e := w.does(shellCall(command), deny...)
		assert.Equal(t, 1, e.code, command)
		assert.Contains(t, e.stdout, "run_pty_cmd was refused: the rule run_pty_cmd(git push*) denies it", command)
	}
	assert.Contains(t, w.does(shellCall("git log --format=%s; echo it ran"), deny...).stdout, "it ran")

	w.file("secret/x", "one\n")
	edit := callOf("edit_file", map[string]string{"path": "secret/x", "old_text": "one", "new_text": "two"})
	e := w.does(edit, append(deny, "--allow", "edit_file")...)
	assert.Contains(t, e.stdout, "edit_file was refused: the rule edit_file(secret/**) denies it")
	assert.Equal(t, "one\n", w.files("work")["secret/x"])
}

func TestRuleForPaths(t *testing.T) {
	w := newRulesWorld(t)
	w.file("src/a/x", "one\n")
	w.file("src/b", "one\n")
	w.file("other/x", "one\n")
	w.file("src/.env", "one\n")
	require.NoError(t, os.Symlink("../other", filepath.Join(w.work, "src/link")))
	for path, want := range map[string]string{
		"src/a/x": "edited src/a/x", "other/../src/b": "edited src/b", "other/x": needsPerson,
		"src/../other/x": needsPerson, "src/link/x": needsPerson, "src/.env": "it needs an approval of its own",
	} {
		call := callOf("edit_file", map[string]string{"path": path, "old_text": "one", "new_text": "two"})
		assert.Contains(t, w.does(call, "--allow", "edit_file(src/**)").stdout, want, path)
	}
	wrote := w.files("work")
	assert.Equal(t, "two\n", wrote["src/a/x"])
	assert.Equal(t, "one\n", wrote["other/x"])
	assert.Equal(t, "one\n", wrote["src/.env"])

	tasks, err := json.Marshal([]map[string]string{
		{"agent": "coder", "working_dir": "src", "task": callOf("create_file", map[string]string{"path": "new", "content": "x"})},
		{"agent": "coder", "working_dir": "other", "task": callOf("create_file",
			map[string]string{"path": "src/new", "content": "x"})},
	})
	require.NoError(t, err)
	e := w.qq("batch", w.file("tasks.json", string(tasks)), "--no-bar", "--allow", "create_file(src/**)")
	assert.Equal(t, 4, e.code, "exit code")
	assert.Equal(t, "x", w.files("work")["src/new"], "a rule names paths of the run, whatever the folder of the child")
	assert.NotContains(t, w.files("work"), "other/src/new")
}

func TestRuleForHosts(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "from elsewhere", r.URL.RawQuery)
	}))
	defer other.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/out" {
			http.Redirect(w, r, other.URL+"?secret", http.StatusFound)
			return
		}
		fmt.Fprintln(w, "from the page")
	}))
	defer page.Close()
	host := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	w := newRulesWorld(t, "QQ_WEB_ALLOW=127.0.0.1")
	fetch := func(url string) ended {
		return w.qq("-a", "researcher", callOf("web_fetch", map[string]string{"url": url}), "--allow",
			"web_fetch("+host(page)+")")
	}
	assert.Contains(t, fetch(page.URL+"/x").stdout, "from the page")
	assert.Contains(t, fetch(other.URL).stdout, needsPerson)
	e := fetch(page.URL + "/out")
	assert.NotContains(t, e.stdout, "from elsewhere")
	assert.Contains(t, e.stdout, "redirected to "+other.URL)
}

// TestWrongRules: a rule that cannot be read is a usage error that names it, before anything starts.
func TestWrongRules(t *testing.T) {
	w := newRulesWorld(t)
	const accepted = "\n  hint: accepted is TOOL or TOOL(PATTERN), such as run_pty_cmd(git log*), edit_file(src/**) or "
	for rule, want := range map[string]string{
		"run_pty_cmd(git log; ls)": `QQ_ALLOW (flag --allow) has the rule "run_pty_cmd(git log; ls)": its pattern must be ` +
			"literal words, with a * at the end for more of them: it is not one command" + accepted,
		"run_pty_cmd(git * log)":  "a word of it is not literal" + accepted,
		"edit_file(/etc/*)":       "its path is not relative to the working directory and inside of it" + accepted,
		"list_files(x)":           "list_files takes no pattern" + accepted,
		"web_fetch(https://x.y)":  "its pattern is no host",
		"run_pty_cmd(git":         "a parenthesis or a quote is not closed\n  hint: accepted is TOOL or TOOL(PATTERN) between commas",
		"Bash(git log*)":          "names \"Bash\", which is no tool\n  hint: did you mean run_pty_cmd?",
		"zzzzzzzzzzzzzz(git log)": "hint: the tools are: read_file, ",
	} {
		e := w.does("x", "--allow", rule)
		assert.Equal(t, 2, e.code, rule)
		assert.Contains(t, e.stderr, want, rule)
	}
	e := w.does("x", "--deny", "run_pty_cmd(ls >f)")
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.stderr, `QQ_DENY (flag --deny) has the rule "run_pty_cmd(ls >f)"`)
	assert.Empty(t, w.server.Requests("/api/chat"), "nothing was started")
	assert.Contains(t, w.does(shellCall("true"), "--allow", "run_pty_cmd(env *)").stderr,
		"the rule run_pty_cmd(env *) allows any program, because env runs what its arguments name")
}

// row is a line of qq permissions list --json.
type row struct {
	Number              int
	Folder, Rule, Added string
}

func (w rulesWorld) permissions() (rows []row) {
	w.t.Helper()
	e := w.qq("permissions", "list", "--json")
	assert.Equal(w.t, 0, e.code)
	require.NoError(w.t, json.Unmarshal([]byte(e.stdout), &rows), e.stdout)
	return rows
}

// TestLastingRules: the fourth answer makes a rule for exactly this call in this folder.
func TestLastingRules(t *testing.T) {
	w := newRulesWorld(t)
	real, err := filepath.EvalSymlinks(w.work)
	require.NoError(t, err)
	call := shellCall("git  log --format='%s of %an'")
	q := w.onTerminal("-a", "coder", call)
	asked := q.answer(1, "f")
	assert.Contains(t, asked, "always in this [f]older (run_pty_cmd(git log '--format=%s of %an')), ")
	e := q.wait()
	assert.Equal(t, 0, e.code)
	assert.Contains(t, e.stdout, "the first commit of a")

	file := filepath.Join(w.dir, "config/qq/permissions.json")
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	rows := w.permissions()
	require.Len(t, rows, 1)
	assert.NotEmpty(t, rows[0].Added)
	rows[0].Added = ""
	assert.Equal(t, row{Number: 1, Folder: real, Rule: "run_pty_cmd(git log '--format=%s of %an')"}, rows[0])
	assert.Contains(t, w.qq("permissions").stdout, real+"  run_pty_cmd(git log '--format=%s of %an')")

	assert.Contains(t, w.does(call).stdout, "the first commit of a", "also without a terminal")
	assert.Contains(t, w.does(shellCall("git log")).stdout, needsPerson, "exactly this call")
	assert.Contains(t, w.does(call, "--deny", "run_pty_cmd(git log*)").stdout, "denies it", "denying wins")
	require.NoError(t, os.Mkdir(filepath.Join(w.work, "sub"), 0o700))
	assert.Contains(t, w.does(call, "-C", "sub").stdout, needsPerson, "only in this folder")
	w.git("config", "core.pager", w.trap("trap.sh"))
	assert.Contains(t, w.does(call).stdout, "sets core.pager", "as with any rule")
	w.unharmed()

	edit := callOf("edit_file", map[string]string{"path": "b.txt", "old_text": "same", "new_text": "other"})
	q = w.onTerminal("-a", "coder", edit)
	assert.Contains(t, q.answer(1, "folder"), "always in this [f]older (edit_file(b.txt)), ")
	q.wait()
	assert.Equal(t, "other\n", w.files("work")["b.txt"])

	e = w.qq("permissions", "rm", "3")
	assert.Equal(t, 2, e.code)
	assert.Equal(t, "qq: there is no lasting rule \"3\"\n  hint: qq permissions list shows them\n", e.stderr)
	e = w.qq("permissions", "rm", "1", "edit_file(b.txt)")
	assert.Equal(t, 0, e.code)
	assert.Contains(t, e.stderr, "removed: edit_file(b.txt) in "+real)
	assert.Empty(t, w.permissions())
	w.git("config", "--unset", "core.pager")
	assert.Contains(t, w.does(call).stdout, needsPerson)
	assert.Equal(t, 2, w.qq("permissions", "rm").code)
	assert.Equal(t, 2, w.qq("permissions", "clear").code)
}

// TestNoLastingRule: what no rule can say exactly is not offered, and a checkout brings no rules.
func TestNoLastingRule(t *testing.T) {
	w := newRulesWorld(t)
	w.file(".env.local", "secret\n")
	for _, call := range []string{shellCall("git log; ls"), shellCall("git log *"),
		callOf("read_file", map[string]string{"path": ".env.local"})} {
		q := w.onTerminal("-a", "coder", call)
		q.answer(1, "f")
		assert.NotContains(t, q.answer(2, "n"), "asks", "f is no answer")
		assert.NotContains(t, q.wait().stderr, "[f]older")
	}
	assert.Empty(t, w.permissions())

	rule := fmt.Sprintf(`{"rules":[{"folder":%q,"rule":"run_pty_cmd"}]}`, w.work)
	w.file(".config/qq/permissions.json", rule)
	w.env = append(w.env, "XDG_CONFIG_HOME="+filepath.Join(w.work, ".config"))
	assert.Contains(t, w.does(shellCall("touch f")).stdout, needsPerson)
	w.unharmed()
	q := w.onTerminal("-a", "coder", shellCall("ls"))
	assert.NotContains(t, q.answer(1, "n"), "[f]older")
	q.wait()

	w.env = append(w.env, "XDG_CONFIG_HOME="+filepath.Join(w.dir, "config"))
	file := filepath.Join(w.dir, "config/qq/permissions.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(rule), 0o666))
	require.NoError(t, os.Chmod(file, 0o666))
	e := w.does(shellCall("touch f"))
	assert.Contains(t, e.stdout, needsPerson)
	assert.Contains(t, e.stderr, "is not a file that only you can write: no lasting rule counts\n  hint: chmod 600 ")
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	require.NoError(t, os.Chmod(file, 0o600))
	assert.Contains(t, w.does(shellCall("touch f")).stderr, "is damaged: no lasting rule counts")
	e = w.qq("permissions", "list")
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.stderr, "is damaged: no lasting rule counts\n  hint: mend it, or remove it")
	w.unharmed()
}

// TestRestrictedAgent: Bash(git log:*) of an agent file of another CLI restricts that agent, and allows nothing.
func TestRestrictedAgent(t *testing.T) {
	w := newRulesWorld(t)
	w.file(".claude/agents/historian.md", "---\nname: historian\ndescription: d\n"+
		"tools: Bash(git log:*), Read(./docs/**), Edit\ndisallowedTools: Edit(docs/secret/**)\n---\nLook.\n")
	w.file("docs/a", "the document\n")
	w.file("docs/secret/a", "one\n")
	as := func(call string, args ...string) string {
		return w.qq(append([]string{"-a", "historian", call}, args...)...).stdout
	}
	const only = "the definition of this agent gives it only run_pty_cmd(git log *)"
	assert.Contains(t, as(shellCall("git log")), needsPerson, "a definition allows nothing")
	assert.Contains(t, as(shellCall("git log --format=%s"), "--auto-approve"), "the first commit")
	for _, command := range []string{"git status", "git log; ls", "git log -p --output=f", "sh -c 'git log'"} {
		assert.Contains(t, as(shellCall(command), "--auto-approve"), only, command)
	}
	w.git("config", "core.pager", w.trap("trap.sh"))
	assert.Contains(t, as(shellCall("git log"), "--auto-approve"), only+" (")
	w.unharmed()

	read := func(path string) string { return callOf("read_file", map[string]string{"path": path}) }
	assert.Contains(t, as(read("docs/a")), "the document")
	assert.Contains(t, as(read("a.txt")), "the definition of this agent gives it only read_file(docs/**)")
	edit := callOf("edit_file", map[string]string{"path": "docs/secret/a", "old_text": "one", "new_text": "two"})
	assert.Contains(t, as(edit, "--auto-approve"), "the definition of this agent takes edit_file(docs/secret/**) from it")

	w.file(".claude/agents/boss.md", "---\nname: boss\ndescription: d\ntools: Task\ndisallowedTools: Bash(rm:*)\n---\nAsk.\n")
	e := w.qq("-a", "boss", "--auto-approve",
		callOf("delegate_task", map[string]string{"agent": "coder", "task": shellCall("ls; rm a.txt")}))
	assert.Contains(t, e.stdout, "the rule run_pty_cmd(rm *) denies it", "also for the agents below")
	w.unharmed()

	shown := w.qq("agents", "show", "historian").stdout
	assert.Contains(t, shown, "run_pty_cmd(git log *), read_file(docs/**)")
	assert.Contains(t, shown, "edit_file(docs/secret/**)")
	w.file(".claude/agents/odd.md", "---\nname: odd\ndescription: d\ntools: Bash(git log && rm:*)\n---\nLook.\n")
	e = w.qq("agents", "check", "odd")
	assert.Contains(t, e.stdout, "warning: ")
	assert.Contains(t, e.stdout, "run_pty_cmd(git log && rm *)")
	assert.Contains(t, w.qq("-a", "odd", shellCall("git log"), "--auto-approve").stdout, "gives it only")
}
