package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// workPlaces are the two agents that run commands: the root's own, which
// confines each command, and a child, which confines itself.
var workPlaces = []string{"root", "child"}

// workShell has an executor run commands, at the root or as its child, each in a
// call of its own, and returns what they answered. between, if it is not nil, is
// called when the command before has ended. At the end of the run of the
// executor, ended is called.
type workShell struct {
	place    string
	readOnly bool
	env      []string
	between  func(answers []string)
	ended    func(answers []string)
}

func (s workShell) run(t *testing.T, w *world, m *workModel, commands []string) []string {
	t.Helper()
	var answers []string
	m.agents["run"] = func(_ context.Context, k workTalk) api.Message {
		answers = k.results()
		if s.between != nil {
			s.between(answers)
		}
		if len(answers) == len(commands) {
			return api.Message{Role: "assistant", Content: "All were run."}
		}
		return workAsk(workCall("run_pty_cmd", "command", commands[len(answers)]))
	}
	m.agents["lead"] = workSteps(
		workDo(workCall("delegate_task", "agent", "executor", "task", "Run them. [[run]]", "read_only", s.readOnly)),
		func(_ context.Context, k workTalk) api.Message {
			assert.True(t, strings.HasPrefix(k.last().Content, "All were run."), k.last().Content) // warnings may follow
			if s.ended != nil {
				s.ended(answers)
			}
			return api.Message{Role: "assistant", Content: "All were run."}
		})
	args := []string{"Delegate. [[lead]]", "--auto-approve"}
	if s.place == "root" {
		args = []string{"Run. [[run]]", "--auto-approve", "--agent", "executor"}
		if s.readOnly {
			args = append(args, "--read-only")
		}
	}
	w.env = append(w.env, s.env...)
	w.qq(args...).answered("All were run.")
	if s.place == "root" && s.ended != nil {
		s.ended(answers)
	}
	require.Len(t, answers, len(commands))
	return answers
}

// newWorkShellWorld is a world in which commands are run. Where the kernel has no
// Landlock that keeps files from being emptied, the test is skipped.
func newWorkShellWorld(t *testing.T) (*world, *workModel) {
	t.Helper()
	const createRuleset, version = 444, 1 // the same on all architectures
	if abi, _, errno := syscall.Syscall(createRuleset, 0, 0, version); errno != 0 || abi < 3 {
		t.Skipf("Landlock ABI %d (%v): this kernel cannot keep a command from writing", abi, errno)
	}
	m := workPlay(t, map[string]workAgent{})
	w := newWorld(t, m.addr, played)
	w.file(".qq/agents/executor.md",
		"---\nname: executor\ndescription: runs commands\ntools: [run_pty_cmd]\nmax_turns: 100\n---\n"+
			"You run commands.\n")
	require.Equal(t, 0, w.qq("trust", "--yes").code, "it replaces a built-in agent")
	return w, m
}

// workBreakouts are ways to change a file. $T is the file, $L a link to it, $F
// another file that may be used up. The command waits for what it starts in the
// background, for that is ended with it.
var workBreakouts = []struct{ name, command string }{
	{"redirection", `echo changed > "$T"`},
	{"appending", `echo changed >> "$T"`},
	{"another shell", `sh -c 'echo changed > "$0"' "$T"`},
	{"a program", `echo changed | tee "$T"`},
	{"emptying", `truncate -s 0 "$T"`},
	{"a link", `echo changed > "$L"`},
	{"a link of its own", `ln -s "$T" "$F.link" && echo changed > "$F.link"`},
	{"a hard link", `ln "$T" "$F.hard" && echo changed > "$F.hard"`},
	{"a descriptor", `exec 3< "$T" && echo changed > /proc/self/fd/3`},
	{"a root of its own", `echo changed > "/proc/self/root$T"`},
	{"the background", `(sleep 0.1; echo changed > "$T") & wait`},
	{"a session of its own", `setsid sh -c 'sleep 0.1; echo changed > "$0"' "$T" & wait`},
	{"renaming over it", `mv -f "$F" "$T"`},
	{"deleting", `rm -f "$T"`},
	{"replacing", `rm -f "$T"; cp "$F" "$T"`},
	{"mode", `chmod 0777 "$T"`},
	{"time", `touch -d '2001-01-01' "$T"`},
}

// workCanary is a file that is watched.
type workCanary struct {
	t    *testing.T
	path string
	was  string
}

func newWorkCanary(t *testing.T, path string) *workCanary {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("canary\n"), 0o600))
	c := &workCanary{t: t, path: path}
	c.was = c.is()
	return c
}

