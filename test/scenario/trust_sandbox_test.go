package scenario

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sandboxModes are who runs qq, and what the system allows: root, an ordinary user, and one where nobody gets a
// namespace, as in most containers.
var sandboxModes = []string{"root", "user", "no namespaces"}

const sandboxUser = 65534

// sandboxWorld is a world for one of the modes. setup plants files in it.
func sandboxWorld(t *testing.T, mode string, setup func(w *world)) (*world, *workModel) {
	t.Helper()
	if os.Getuid() != 0 && mode != "no namespaces" {
		if mode == "root" {
			t.Skip("needs root")
		}
	} else if mode == "no namespaces" {
		sandboxNoNamespaces(t)
	}
	w, m := newWorkShellWorld(t)
	setup(w)
	if mode == "user" && os.Getuid() == 0 {
		w.uid = sandboxUser
		for _, dir := range []string{house.dir, filepath.Dir(w.dir)} {
			require.NoError(t, os.Chmod(dir, 0o755))
		}
		require.NoError(t, os.Chmod(w.bin, 0o755))
		require.NoError(t, filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, sandboxUser, sandboxUser))
		}))
	}
	return w, m
}

// sandboxNoNamespaces makes the kernel one that makes no namespaces and no mounts for what this test starts from its own
// goroutine, like withoutLandlock. Forks without namespaces work.
func sandboxNoNamespaces(t *testing.T) {
	t.Helper()
	const (
		noNewPrivs, setSeccomp, byFilter = 38, 22, 2
		refuse, absent, allow            = 0x00050000 | uint32(syscall.EPERM), 0x00050000 | uint32(syscall.ENOSYS), 0x7fff0000
		clone3                           = 435
		namespaces                       = 0x7e020000 // NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
	)
	when := func(nr uint32, then ...syscall.SockFilter) []syscall.SockFilter {
		return append([]syscall.SockFilter{{Code: syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, K: nr,
			Jf: uint8(len(then))}}, then...)
	}
	give := func(k uint32) syscall.SockFilter {
		return syscall.SockFilter{Code: syscall.BPF_RET | syscall.BPF_K, K: k}
	}
	flagged := []syscall.SockFilter{
		{Code: syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS, K: 16},
		{Code: syscall.BPF_JMP | syscall.BPF_JSET | syscall.BPF_K, K: namespaces, Jf: 1},
		give(refuse), give(allow),
	}
	filter := []syscall.SockFilter{{Code: syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS}}
	filter = append(filter, when(syscall.SYS_CLONE, flagged...)...)
	filter = append(filter, when(clone3, give(absent))...)
	for _, nr := range []uint32{syscall.SYS_UNSHARE, syscall.SYS_MOUNT, 428, 429, 442} {
		filter = append(filter, when(nr, give(refuse))...)
	}
	filter = append(filter, give(allow))
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // and never unlocked
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivs, 1, 0, 0, 0, 0)
	require.Zero(t, errno)
	_, _, errno = syscall.RawSyscall(syscall.SYS_PRCTL, setSeccomp, byFilter, uintptr(unsafe.Pointer(&program)))
	require.Zero(t, errno, "filter system calls")
	require.ErrorIs(t, syscall.Unshare(syscall.CLONE_NEWNS), syscall.EPERM)
}

// git runs git in the working directory of the world.
func (w *world) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"},
		args...)...)
	cmd.Dir = w.work
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, "git %q: %s", args, out)
	return string(out)
}

// sandboxEverywhere runs a test in each mode, at the root and in a child.
func sandboxEverywhere(t *testing.T, test func(t *testing.T, mode, place string)) {
	for _, mode := range sandboxModes {
		for _, place := range workPlaces {
			t.Run(mode+", "+place, func(t *testing.T) { test(t, mode, place) })
		}
	}
}

