package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"qq/internal/standin"
	"qq/test/qqbin"
)

// person is who runs qq.
type person string

const (
	root     person = "root"
	user     person = "user"
	confined person = "user without namespaces" // the kernel allows none
)

// stranger is the id of a user and a group that own nothing on this machine.
const stranger = 64123

func people() []person {
	if os.Geteuid() == 0 {
		return []person{root, user, confined}
	}
	return []person{user}
}

// house holds what all scenes share.
type house struct{ dir, program string }

func newHouse(ctx context.Context) (*house, error) {
	dir, err := os.MkdirTemp("", "qq-attacks-")
	if err != nil {
		return nil, err
	}
	h := &house{dir: dir}
	if h.program, err = qqbin.Install(ctx, dir); err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.Chmod(h.program, 0o755))
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *house) close() error { return os.RemoveAll(h.dir) }

// scene is where one attack is played: folders, a program and a model server of its own.
type scene struct {
	ctx     context.Context
	as      person
	dir     string
	work    string // the checkout: working directory of qq
	home    string // HOME
	state   string // QQ_HOME
	config  string // XDG_CONFIG_HOME
	program string // its own name for the program
	probe   string // this program, for the roles
	server  *standin.Server
	env     []string
	broke   []string
	seen    []string
	started []*process
	after   []func() // run at the end

	mu   sync.Mutex
	plan map[string][]string // the calls of an agent, by a word of its task
	told []string            // results of the calls

	prompts string // all system prompts
}

// newScene makes a scene for that person. The model makes the calls that calls has set.
func (h *house) newScene(ctx context.Context, as person) (*scene, error) {
	s := &scene{ctx: ctx, as: as, plan: map[string][]string{}}
	s.server = standin.New(standin.Reply(s.reply))
	dir, err := os.MkdirTemp(h.dir, "scene-")
	if err != nil {
		return s, err
	}
	s.dir = dir
	s.work, s.home, s.state = filepath.Join(dir, "work"), filepath.Join(dir, "user"), filepath.Join(dir, "state")
	s.config, s.program, s.probe = filepath.Join(dir, "config"), filepath.Join(dir, "qq"), filepath.Join(dir, "probe")
	own, err := os.Executable()
	if err != nil {
		return s, err
	}
	probe, err := os.ReadFile(own)
	if err != nil {
		return s, err
	}
	if err := errors.Join(os.Link(h.program, s.program), os.WriteFile(s.probe, probe, 0o755)); err != nil {
		return s, err
	}
	for _, d := range []string{s.work, s.home, s.state, s.config, filepath.Join(dir, "tmp"), filepath.Join(dir, "run")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return s, err
		}
	}
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "HOME=" + s.home, "QQ_HOME=" + s.state,
		"XDG_CONFIG_HOME=" + s.config, "TMPDIR=" + dir + "/tmp", "XDG_RUNTIME_DIR=" + dir + "/run",
		"GIT_CONFIG_NOSYSTEM=1", "PROBE=" + s.probe,
	}
	return s, s.server.Start()
}