// is says all about the file: which one it is, its mode, time, links, content.
func (c *workCanary) is() string {
	c.t.Helper()
	info, err := os.Lstat(c.path)
	if os.IsNotExist(err) {
		return "gone"
	}
	require.NoError(c.t, err)
	content, err := os.ReadFile(c.path)
	require.NoError(c.t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("inode %d, %v, %v, %d names, %q", stat.Ino, info.Mode(), info.ModTime(), stat.Nlink, content)
}

// TestBreakout: by no means does a command of an agent that may only read change
// a file, in its working directory or outside of it. The same commands of an
// agent that may write do change files in its working directory, so they are
// real attempts; outside of it they change none.
func TestBreakout(t *testing.T) {
	for _, place := range workPlaces {
		for _, readOnly := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, read only %t", place, readOnly), func(t *testing.T) {
				w, m := newWorkShellWorld(t)
				var commands []string
				var canaries []*workCanary
				for i, b := range workBreakouts {
					for _, at := range []string{w.work, filepath.Join(w.dir, "outside")} {
						if at != w.work && !readOnly && (b.name == "mode" || b.name == "time") {
							at = w.work // that is not promised
						}
						target := filepath.Join(at, fmt.Sprintf("canary-%d-%d", i, len(commands)))
						canaries = append(canaries, newWorkCanary(t, target))
						spare := fmt.Sprintf("spare-%d", len(commands))
						require.NoError(t, os.Symlink(target, w.file(spare, "changed\n")+".there"))
						commands = append(commands, fmt.Sprintf("T='%s' F='%s' L='%s.there'\n%s", target, spare, spare,
							b.command))
					}
				}
				answers := workShell{place: place, readOnly: readOnly}.run(t, w, m, commands)
				for i, c := range canaries {
					b := workBreakouts[i/2]
					if readOnly || filepath.Dir(c.path) != w.work {
						assert.Equal(t, c.was, c.is(), "%s: %s: %s", b.name, b.command, answers[i])
					} else {
						assert.NotEqual(t, c.was, c.is(), "%s: nothing was changed, so this attempt shows nothing: %s",
							b.name, answers[i])
					}
				}
			})
		}
	}
}

// TestWritable: a command of a writing agent writes in its working directory, in
// its temporary folder, which goes with the agent, and in the folders that were
// allowed, and neither beside nor at home.
func TestWritable(t *testing.T) {
	for _, place := range workPlaces {
		t.Run(place, func(t *testing.T) {
			w, m := newWorkShellWorld(t)
			more := filepath.Join(w.dir, "more")
			require.NoError(t, os.Mkdir(more, 0o700))
			var temp string
			s := workShell{place: place, env: []string{"QQ_WRITABLE=" + more}}
			s.between = func(answers []string) {
				if len(answers) == 2 {
					temp, _, _ = strings.Cut(answers[1], "\n")
					assert.FileExists(t, filepath.Join(temp, "f"), "while the agent is at work")
				}
			}
			s.ended = func([]string) { assert.NoDirExists(t, temp, "when the agent has ended") }
			answers := s.run(t, w, m, []string{
				"mkdir -p sub && echo x > sub/f",
				`echo "$TMPDIR" && echo x > "$TMPDIR/f" && mktemp -d`,
				"echo x > " + more + "/f",
				"echo x > ../beside",
				`echo "$HOME" && echo x > "$HOME/f"`,
				"echo x > " + w.dir + "/tmp/f",
			})
			for i, answer := range answers {
				assert.Equal(t, i < 3, strings.HasSuffix(answer, "[exit code 0]"), answer)
			}
			for _, path := range []string{w.work + "/sub/f", more + "/f"} {
				assert.FileExists(t, path)
			}
			for _, path := range []string{"beside", "home/f", "tmp/f"} {
				assert.NoFileExists(t, filepath.Join(w.dir, path))
			}
			assert.Contains(t, answers[4], w.dir+"/home\n")
		})
	}
}

// TestLeftRunning: what a command left behind is gone when the command has
// ended, not only when the agent has.
func TestLeftRunning(t *testing.T) {
	for _, place := range workPlaces {
		t.Run(place, func(t *testing.T) {
			w, m := newWorkShellWorld(t)
			sleeper := newWorkSleeper(t)
			s := workShell{place: place, between: func([]string) { sleeper.assertGone() }}
			var commands []string
			for _, start := range []string{
				`setsid "$S" 300 & "$S" 300 &`,
				`(setsid sh -c '(setsid "$0" 300 &); "$0" 300' "$S" &)`, // from shells of which one has ended
			} {
				commands = append(commands, fmt.Sprintf("S=%s\n%s\n%s", sleeper.path, start,
					`until [ "$(readlink /proc/[0-9]*/exe | grep -c "^$S$")" = 2 ]; do sleep 0.01; done; echo started`))
			}
			// A command has a PID namespace, which takes along without counting.
			answers := s.run(t, w, m, commands)
			for _, answer := range answers {
				assert.Equal(t, "started\n[exit code 0]", answer)
			}
		})
	}
}