// sandboxAttacks are commands that make programs of the user do what the command wants, later and outside of the
// sandbox. They succeed in a folder of a version without protection.
var sandboxAttacks = []string{
	"git config core.fsmonitor 'touch pwned'",
	"printf '#!/bin/sh\\ntouch pwned\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
	"echo '[core] fsmonitor = touch pwned' >> .git/config",
	"cp .git/config c && git config -f c core.pager x && mv c .git/config",
	"echo /tmp > .git/commondir",
	"echo 'PATH=.' > .env",
	"echo x > .env.local",
	"echo 'touch pwned' > .envrc",
	"mkdir -p .vscode && echo '{}' > .vscode/tasks.json",
	"mkdir -p .husky && echo 'touch pwned' > .husky/pre-commit",
	"mkdir -p .github/workflows && echo x > .github/workflows/ci.yml",
	"echo '{}' > .mcp.json",
	"mkdir -p .qq/agents && echo x > .qq/agents/default.md",
	"mkdir -p .claude && echo '{}' > .claude/settings.json",
	"mkdir -p .agents/agents && echo x > .agents/agents/default.md",
	"echo x > lib/.git/config",
	"mv lib away && mkdir -p lib/.git && echo x > lib/.git/config && rm -r away",
	"mv .qq .old && mkdir -p .qq/agents && echo x > .qq/agents/executor.md",
	"mv .git .old; mkdir -p .git; echo x > .git/config",
	"rm -rf .vscode lib/.git/config",
}

// TestSandboxObeyedFiles: what programs obey is as before, in the working directory and in folders below, or the
// change is listed in changed_files and warnings. Nothing of qq's own is left.
func TestSandboxObeyedFiles(t *testing.T) {
	sandboxEverywhere(t, func(t *testing.T, mode, place string) {
		w, m := sandboxWorld(t, mode, func(w *world) {
			w.git("init", "-q")
			w.file("f", "one\n")
			w.git("add", "f")
			w.git("commit", "-qm", "first")
			w.file("lib/.git/config", "[core]\n")
			w.file("lib/f", "f\n")
		})
		var before []string
		attacks := sandboxAttacks
		if mode == "no namespaces" { // a repository that was removed cannot be put back, but that is reported
			attacks = attacks[:len(attacks)-4]
		}
		before = w.obeyed()
		s := workShell{place: place}
		s.between = func(answers []string) {
			if n := len(answers); n > 0 {
				assert.Equal(t, before, w.obeyed(), "%s: %s", attacks[n-1], answers[n-1])
			}
		}
		answers := s.run(t, w, m, attacks)
		for i, answer := range answers {
			if mode != "no namespaces" && !strings.Contains(attacks[i], ".env.local") {
				assert.NotContains(t, answer, "[exit code 0]", attacks[i])
			} else {
				assert.Contains(t, answer, "is not for commands to write", attacks[i])
			}
		}
		w.git("status")
		assert.NoFileExists(t, filepath.Join(w.work, "pwned"))
	})
}

// obeyed describes all files of the working directory that programs obey.
func (w *world) obeyed() (lines []string) {
	w.t.Helper()
	require.NoError(w.t, filepath.WalkDir(w.work, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(w.work, path)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		switch {
		case strings.Contains(rel, ".refused-"), !strings.Contains("/"+rel, "/."):
			return nil
		case strings.Contains(rel, ".git/") && !strings.Contains(rel, "config") && !strings.Contains(rel, "hooks") &&
			!strings.Contains(rel, "commondir"), strings.HasSuffix(rel, ".sample"):
			return nil
		case d.IsDir():
			lines = append(lines, rel+"/")
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		lines = append(lines, fmt.Sprintf("%s %v %q", rel, info.Mode(), text))
		return err
	}))
	return lines
}

// TestSandboxReported: a change of obeyed files that stays is in changed_files and in warnings; so is one that was put
// back.
func TestSandboxReported(t *testing.T) {
	sandboxEverywhere(t, func(t *testing.T, mode, place string) {
		w, m := sandboxWorld(t, mode, func(w *world) { w.file("f", "") })
		m.agents["run"] = workSteps(
			workDo(workCall("run_pty_cmd", "command", "mkdir -p new/.git && echo x > new/.git/config; echo x > .env.local")),
			workText("Done."))
		e := w.qq("Run. [[run]]", "--auto-approve", "--agent", "executor", "--json")
		if place == "child" {
			require.NoError(t, os.RemoveAll(filepath.Join(w.work, "new")))
			m.agents["lead"] = workSteps(workDo(workCall("delegate_task", "agent", "executor", "task", "Run. [[run]]")),
				workText("Done."))
			e = w.qq("Delegate. [[lead]]", "--auto-approve", "--json")
		}
		changed := strings.Join(e.changed(), " ")
		assert.Contains(t, changed, "new/.git")
		assert.Regexp(t, ` env\.local\.refused-\w{6}|^env\.local\.refused-\w{6}`, changed)
		if place == "root" {
			assert.Contains(t, e.stdout, "new/.git is new since the command began, and programs obey it")
			assert.Contains(t, e.stdout, ".env.local is not for commands to write")
		}
		assert.NoFileExists(t, filepath.Join(w.work, ".env.local"))
	})
}

