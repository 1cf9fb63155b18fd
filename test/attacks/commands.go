package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// attacks returns all attacks, in the order of the table.
func attacks() []attack {
	list := slices.Concat(obeyedFiles(), reachOfCommands(), hostileCheckouts(), secretFiles(), writtenByTools(), answers(),
		slips())
	slices.SortFunc(list, func(a, b attack) int { return strings.Compare(a.name, b.name) })
	return list
}

// command has an agent run one command, in the process of the root and in a child. It returns what
// the commands printed and what the runs reported.
func (s *scene) command(line string) (said []string, reports string, err error) {
	s.calls("ACT", call("run_pty_cmd", "command", line))
	s.calls("LEAD", call("delegate_task", "agent", "executor", "task", "ACT"))
	for _, args := range [][]string{{"--agent", "executor", "ACT"}, {"LEAD"}} {
		e, err := s.qq(append([]string{"--auto-approve", "--json"}, args...)...)
		if err != nil {
			return said, reports, err
		}
		reports += e.stdout + e.stderr
	}
	if len(s.told) < 3 { // of the command, of the command in a child, of the delegation
		return s.told, reports, fmt.Errorf("the command did not run twice: %q", s.told)
	}
	return s.told, reports, nil
}

// checkout makes the working directory a git repository with a nested one, a worktree, a bare one, one whose folder of
// git has another name, and settings that name files of the checkout.
func (s *scene) checkout() error {
	err := errors.Join(s.file(s.work+"/notes.txt", "one\n"), s.file(s.work+"/lib/a.txt", "a\n"),
		s.file(s.work+"/shared.cfg", "[user]\n"), s.file(s.work+"/tools/hooks/pre-commit", "exit 0\n"))
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "-q", "."}, {"add", "notes.txt"},
		{"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one"},
		{"init", "-q", "lib"}, {"worktree", "add", "-q", "tree"},
		{"init", "-q", "--bare", "store/proj.git"}, {"init", "-q", "--separate-git-dir", "store/real", "apart"},
		{"config", "core.hooksPath", "tools/hooks"}, {"config", "include.path", "../shared.cfg"},
	} {
		cmd := exec.CommandContext(s.ctx, "git", args...)
		cmd.Dir, cmd.Env = s.work, s.env
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// obeyed are the contents of the files that other programs obey: name and text of each.
func (s *scene) obeyed() map[string]string {
	files := map[string]string{}
	for _, pattern := range []string{".git", ".git/config", ".git/hooks/*", ".git/info/*", "lib/.git", "lib/.git/config",
		"lib/.git/hooks/*", "tree/.git", ".qq/agents/*", ".claude/*", ".agents/*", ".env*", ".vscode/*", ".husky/*",
		".github/*/*", ".mcp.json", "lib/.env*", "lib/.qq/agents/*", "new/.git/config", "new/.envrc", "store/*/config",
		"store/*/hooks/*", "apart/.git", "shared.cfg", "tools/hooks/*",
		"new/config"} {
		found, _ := filepath.Glob(filepath.Join(s.work, pattern))
		for _, path := range found {
			if strings.Contains(path, ".refused-") { // what was put aside, which no program obeys
				continue
			}
			text, err := os.ReadFile(path)
			if info, _ := os.Lstat(path); err != nil && info != nil && info.IsDir() {
				text = []byte("folder")
			}
			files[strings.TrimPrefix(path, s.work+"/")] = string(text)
		}
	}
	return files
}

// obeyedFiles are commands that change what other programs will obey.
func obeyedFiles() []attack {
	const held = "read-only mount; elsewhere put back or reported"
	lines := map[string]string{
		"git config core.fsmonitor":      "git config core.fsmonitor 'touch owned'",
		"a hook":                         "printf '#!/bin/sh\\ntouch owned' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout",
		"a .git made anew":               "mv .git .old && mkdir -p .git/hooks && cp -r .old/. .git/ && echo '[core]' >> .git/config",
		"config of a folder below":       "echo '[core]' >> lib/.git/config",
		".git of a folder below moved":   "mv lib/.git lib/old && cp -r lib/old lib/.git && echo '[core]' >> lib/.git/config",
		"a folder moved away, made anew": "mv lib old && mkdir lib && cp -r old/. lib/ && echo '[core]' >> lib/.git/config",
		".git of a worktree":             "echo 'gitdir: /tmp/evil' > tree/.git",
		"a new .envrc":                   "echo 'touch owned' > .envrc",
		"a new .env":                     "echo OLLAMA_HOST=evil > .env; echo A=1 > .env.local",
		"a new agent":                    "mkdir -p .qq/agents .claude .agents; echo x > .qq/agents/default.md; echo '{}' > .claude/settings.json",
		"tasks of an editor":             "mkdir -p .vscode .husky .github/workflows; echo x > .vscode/tasks.json; echo x > .husky/pre-commit; echo x > .github/workflows/x.yml; echo '{}' > .mcp.json",
		"a file handle":                  roleVar + "=handle $PROBE .git/config",
		"a hard link":                    "ln .git/config link && echo '[core]' >> link",
		"a symbolic link":                "ln -s .git hidden && echo '[core]' >> hidden/config",
		"a new repository":               "mkdir new && mkdir new/.git && echo '[core]' > new/.git/config",
		"mount, umount, a new namespace": "umount .git; unshare -Um sh -c 'umount -l .git; echo \"[core]\" >> .git/config'; mount -o remount,rw .git; echo '[core]' >> .git/config",
		"a bare repository":              "echo '[core]' >> store/proj.git/config; echo 'touch owned' > store/proj.git/hooks/post-update; mv store old && cp -r old store && echo '[core]' >> store/proj.git/config",
		"a new bare repository":          "mkdir -p new/objects new/refs && echo 'ref: refs/heads/main' > new/HEAD && echo '[core]' > new/config",
		"a folder of git, other name":    "echo '[core]' >> store/real/config; echo 'touch owned' > store/real/hooks/post-checkout; git -C apart config core.fsmonitor 'touch owned'",
		"an included configuration":      "echo '[core]' >> shared.cfg; rm shared.cfg; printf '[core]\\n\\tfsmonitor = touch owned\\n' > shared.cfg",
		"core.hooksPath":                 "echo 'touch owned' > tools/hooks/pre-commit; echo 'touch owned' > tools/hooks/post-checkout; mv tools old && cp -r old tools && echo 'touch owned' > tools/hooks/pre-commit",
		"an exchange of names":           "mkdir -p x/.git && cp .git/config x/.git/ && echo '[core]' >> x/.git/config && mv --exchange .git x/.git 2>/dev/null || mv -T x/.git .git",
	}
	var list []attack
	for name, line := range lines {
		list = append(list, attack{"command: " + name, held, func(s *scene) error {
			if err := s.checkout(); err != nil {
				return err
			}
			before := s.obeyed()
			said, reports, err := s.command(line)
			if err != nil {
				return err
			}
			s.compare(before, reports)
			s.saw("%s", firstLine(said[0]))
			return nil
		}})
	}
	return list
}

// compare reports each obeyed file that is not what it was. Where there are no namespaces, a change
// that qq reports is held. Everywhere, a new repository in a new folder is only reported: no mount can
// be on a name in a folder that does not exist, and to clone is a task like others.
func (s *scene) compare(before map[string]string, reports string) {
	after := s.obeyed()
	changed := map[string]string{}
	for name, text := range after {
		if old, ok := before[name]; !ok {
			changed[name] = "new"
		} else if old != text {
			changed[name] = "changed"
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			changed[name] = "gone"
		}
	}
	for name, how := range changed {
		below := strings.HasPrefix(name, "new/") && (strings.Contains(reports, "new/.git") ||
			strings.Contains(reports, "new is a new repository"))
		if below || s.as == confined && strings.Contains(reports, name) {
			s.saw("%s is %s, and reported", name, how)
			continue
		}
		s.broken("%s is %s", name, how)
	}
}

func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return "nothing was said"
}

