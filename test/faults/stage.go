package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"qq/internal/standin"
	"qq/test/qqbin"
)

const (
	pollEvery = time.Millisecond
	goneLimit = 5 * time.Second // from SIGKILL of the root to no process left
	waitLimit = time.Minute     // for something that a case waits for
)

// house holds what all cases share.
type house struct {
	quick   bool
	dir     string
	program string
	random  *rand.Rand
}

func newHouse(ctx context.Context, quick bool, seed uint64) (*house, error) {
	dir, err := os.MkdirTemp("", "qq-faults-")
	if err != nil {
		return nil, err
	}
	h := &house{quick: quick, dir: dir, random: rand.New(rand.NewPCG(seed, seed))}
	if h.program, err = qqbin.Install(ctx, dir); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *house) close() error { return os.RemoveAll(h.dir) }

// skip is the reason why a case cannot run on this machine.
type skip string

func (s skip) Error() string { return string(s) }

// play runs one case on a stage of its own.
func (h *house) play(ctx context.Context, k kase) row {
	limit := k.limit
	if limit == 0 {
		limit = caseLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not over within %v", limit))
	defer cancel()
	s, err := newStage(ctx, h)
	s.dialect = k.dialect
	if err == nil {
		err = k.play(s)
	}
	if reason := skip(""); errors.As(err, &reason) {
		s.row.skipped = string(reason)
	} else {
		s.expect(err == nil, "%v", err)
	}
	err = s.close()
	s.expect(err == nil, "%v", err)
	s.row.name = k.name
	return s.row
}

// stage is the environment of one case: its own folders, program and server.
type stage struct {
	*house
	ctx     context.Context
	dir     string
	work    string // working directory of qq
	home    string // QQ_HOME
	program string // its own name for the program
	server  *standin.Server
	dialect string // what qq and the server speak; empty is that of Ollama
	env     []string
	under   []string // the command that starts qq, with its flags; empty means none
	row     row
	kills   int
	started []*process
	undo    []func() error // in reverse, at the end
}

func newStage(ctx context.Context, h *house) (*stage, error) {
	s := &stage{house: h, ctx: ctx, server: standin.New(standin.ByName())}
	dir, err := os.MkdirTemp(h.dir, "stage-")
	if err != nil {
		return s, err
	}
	s.dir, s.work, s.home, s.program = dir, filepath.Join(dir, "work"), filepath.Join(dir, "home"),
		filepath.Join(dir, "qq")
	if err := os.Link(h.program, s.program); err != nil {
		return s, err
	}
	for _, d := range []string{"work", "home", "tmp", "run"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return s, err
		}
	}
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", stageVar + "=" + dir,
		"HOME=" + dir, "QQ_HOME=" + s.home, "QQ_LOG_DIR=" + dir + "/logs", "TMPDIR=" + dir + "/tmp",
		"XDG_CONFIG_HOME=" + dir + "/config", "XDG_STATE_HOME=" + dir + "/state", "XDG_CACHE_HOME=" + dir + "/cache",
		"XDG_DATA_HOME=" + dir + "/data", "XDG_RUNTIME_DIR=" + dir + "/run",
	}
	return s, s.server.Start()
}

// stageVar is the environment variable that marks all processes that a case starts.
const stageVar = "FAULTS_STAGE"

// close looks for leftover processes and files, and removes them.
func (s *stage) close() error {
	for _, p := range s.started { // those of a case that was broken off
		p.cancel()
		_ = p.cmd.Wait()
	}
	s.gone()
	s.row.files += len(s.temporary())
	s.expect(s.row.left == 0, "%d processes are left", s.row.left)
	s.expect(s.row.files == 0, "files are left: %s", strings.Join(s.temporary(), " "))
	s.expect(s.row.lost == 0, "%d tasks are lost", s.row.lost)
	s.expect(s.row.doubled == 0, "%d tasks were done again", s.row.doubled)
	s.server.Stop()
	var errs []error
	for _, u := range slices.Backward(s.undo) {
		errs = append(errs, u())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// expect records a failed expectation unless ok is set.
func (s *stage) expect(ok bool, format string, args ...any) {
	if !ok {
		s.row.wrong = append(s.row.wrong, fmt.Sprintf(format, args...))
	}
}

// note records a figure to print below the table.
func (s *stage) note(format string, args ...any) {
	s.row.notes = append(s.row.notes, fmt.Sprintf(format, args...))
}

// pick returns full, or quick in a quick run.
func (s *stage) pick(full, quick int) int {
	if s.quick {
		return quick
	}
	return full
}

// file writes a file into the working directory.
func (s *stage) file(name, text string) (string, error) {
	path := filepath.Join(s.work, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// processes returns the ids of the live processes of this stage: those that run its program, have
// its mark in their environment, or work in its folder.
func (s *stage) processes() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		at := "/proc/" + e.Name() + "/"
		exe, err := os.Readlink(at + "exe")
		if err != nil {
			continue // it has ended meanwhile, or is a zombie
		}
		environ, _ := os.ReadFile(at + "environ")
		cwd, _ := os.Readlink(at + "cwd")
		if exe == s.program || strings.Contains(string(environ), stageVar+"="+s.dir+"\x00") || cwd == s.dir ||
			strings.HasPrefix(cwd, s.dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone gives the processes of a killed root a moment to end, counts those that are left and kills
// them.
func (s *stage) gone() {
	_ = s.until(goneLimit, "no process is left", func() bool { return len(s.processes()) == 0 })
	left := s.processes()
	s.row.left += len(left)
	for _, pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// temporary returns the temporary files that no run should leave behind.
func (s *stage) temporary() []string {
	var files []string
	for _, pattern := range []string{s.home + "/run/*", s.home + "/ledger/*.lock", s.dir + "/tmp/*", s.dir + "/run/*",
		s.work + "/.*"} {
		found, _ := filepath.Glob(pattern) // the patterns are right
		files = append(files, found...)
	}
	return files
}

// until polls until done returns true.
func (s *stage) until(limit time.Duration, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v", what, limit)
		}
	}
	return nil
}

// smallDisk mounts a file system of that size at path until the case ends.
func (s *stage) smallDisk(path, size string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	out, err := exec.CommandContext(s.ctx, "mount", "-t", "tmpfs", "-o", "size="+size+",mode=700", "tmpfs",
		path).CombinedOutput()
	if err != nil {
		return skip(fmt.Sprintf("no small disk: mount: %v: %s", err, strings.TrimSpace(string(out))))
	}
	s.undo = append(s.undo, func() error {
		if out, err := exec.Command("umount", "-l", path).CombinedOutput(); err != nil {
			return fmt.Errorf("umount %s: %w: %s", path, err, out)
		}
		return nil
	})
	return nil
}

// fill writes a file of zeros until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, size := range []int{64 << 10, 1} {
		for block := make([]byte, size); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		err = nil
	}
	return nil
}

// kilobytes reads a field in kB from a file in /proc.
func kilobytes(path, name string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for text := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(text, name+":"); ok {
			return strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		}
	}
	return 0, io.ErrUnexpectedEOF
}
