// Package qqbin gets the qq under test, built as the Makefile builds it, and
// finds its processes.
//
// A process is recognized by where its program stands: qq runs every child from
// the file that it was itself started from, so a program in a folder of one's
// own makes its processes one's own, whoever adopts them. Linux only (/proc).
package qqbin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Install copies the program of $QQ_BIN, or one built from this source tree, into dir and returns
// its path.
func Install(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "qq")
	if given := os.Getenv("QQ_BIN"); given != "" {
		return path, copyFile(path, given)
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "qq/test").Output()
	if err != nil {
		return "", fmt.Errorf("find the folder of the module qq/test (run from inside it, or set QQ_BIN): %w", err)
	}
	var flags []string
	if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		flags = []string{"-E", "main.entry"}
	}
	return path, Build(ctx, path, filepath.Dir(strings.TrimSpace(string(module))), "./cmd/qq", flags...)
}

// Build builds the package pkg, relative to the folder dir, into the file path. flags are further flags of the linker.
func Build(ctx context.Context, path, dir, pkg string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "urfave_cli_no_docs,nethttpomithttp2",
		"-ldflags", strings.Join(append([]string{"-s", "-w"}, flags...), " "), "-o", path, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("QQ_BIN: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Processes returns the ids of the live processes that run the program at path.
func Processes(path string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process that has ended meanwhile, or is a zombie, has no exe.
		if exe, err := os.Readlink("/proc/" + e.Name() + "/exe"); err == nil && exe == path {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