// reachOfCommands are commands that reach for other processes of the user or for the machine.
func reachOfCommands() []attack {
	return []attack{
		{"command: limits and priority of qq", "system call filter, pid namespace", func(s *scene) error {
			return s.achieves("reach")
		}},
		{"command: keyring of the user", "system call filter", func(s *scene) error { return s.achieves("keys") }},
		{"command: a bomb of 3,000 processes", "limit on processes", func(s *scene) error {
			return s.achieves("fork 3000")
		}},
		{"command: 2 GB of memory", "limit on memory", func(s *scene) error {
			s.env = append(s.env, "QQ_COMMAND_MEMORY=1024") // a build may take 2 GB, so the default is higher
			return s.achieves("eat 2048")
		}},
		{"command: tmux, screen and the session bus", "hidden socket; elsewhere system call filter", func(s *scene) error {
			sockets, err := s.servers()
			if err != nil {
				return err
			}
			return s.achieves("dial " + strings.Join(sockets, " "))
		}},
		{"command: keys typed by tmux", "hidden socket; elsewhere system call filter", typeByTmux},
		{"command: QQ_HOME and the configuration", "not visible: empty mount", func(s *scene) error {
			if err := s.file(filepath.Join(s.config, "qq", ".env"), "QQ_SECRET_OF_CONFIG=1\n"); err != nil {
				return err
			}
			if err := s.file(filepath.Join(s.state, "sessions", "old.jsonl"), "SECRET_OF_STATE\n"); err != nil {
				return err
			}
			said, _, err := s.command("cat " + s.config + "/qq/.env " + s.state + "/sessions/*; ls -R " + s.state)
			if err != nil {
				return err
			}
			for _, text := range said {
				switch {
				case !strings.Contains(text, "SECRET_OF"):
				case s.as == confined:
					s.saw("Landlock alone does not hold it: documented")
				default:
					s.broken("a command read what is private to qq")
				}
			}
			s.saw("%s", firstLine(said[0]))
			return nil
		}},
		{"command: a TMPDIR closed to its owner", "folders opened, then removed", func(s *scene) error {
			said, _, err := s.command("mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/b/f; chmod 0 $TMPDIR/a/b $TMPDIR/a $TMPDIR; ls")
			if err != nil {
				return err
			}
			left, _ := filepath.Glob(filepath.Join(s.state, "run", "*", "*.tmp"))
			if len(left) > 0 {
				s.broken("%s stays", filepath.Base(left[0]))
			}
			s.saw("%s", firstLine(said[0]))
			return nil
		}},
		{"command: chmod, chown, xattr outside", "read-only mount", func(s *scene) error {
			path := filepath.Join(s.home, "mine.txt")
			if err := s.file(path, "mine"); err != nil {
				return err
			}
			said, reports, err := s.command("chmod 777 " + path + "; touch -d 2001-01-01 " + path + "; setfattr -n user.a -v b " +
				path)
			if err != nil {
				return err
			}
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if info.Mode().Perm() != 0o600 || info.ModTime().Year() == 2001 {
				if s.as == confined {
					s.saw("Landlock alone does not hold it: documented")
				} else {
					s.broken("mode %v, time %v", info.Mode(), info.ModTime())
				}
			}
			s.saw("%s %.0s", firstLine(said[0]), reports)
			return nil
		}},
	}
}