// TestCommandEnvironment: a command inherits no secrets and finds none in the
// processes around it, and nothing that makes a program ask or page.
func TestCommandEnvironment(t *testing.T) {
	for _, place := range workPlaces {
		t.Run(place, func(t *testing.T) {
			w, m := newWorkShellWorld(t)
			const secret = "canary-3f9d1c77e2"
			s := workShell{place: place, env: []string{"FAKE_API_KEY=" + secret, "PAGER=less", "HARMLESS=yes", "TMUX=/x,1,0",
				"TMUX_PANE=%0", "STY=1.x", "DISPLAY=:0"}}
			commands := []string{"env", "test -t 1 && test -t 2 && ! read line && echo no input",
				`cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -a FAKE_API; echo looked`}
			answers := s.run(t, w, m, commands)
			assert.Contains(t, answers[0], "PAGER=cat\n")
			assert.Contains(t, answers[0], "HARMLESS=yes\n")
			assert.Contains(t, answers[0], "QQ_RECURSION_DEPTH=1")
			assert.NotRegexp(t, `(?m)^(TMUX|STY|DISPLAY)`, answers[0], "servers that act for others")
			assert.NotContains(t, answers[0], "GOMAXPROCS", "what a child was started with is not for its commands")
			for _, answer := range answers {
				assert.NotContains(t, answer, "FAKE_API_KEY")
				assert.NotContains(t, answer, secret)
			}
			assert.Equal(t, "no input\n[exit code 0]", answers[1])
		})
	}
}

// TestWholeOutput: the model reads the beginning and the end of a long output,
// and is told which part of which file has all of it.
func TestWholeOutput(t *testing.T) {
	for _, place := range workPlaces {
		for _, readOnly := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, read only %t", place, readOnly), func(t *testing.T) {
				w, m := newWorkShellWorld(t)
				answers := workShell{place: place, readOnly: readOnly}.run(t, w, m,
					[]string{"echo before", "seq 1 50000"})
				found := regexp.MustCompile(`\n\[\d+ characters are left out here; the whole output is in (.+), ` +
					`bytes (\d+)-(\d+)\]\n`).FindStringSubmatch(answers[1])
				require.NotNil(t, found, "%.300s", answers[1])
				assert.Equal(t, filepath.Join(w.dir, "qq", "outputs"), filepath.Dir(found[1]))
				all, err := os.ReadFile(found[1])
				require.NoError(t, err)
				from, err := strconv.Atoi(found[2])
				require.NoError(t, err)
				to, err := strconv.Atoi(found[3])
				require.NoError(t, err)
				var want strings.Builder
				for i := range 50000 {
					fmt.Fprintln(&want, i+1)
				}
				assert.True(t, want.String() == string(all[from-1:to]), "the whole output")
				assert.True(t, strings.HasPrefix(answers[1], "1\n2\n3\n"))
				assert.True(t, strings.HasSuffix(answers[1], "\n49999\n50000\n[exit code 0]"))
				assert.Less(t, len(answers[1]), 32_000)
			})
		}
	}
}

// TestChangedFiles: what a child changed before it was ended is in its result,
// and in that of its parent.
func TestChangedFiles(t *testing.T) {
	for _, tt := range []struct {
		name, status string
		kill         bool
	}{
		{"timeout", "timeout", false},
		{"killed", "unknown_outcome", true}, // it has written
	} {
		t.Run(tt.name, func(t *testing.T) {
			hangs := make(chan struct{})
			m := workPlay(t, map[string]workAgent{
				"edit": workSteps(
					workDo(workCall("edit_file", "path", "a.txt", "old_text", "one", "new_text", "two"),
						workCall("create_file", "path", "sub/b.txt", "content", "new\n")),
					workHang(hangs)),
				"lead": workSteps(
					workDo(workCall("run_parallel_tasks", "tasks",
						[]any{map[string]any{"agent": "coder", "task": "Edit. [[edit]]"}})),
					func(_ context.Context, k workTalk) api.Message {
						for _, r := range workResults(t, k.last().Content) {
							assert.Equal(t, tt.status, r.Status)
							assert.Equal(t, []string{"a.txt", "sub/b.txt"}, r.ChangedFiles)
							return api.Message{Role: "assistant", Content: "It did not end."}
						}
						return api.Message{}
					}),
			})
			w := newWorld(t, m.addr, played, "QQ_CHILD_TIMEOUT="+map[bool]string{false: "2", true: "60"}[tt.kill])
			w.file("a.txt", "one\n")
			began := time.Now()
			q := w.start("", "Delegate. [[lead]]", "--auto-approve", "--json")
			receive(t, hangs)
			if tt.kill {
				for _, pid := range w.processes() {
					if pid != q.cmd.Process.Pid {
						require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
					}
				}
			}
			e := q.wait()
			r := e.json()
			assert.Equal(t, 0, e.code)
			assert.Equal(t, "It did not end.", *r.Output)
			assert.Less(t, time.Since(began), 10*time.Second)
			content, err := os.ReadFile(filepath.Join(w.work, "a.txt"))
			require.NoError(t, err)
			assert.Equal(t, "two\n", string(content))
			assert.Contains(t, e.stdout, `"changed_files":["a.txt","sub/b.txt"]`)
		})
	}
}
