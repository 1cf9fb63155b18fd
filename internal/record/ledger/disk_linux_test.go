package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// fillUp writes on a small disk of its own until it is full, then makes room. It
// runs in a mount namespace, which ends with it.
func fillUp(home string, _ []string) error {
	if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("none", home, "tmpfs", 0, "size=12m")); err != nil {
		fmt.Println("no mount:", err)
		return nil
	}
	ballast := filepath.Join(home, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 10<<20), 0o600); err != nil {
		return err
	}
	r := NewRecorder(home, Root{ID: "r"}, Options{})
	kept, failed := 0, error(nil)
	for i := 0; failed == nil; i++ {
		id := fmt.Sprint(i)
		if failed = r.Claim(Execution{ID: id}); failed == nil {
			if failed = r.Finish("", id, done("", strings.Repeat("x", 50_000))); failed == nil {
				kept++
			}
		}
	}
	if !errors.Is(failed, ErrFull) {
		return failed
	}
	fmt.Println("full")
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := errors.Join(r.Claim(Execution{ID: "later"}), r.Finish("", "later", done("", "x"))); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	l, err := r.Ledger()
	if err != nil {
		return err
	}
	runs, err := l.List(Filter{Status: []task.Status{task.Completed}})
	if err == nil && len(runs) != kept+1 {
		err = fmt.Errorf("%d of %d are left", len(runs), kept+1)
	}
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if err := syscall.Mount("none", home, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return err
	}
	_, err = Open(home, Options{})
	if !errors.Is(err, ErrReadOnly) {
		return fmt.Errorf("read-only: %v", err)
	}
	fmt.Println("read-only")
	return nil
}

// noRight writes to a ledger that belongs to somebody else.
func noRight(home string, _ []string) error {
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	l, err := Open(home, Options{})
	if err == nil { // to read is allowed
		_, err = l.Clear(Filter{})
		err = errors.Join(err, l.Close())
	}
	fmt.Println(errors.Is(err, ErrDenied), strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
	return nil
}

func TestLedgerOfSomebodyElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	home := t.TempDir()
	l, err := Open(home, Options{})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	look := func(why string) {
		lines, err := play(t, nil, "denied", home).rest()
		require.NoError(t, err)
		require.Len(t, lines, 1, why)
		assert.True(t, strings.HasPrefix(lines[0], "true "), why+": "+lines[0])
	}
	look("a folder that cannot be entered")
	for name, mode := range map[string]os.FileMode{filepath.Dir(home): 0o755, home: 0o777,
		filepath.Join(home, "ledger"):            0o777,
		filepath.Join(home, "ledger", "opening"): 0o666} {
		require.NoError(t, os.Chmod(name, mode))
	}
	look("a database that cannot be read")
	require.NoError(t, os.Chmod(Path(home), 0o444))
	look("a database that cannot be written")
}

func TestFullAndReadOnlyDisk(t *testing.T) {
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	lines, err := play(t, attr, "fill", t.TempDir()).rest()
	if len(lines) > 0 && strings.HasPrefix(lines[0], "no mount") {
		t.Skip(lines[0])
	}
	require.NoError(t, err, lines)
	assert.Equal(t, []string{"full", "read-only"}, lines)
}