// TestSandboxGit: what reads a repository works; a commit works where a person allows it, and only then.
func TestSandboxGit(t *testing.T) {
	sandboxEverywhere(t, func(t *testing.T, mode, place string) {
		for _, allowed := range []bool{false, true} {
			t.Run(fmt.Sprintf("allowed %t", allowed), func(t *testing.T) {
				w, m := sandboxWorld(t, mode, func(w *world) {
					w.git("init", "-q")
					w.file("f", "one\n")
					w.git("add", "f")
					w.git("commit", "-qm", "first")
					w.file("f", "two\n")
				})
				s := workShell{place: place}
				if allowed {
					s.env = []string{"QQ_WRITABLE=.git"}
				}
				const id = "git -c user.name=a -c user.email=a@b "
				answers := s.run(t, w, m, []string{
					"git status --short; git diff --stat; git log --oneline",
					id + "commit -qam second && git log --oneline | wc -l",
					"git config core.fsmonitor x",
				})
				assert.Contains(t, answers[0], " M f\n")
				assert.Contains(t, answers[0], "1 file changed")
				assert.Contains(t, answers[0], " first\n[exit code 0]")
				assert.Equal(t, allowed || mode == "no namespaces", strings.Contains(answers[1], "2\n[exit code 0]"), answers[1])
				if !allowed && mode != "no namespaces" {
					assert.Contains(t, answers[1], "QQ_WRITABLE=.git lets them commit")
				}
				assert.NotContains(t, w.git("config", "--local", "--list"), "fsmonitor")
			})
		}
	})
}

// TestSandboxWorktree: of a worktree too, whose repository is outside of the working directory.
func TestSandboxWorktree(t *testing.T) {
	for _, mode := range sandboxModes[:2] {
		for _, place := range workPlaces {
			t.Run(mode+", "+place, func(t *testing.T) {
				w, m := sandboxWorld(t, mode, func(w *world) {
					main := filepath.Join(w.dir, "main")
					work := w.work
					require.NoError(t, os.Rename(work, main))
					w.work = main
					w.git("init", "-q")
					w.git("add", ".")
					w.git("commit", "-qm", "first")
					w.git("worktree", "add", "-q", work)
					w.work = work
					w.file("f", "two\n")
				})
				const id = "git -c user.name=a -c user.email=a@b "
				s := workShell{place: place, env: []string{"QQ_WRITABLE=.git"}}
				hook := filepath.Join(w.dir, "main/.git/hooks/pre-commit")
				answers := s.run(t, w, m, []string{id + "add f && " + id + "commit -qm second && git log --oneline | wc -l",
					"git config core.fsmonitor x", "echo gitdir: /tmp > .git", "echo x > " + hook,
					"echo /tmp > ../main/.git/worktrees/work/commondir"})
				assert.Contains(t, answers[0], "2\n[exit code 0]")
				for _, answer := range answers[1:] {
					assert.NotContains(t, answer, "[exit code 0]")
				}
				assert.NoFileExists(t, hook)
				assert.Contains(t, w.git("status"), "nothing to commit")
			})
		}
	}
}

// TestSandboxOutside: mode, owner and attributes of files outside are not for commands to change.
func TestSandboxOutside(t *testing.T) {
	for _, mode := range sandboxModes[:2] {
		for _, place := range workPlaces {
			t.Run(mode+", "+place, func(t *testing.T) {
				var outside string
				w, m := sandboxWorld(t, mode, func(w *world) {
					outside = filepath.Join(w.dir, "outside")
					require.NoError(t, os.WriteFile(outside, []byte("x"), 0o600))
				})
				c := newWorkCanaryAt(t, outside)
				for _, answer := range (workShell{place: place}).run(t, w, m, []string{"chmod 777 " + outside,
					"touch -d 2001-01-01 " + outside, "chgrp " + fmt.Sprint(w.uid) + " " + outside + " && false",
					"setfattr -n user.x -v y " + outside + " || python3 -c 'import os; os.setxattr(\"" + outside +
						"\", \"user.x\", b\"y\")'"}) {
					assert.NotContains(t, answer, "[exit code 0]")
				}
				assert.Equal(t, c.was, c.is())
			})
		}
	}
}

