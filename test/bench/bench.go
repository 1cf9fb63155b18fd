package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"qq/test/qqbin"
)

// bench holds what all rows use: the programs and the running server.
type bench struct {
	quick bool
	dir   string
	bin   map[string]string // qq, hello, client, pool: copies of what was built
	url   string            // of the server

	server *exec.Cmd
	stdin  io.Closer // the server ends when this does
}

func newBench(ctx context.Context, quick bool) (*bench, error) {
	// On the disk where qq keeps its records by default: what is made durable there
	// is part of what it costs.
	disk, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(disk, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(disk, "qq-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{quick: quick, dir: dir, bin: map[string]string{}}
	if err := b.build(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if err := b.startServer(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// build builds all programs in the same way.
func (b *bench) build(ctx context.Context) error {
	const module = "qq/test/bench/"
	if err := os.Mkdir(b.built(""), 0o700); err != nil {
		return err
	}
	for name, pkg := range map[string]string{
		"hello": module + "yard/hello", "client": module + "yard/client", "pool": module + "yard/pool",
		"server": module + "server",
	} {
		if err := qqbin.Build(ctx, b.built(name), ".", pkg); err != nil {
			return err
		}
	}
	if _, err := qqbin.Install(ctx, b.built("")); err != nil {
		return err
	}
	for _, name := range []string{"qq", "hello", "client", "pool"} {
		b.bin[name] = filepath.Join(b.dir, name)
	}
	return b.copyPrograms()
}

// built returns where the build puts a program.
func (b *bench) built(name string) string { return filepath.Join(b.dir, "built", name) }

// copyPrograms copies the built programs to where they are run from, all in the same way. How a
// file came into the page cache changes the start of a process by a millisecond and more, even
// between equal files; so only programs copied together are compared. None of them may be
// running.
func (b *bench) copyPrograms() error {
	for name, path := range b.bin {
		if err := copyProgram(path, b.built(name)); err != nil {
			return err
		}
	}
	return nil
}

// copyProgram replaces the file to by a copy of from, in pieces as large as those
// of cp. Larger ones make a start faster, but the kernel then maps more of the file
// at once, which counts as resident memory.
func copyProgram(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, 64<<10))
	return errors.Join(err, out.Close())
}

func (b *bench) startServer(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, b.built("server"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	b.server, b.stdin = cmd, stdin
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	b.url = strings.TrimSpace(url)
	return nil
}

func (b *bench) close() error {
	left, err := qqbin.Processes(b.bin["qq"]) // of a run that was broken off
	err = errors.Join(err, killAll(left))
	if b.server != nil {
		err = errors.Join(err, b.stdin.Close(), b.server.Wait())
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// waiting returns how many requests hang at the server.
func (b *bench) waiting(ctx context.Context) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/bench/waiting", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(body))
}

// pick returns full, or quick in a quick run.
func (b *bench) pick(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}

// home makes an empty home folder for one run of qq, so that no run pays for records of an
// earlier one. It returns the environment that selects it; done removes it.
func (b *bench) home() (dir string, env []string, done func(), err error) {
	dir, err = os.MkdirTemp(b.dir, "home-")
	if err != nil {
		return "", nil, nil, err
	}
	env = []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb",
		"OLLAMA_HOST=" + strings.TrimPrefix(b.url, "http://"), "QQ_MODEL=ollama:fast",
		"HOME=" + b.dir + "/user", "QQ_HOME=" + dir + "/qq", "QQ_LOG_DIR=" + dir + "/logs", "TMPDIR=" + dir + "/tmp",
		"XDG_CONFIG_HOME=" + dir + "/config", "XDG_STATE_HOME=" + dir + "/state", "XDG_CACHE_HOME=" + dir + "/cache",
		"XDG_DATA_HOME=" + dir + "/data", "XDG_RUNTIME_DIR=" + dir + "/run",
	}
	done = func() { _ = os.RemoveAll(dir) } // what is left goes with b.dir
	for _, d := range []string{"/tmp", "/run"} {
		if err := os.Mkdir(dir+d, 0o700); err != nil {
			return "", nil, nil, err
		}
	}
	return dir, env, done, nil
}

// tasks writes a file of n different tasks, one on each line.
func (b *bench) tasks(n int) (string, error) {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "Task %d: say something\n", i)
	}
	path := filepath.Join(b.dir, fmt.Sprintf("tasks-%d", n))
	return path, os.WriteFile(path, []byte(text.String()), 0o600)
}

// successes returns an error unless the file has n JSON lines, each a success.
func successes(path string, n int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	results := json.NewDecoder(f)
	for i := 0; ; i++ {
		var r struct {
			Success bool
			Index   int
			Error   *string
		}
		switch err := results.Decode(&r); {
		case err == io.EOF && i == n:
			return nil
		case err == io.EOF:
			return fmt.Errorf("%d results of %d tasks", i, n)
		case err != nil:
			return fmt.Errorf("result %d: %w", i, err)
		case !r.Success && r.Error != nil:
			return fmt.Errorf("task %d: %s", i, *r.Error)
		case !r.Success:
			return fmt.Errorf("task %d did not succeed", i)
		case r.Index != i:
			return fmt.Errorf("result %d stands where %d belongs", r.Index, i)
		}
	}
}