// close ends what is left of the scene.
func (s *scene) close() error {
	for _, p := range s.started {
		p.cancel()
		_ = p.cmd.Wait()
	}
	s.server.Stop()
	for _, f := range s.after {
		f()
	}
	if s.dir == "" {
		return nil
	}
	for deadline := time.Now().Add(5 * time.Second); len(s.processes()) > 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	for _, pid := range s.processes() {
		s.broken("process %d is left", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return os.RemoveAll(s.dir)
}

// processes returns the ids of the live processes whose program or folder is of this scene.
func (s *scene) processes() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink("/proc/" + e.Name() + "/exe")
		if err != nil {
			continue // it has ended meanwhile, or is a zombie
		}
		cwd, _ := os.Readlink("/proc/" + e.Name() + "/cwd")
		if strings.HasPrefix(exe, s.dir+"/") || cwd == s.dir || strings.HasPrefix(cwd, s.dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// broken says what an attack has achieved.
func (s *scene) broken(format string, args ...any) {
	s.broke = append(s.broke, fmt.Sprintf(format, args...))
}

// saw says what was seen of an attack that was held.
func (s *scene) saw(format string, args ...any) {
	s.seen = append(s.seen, fmt.Sprintf(format, args...))
}

// file writes a file below the folder of the scene.
func (s *scene) file(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// own gives the folders of the scene to the person who runs qq.
func (s *scene) own() error {
	if s.as == root || os.Geteuid() != 0 {
		return nil
	}
	if err := os.Chown(s.dir, stranger, stranger); err != nil {
		return err
	}
	return filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == s.program || path == s.probe {
			return err
		}
		return os.Lchown(path, stranger, stranger)
	})
}

// calls sets the calls of an agent whose task contains word: one call an answer, each the JSON of a
// tool call. After the last the agent says that it is done.
func (s *scene) calls(word string, calls ...string) { s.plan[word] = calls }

// call is the JSON of a tool call.
func call(name string, pairs ...any) string {
	return fmt.Sprintf(`<tool_call>{"name":%q,"arguments":%s}</tool_call>`, name, standin.Args(pairs...))
}

// reply plays the hostile model.
func (s *scene) reply(p standin.Prompt) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	done, task := 0, ""
	for _, m := range p.Messages {
		switch m.Role {
		case "system":
			s.prompts += m.Content
		case "user":
			task = m.Content
		case "tool":
			done++
		}
	}
	if last := p.Messages[len(p.Messages)-1]; last.Role == "tool" {
		s.told = append(s.told, last.Content)
	}
	for word, calls := range s.plan {
		if strings.Contains(task, word) && done < len(calls) {
			return calls[done]
		}
	}
	return "Done."
}

// process is a running qq.
type process struct {
	cmd            *exec.Cmd
	cancel         context.CancelFunc
	stdout, stderr bytes.Buffer
}

// ended says how a qq ended.
type ended struct {
	code           int // -1 when a signal ended it
	stdout, stderr string
}

// start starts qq as the person of the scene, with nothing on stdin.
func (s *scene) start(args ...string) (*process, error) {
	if err := s.own(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	p := &process{cancel: cancel, cmd: exec.CommandContext(ctx, s.program, args...)}
	p.cmd.Dir, p.cmd.Env = s.work, append(slices.Clone(s.env), "QQ_MODEL=ollama:"+standin.DefaultModel)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 && s.as == user {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: stranger, Gid: stranger}
	}
	if os.Geteuid() == 0 && s.as == confined {
		p.cmd.Path, p.cmd.Args = s.probe, append([]string{s.probe, s.program}, args...)
		p.cmd.Env = append(p.cmd.Env, roleVar+"=confine")
		p.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		p.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: 0, ContainerID: 0, Size: 1 << 16}}
		p.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: 0, ContainerID: 0, Size: 1 << 16}}
		p.cmd.SysProcAttr.GidMappingsEnableSetgroups = true
	}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.WaitDelay = time.Second // for a process that was left behind with the pipes
	if err := p.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	s.started = append(s.started, p)
	return p, nil
}

// wait waits for qq to end by itself.
func (p *process) wait() (ended, error) {
	defer p.cancel()
	err := p.cmd.Wait()
	e := ended{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return e, err
	}
	return e, nil
}

// qq runs qq to its end with its own model server.
func (s *scene) qq(args ...string) (ended, error) {
	s.env = append(s.env, "OLLAMA_HOST="+s.server.Host())
	p, err := s.start(args...)
	if err != nil {
		return ended{}, err
	}
	return p.wait()
}

// last returns the result of the last call of an agent.
func (s *scene) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.told) == 0 {
		return ""
	}
	return s.told[len(s.told)-1]
}

// results reads the JSON of a run.
func (e ended) result() (r struct {
	Status string
	Error  string
	Output string
}, err error) {
	err = json.Unmarshal([]byte(e.stdout), &r)
	return r, err
}