// newWorkCanaryAt watches a file that exists.
func newWorkCanaryAt(t *testing.T, path string) *workCanary {
	c := &workCanary{t: t, path: path}
	c.was = c.is()
	return c
}

// TestSandboxHidden: commands do not see the folders of qq, but for their own temporary folder and the file with their
// whole output, nor System V IPC of others.
func TestSandboxHidden(t *testing.T) {
	for _, mode := range sandboxModes[:2] {
		for _, place := range workPlaces {
			t.Run(mode+", "+place, func(t *testing.T) {
				w, m := sandboxWorld(t, mode, func(w *world) {
					for _, name := range []string{"config/qq/.env", "qq/sessions/old.jsonl", "qq/outputs/other.txt"} {
						path := filepath.Join(w.dir, name)
						require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
						require.NoError(t, os.WriteFile(path, []byte("QQ_RETRIES=1\n"), 0o600))
					}
				})
				id, err := shmget()
				require.NoError(t, err)
				defer shmrm(id)
				home := filepath.Join(w.dir, "qq")
				answers := workShell{place: place}.run(t, w, m, []string{
					"seq 1 50000",
					"find " + home + " " + filepath.Join(w.dir, "config") + " -type f; echo $TMPDIR; echo x > $TMPDIR/x",
					"tail -n 2 " + home + "/outputs/*.commands.txt | head -1",
					"tail -n +2 /proc/sysvipc/shm | wc -l",
				})
				assert.Regexp(t, "^"+home+`/outputs/[\w-]+\.commands\.txt\n`+home+`/run/\S+\.tmp\n\[exit code 0\]$`, answers[1])
				assert.Contains(t, answers[2], "[exit code 0]")
				assert.Equal(t, "0\n[exit code 0]", answers[3])
			})
		}
	}
}

func shmget() (id uintptr, err error) {
	id, _, errno := syscall.Syscall(syscall.SYS_SHMGET, 0, 4096, 0o1666) // IPC_PRIVATE, IPC_CREAT
	if errno != 0 {
		return 0, errno
	}
	return id, nil
}

func shmrm(id uintptr) { _, _, _ = syscall.Syscall(syscall.SYS_SHMCTL, id, 0, 0) }

// TestSandboxReach: commands do not steer processes outside, whoever may write.
func TestSandboxReach(t *testing.T) {
	sandboxEverywhere(t, func(t *testing.T, mode, place string) {
		for _, readOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("read only %t", readOnly), func(t *testing.T) {
				w, m := sandboxWorld(t, mode, func(*world) {})
				victim := exec.Command("sleep", "60")
				if w.uid != 0 {
					victim.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: sandboxUser, Gid: sandboxUser,
						NoSetGroups: true}}
				}
				require.NoError(t, victim.Start())
				defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()
				pid := victim.Process.Pid
				limits := func() string {
					text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
					require.NoError(t, err)
					stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
					require.NoError(t, err)
					return string(text) + strings.Fields(string(stat))[18]
				}
				before := limits()
				answers := workShell{place: place, readOnly: readOnly}.run(t, w, m, []string{
					fmt.Sprintf("prlimit --pid %d --nofile=7:7", pid), fmt.Sprintf("renice -n 5 -p %d", pid),
					fmt.Sprintf("ionice -c 3 -p %d", pid), fmt.Sprintf("taskset -p 1 %d", pid),
					fmt.Sprintf("chrt -i -p 0 %d", pid), fmt.Sprintf("kill %d", pid),
				})
				for _, answer := range answers {
					assert.NotContains(t, answer, "[exit code 0]")
				}
				assert.Equal(t, before, limits())
			})
		}
	})
}

// TestSandboxLimits: a fork bomb, a huge file and one that eats memory end in their limits, and qq goes on.
func TestSandboxLimits(t *testing.T) {
	sandboxEverywhere(t, func(t *testing.T, mode, place string) {
		w, m := sandboxWorld(t, mode, func(*world) {})
		s := workShell{place: place, env: []string{"QQ_COMMAND_MEMORY=100", "QQ_COMMAND_PROCESSES=200",
			"QQ_COMMAND_FILE_SIZE=1"}}
		answers := s.run(t, w, m, []string{
			"head -c 5000000 /dev/zero > huge; wc -c < huge",
			"dd if=/dev/zero bs=300M count=1 2>/dev/null | (sleep 3; wc -c)",
			"for i in $(seq 400); do sleep 20 & done; echo all started; wait",
		})
		assert.Contains(t, answers[0], "1048576\n")
		assert.Contains(t, answers[1], "[out_of_memory: the command and what it started reached the limit of 100 MB "+
			"(QQ_COMMAND_MEMORY)]")
		assert.True(t, !strings.Contains(answers[2], "all started") || strings.Contains(answers[2], "QQ_COMMAND_PROCESSES"),
			answers[2])
	})
}