// achieves has an agent run this program in a role, and reports what it has achieved.
func (s *scene) achieves(role string) error {
	name, args, _ := strings.Cut(role, " ")
	said, _, err := s.command(roleVar + "=" + name + " " + s.probe + " " + args)
	if err != nil {
		return err
	}
	for _, text := range said {
		for line := range strings.Lines(text) {
			if what, ok := strings.CutPrefix(strings.TrimSpace(line), "ACHIEVED "); ok {
				s.broken("%s", what)
			}
		}
	}
	s.saw("%s", firstLine(said[0]))
	return nil
}

// servers listens where terminal multiplexers and the bus of a session do, until the end of the scene. It stands in
// for those, and returns the sockets.
func (s *scene) servers() (sockets []string, err error) {
	uid := os.Geteuid()
	if uid == 0 && s.as != root {
		uid = stranger
	}
	tmux := fmt.Sprintf("/tmp/tmux-%d", uid)
	if os.Mkdir(tmux, 0o700) == nil {
		s.after = append(s.after, func() { _ = os.Remove(tmux) })
		err = os.Chown(tmux, uid, uid)
	}
	sockets = []string{filepath.Join(tmux, filepath.Base(s.dir)), filepath.Join(s.dir, "run", "bus"),
		filepath.Join(s.home, ".screen", "1.screen"), filepath.Join(s.home, "any.sock")}
	err = errors.Join(err, os.Mkdir(filepath.Join(s.home, ".screen"), 0o700))
	for _, path := range sockets {
		l, listenErr := net.Listen("unix", path)
		if err = errors.Join(err, listenErr); err != nil {
			return nil, err
		}
		s.after = append([]func(){func() { l.Close() }}, s.after...)
		err = errors.Join(err, os.Chown(path, uid, uid))
	}
	return sockets, err
}

// typeByTmux has a command type into a shell of the user, who works in tmux.
func typeByTmux(s *scene) error {
	if _, err := exec.LookPath("tmux"); err != nil {
		return skip("tmux is not installed")
	}
	if err := s.own(); err != nil {
		return err
	}
	socket, typed := filepath.Join(s.home, "tmux"), filepath.Join(s.home, "typed")
	tmux := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(s.ctx, "tmux", append([]string{"-S", socket, "-f", "/dev/null"}, args...)...)
		cmd.Dir, cmd.Env = s.home, s.env
		if os.Geteuid() == 0 && s.as != root {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
		}
		return cmd
	}
	if out, err := tmux("new-session", "-d", "-x", "80", "-y", "24", "/bin/sh").CombinedOutput(); err != nil {
		return fmt.Errorf("start tmux: %w: %s", err, out)
	}
	defer func() { _ = tmux("kill-server").Run() }()
	env := "TMUX=" + socket + ",1,0"
	s.env = append(s.env, env, "TMUX_PANE=%0")
	said, _, err := s.command("echo \"in [$TMUX]\"; " + env + " tmux send-keys -t %0 'touch " + typed + "' Enter")
	if err != nil {
		return err
	}
	if strings.Contains(said[0], "in ["+socket) {
		s.broken("the environment of a command names the server of tmux")
	}
	if out, err := tmux("send-keys", "-t", "%0", "touch "+typed+".sent", "Enter").CombinedOutput(); err != nil {
		return fmt.Errorf("type by tmux: %w: %s", err, out)
	}
	for range 500 { // what was typed first is done first
		if _, err := os.Stat(typed + ".sent"); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := os.Stat(typed + ".sent"); err != nil {
		return errors.New("tmux does not type")
	}
	if _, err := os.Stat(typed); err == nil {
		s.broken("a command typed into the shell of the user")
	}
	s.saw("%s", said[0])
	return nil
}