// TestSandboxNoPlaceholders: commands of several children in one folder leave nothing of qq's in it, and what a SIGKILL
// leaves goes with the next run.
func TestSandboxNoPlaceholders(t *testing.T) {
	for _, mode := range sandboxModes[:2] {
		t.Run(mode, func(t *testing.T) {
			w, m := sandboxWorld(t, mode, func(w *world) { w.file("f", "") })
			m.agents["run"] = workSteps(workDo(workCall("run_pty_cmd", "command", "ls -A; sleep 0.2")),
				workDo(workCall("run_pty_cmd", "command", "echo x > .envrc; mkdir .vscode")), workText("Done."))
			m.agents["lead"] = workSteps(workDo(workCall("run_parallel_tasks", "tasks", []any{
				map[string]any{"agent": "executor", "task": "Run. [[run]]"},
				map[string]any{"agent": "executor", "task": "Run once more. [[run]]"},
				map[string]any{"agent": "executor", "task": "Run again. [[run]]"}})), workText("All done."))
			w.qq("Delegate. [[lead]]", "--auto-approve").answered("All done.")
			assert.ElementsMatch(t, []string{".qq", "f"}, w.names())

			m.agents["hang"] = workSteps(workDo(workCall("run_pty_cmd", "command", "touch begun; sleep 60")), workText("Done."))
			m.agents["lead"] = workSteps(workDo(workCall("delegate_task", "agent", "executor", "task", "Hang. [[hang]]")),
				workText("All done."))
			q := w.start("", "Delegate. [[lead]]", "--auto-approve")
			w.until(10*time.Second, "the command runs", func() bool {
				_, err := os.Lstat(filepath.Join(w.work, "begun"))
				return err == nil
			})
			require.NoError(t, q.cmd.Process.Kill())
			q.wait()
			w.until(10*time.Second, "all are gone", func() bool { return len(w.processes()) == 0 })
			m.agents["lead"] = workSteps(workDo(workCall("delegate_task", "agent", "explorer", "task", "Look. [[look]]")),
				workText("All done."))
			m.agents["look"] = workSteps(workText("Nothing."))
			w.qq("Delegate. [[lead]]", "--auto-approve").answered("All done.")
			assert.ElementsMatch(t, []string{".qq", "f", "begun"}, w.names())
		})
	}
}

// names are the names in the working directory.
func (w *world) names() (names []string) {
	entries, err := os.ReadDir(w.work)
	require.NoError(w.t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestSandboxLockedHome: a program that can only read locks the folders of qq, and qq works.
func TestSandboxLockedHome(t *testing.T) {
	w, m := newWorkShellWorld(t)
	run := filepath.Join(w.dir, "qq", "run")
	require.NoError(t, os.MkdirAll(run, 0o700))
	f, err := os.Open(run)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	begin := time.Now()
	answers := workShell{place: "child"}.run(t, w, m, []string{"echo works"})
	assert.Equal(t, "works\n[exit code 0]", answers[0])
	assert.Less(t, time.Since(begin), 20*time.Second)
}

// TestSandboxFileTools: the file tools ask each time before they change what programs obey; a general allowance does not
// hold for that.
func TestSandboxFileTools(t *testing.T) {
	for _, name := range []string{".git/config", ".qq/x", ".claude/settings.json", ".agents/x", ".env", ".envrc",
		".vscode/tasks.json", ".husky/pre-commit", ".github/workflows/ci.yml", ".mcp.json", "sub/.bashrc", ".profile",
		".gitconfig", ".gitattributes", ".gitmodules", ".config/systemd/user/x.service", ".config/autostart/x.desktop"} {
		t.Run(name, func(t *testing.T) {
			m := workPlay(t, map[string]workAgent{"write": workSteps(
				workDo(workCall("create_file", "path", name, "content", "x")), workText("Done."))})
			w := newWorld(t, m.addr, played)
			e := w.qq("Write. [[write]]", "--agent", "coder", "--allow", "create_file,write_file", "--json")
			assert.Equal(t, "refused", e.json().Status)
			assert.NoFileExists(t, filepath.Join(w.work, name))
			w.qq("Write. [[write]]", "--agent", "coder", "--auto-approve").answered("Done.")
			assert.FileExists(t, filepath.Join(w.work, name))
		})
	}
}

// TestSandboxShortMemory: when memory is short, the kernel kills children and not the root, and the results say why.
func TestSandboxShortMemory(t *testing.T) {
	group := sandboxMemoryGroup(t, 40<<20)
	m := workPlay(t, map[string]workAgent{"wait": func(ctx context.Context, _ workTalk) api.Message {
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
		return api.Message{Role: "assistant", Content: "Done."}
	}})
	w := newWorld(t, m.addr, played, "GOGC=off")
	const tasks = 24
	q := w.startIn(group, "batch", "--retries", "0", "-j", fmt.Sprint(tasks), "--output-format", "jsonl", "--no-bar",
		w.file("tasks", strings.Repeat("Wait. [[wait]]\n", tasks)))
	e := q.wait()
	assert.Equal(t, 4, e.code, "the root lives")
	lines := strings.Split(strings.TrimSpace(e.stdout), "\n")
	require.Len(t, lines, tasks)
	counts := map[string]int{}
	for _, line := range lines {
		r := parse(t, line)
		counts[r.Status]++
		if r.Status == "out_of_memory" {
			assert.Contains(t, *r.Error, "child was killed: memory was short")
		}
	}
	assert.Positive(t, counts["out_of_memory"], counts)
	assert.Positive(t, counts["completed"], counts)
	assert.Equal(t, tasks, counts["out_of_memory"]+counts["completed"], counts)
}

// sandboxMemoryGroup makes a cgroup (version 1) with that much memory, and returns its folder.
func sandboxMemoryGroup(t *testing.T, limit int) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^\d+:memory:(.*)$`).FindSubmatch(text)
	if found == nil {
		t.Skip("no cgroup of version 1 for memory")
	}
	dir := filepath.Join("/sys/fs/cgroup/memory", string(found[1]), fmt.Sprintf("qq-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		assert.Eventually(t, func() bool { return os.Remove(dir) == nil }, goneTimeout, pollEvery)
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(fmt.Sprint(limit)), 0))
	return dir
}

// startIn starts qq in the cgroup with that folder.
func (w *world) startIn(group string, args ...string) *running {
	w.t.Helper()
	bin := w.bin
	defer func() { w.bin = bin }()
	w.bin = "/bin/sh"
	return w.start("", append([]string{"-c", `echo 0 > "$0/tasks" && exec "$@"`, group, bin}, args...)...)
}

// TestSandboxFirstToGo: a command counts as larger than the process that started it, and a child as larger than the root.
func TestSandboxFirstToGo(t *testing.T) {
	for _, mode := range sandboxModes[:2] {
		for _, place := range workPlaces {
			t.Run(mode+", "+place, func(t *testing.T) {
				w, m := sandboxWorld(t, mode, func(*world) {})
				answers := workShell{place: place}.run(t, w, m, []string{"cat /proc/self/oom_score_adj"})
				own, err := os.ReadFile("/proc/self/oom_score_adj")
				require.NoError(t, err)
				var root int
				_, err = fmt.Sscan(string(own), &root)
				require.NoError(t, err)
				assert.Equal(t, fmt.Sprintf("%d\n[exit code 0]", min(root+600, 1000)), answers[0])
			})
		}
	}
}

// TestSandboxDoctor: doctor says what holds commands here.
func TestSandboxDoctor(t *testing.T) {
	for _, mode := range sandboxModes {
		t.Run(mode, func(t *testing.T) {
			w, _ := sandboxWorld(t, mode, func(*world) {})
			f := w.doctor("commands")
			if mode == "no namespaces" {
				assert.Equal(t, "note", f.State)
				assert.Contains(t, f.Text, "no mounts of their own (make namespaces: operation not permitted): changes of "+
					"files that programs obey are put back afterwards; ")
				assert.Equal(t, "run qq as root, or allow user namespaces that may mount", f.Fix)
				return
			}
			assert.Equal(t, "ok", f.State)
			assert.Regexp(t, "^their own mounts keep files that programs obey read-only; .*memory.*processes", f.Text)
		})
	}
}
