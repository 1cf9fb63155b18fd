package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// roleKey is the variable that makes a child of the test binary: "ROLE FOLDER".
const roleKey = "QQ_STORE_TEST_ROLE"

func TestMain(m *testing.M) {
	role, dir, ok := strings.Cut(os.Getenv(roleKey), " ")
	if !ok {
		goleak.VerifyTestMain(m)
		return
	}
	root, err := os.OpenRoot(dir)
	if err == nil {
		err = map[string]func(*os.Root) error{"count": count, "flip": flip, "full": full}[role](root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is the test binary in another role.
func child(role, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleKey+"="+role+" "+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

const rounds = 50

// count adds to the number in a file.
func count(root *os.Root) error {
	for range rounds {
		err := Replace(context.Background(), root, "n", func(old []byte) ([]byte, error) {
			n, err := strconv.Atoi(string(old))
			return []byte(strconv.Itoa(n + 1)), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// No change of many goroutines and processes is lost.
func TestNothingIsLost(t *testing.T) {
	dir, root := plant(t, map[string]string{"n": "0"})
	const each = 3
	var children []*exec.Cmd
	for range each {
		cmd := child("count", dir)
		require.NoError(t, cmd.Start())
		children = append(children, cmd)
	}
	errs := make(chan error, each)
	for range each {
		go func() { errs <- count(root) }()
	}
	for range each {
		assert.NoError(t, <-errs)
	}
	for _, cmd := range children {
		assert.NoError(t, cmd.Wait())
	}
	assert.Equal(t, strconv.Itoa(2*each*rounds), content(t, filepath.Join(dir, "n")))
	assert.Equal(t, []string{"n"}, names(t, dir))
}

const flipSize = 1 << 20

// flip puts the one or the other content into a file until it is killed.
func flip(root *os.Root) error {
	for i := 0; ; i++ {
		if err := Replace(context.Background(), root, "x",
			to(strings.Repeat(string(rune('a'+i%2)), flipSize))); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// A process that is killed at any moment leaves the old content or the new, and
// besides it at most a temporary file.
func TestKilledInTheMiddle(t *testing.T) {
	dir, root := plant(t, map[string]string{"x": strings.Repeat("b", flipSize)})
	const kills = 20
	for i := range kills {
		cmd := child("flip", dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; n <= i%4 && lines.Scan(); n++ {
		}
		assert.NoError(t, cmd.Process.Kill())
		assert.Error(t, cmd.Wait())
		data := content(t, filepath.Join(dir, "x"))
		if len(data) != flipSize || strings.Trim(data, data[:1]) != "" {
			t.Fatalf("a mix of %d bytes", len(data))
		}
	}
	left := names(t, dir)
	assert.LessOrEqual(t, len(left), 1+kills)
	for _, name := range left {
		leftover, err := filepath.Match(".qq-*.tmp", name)
		require.NoError(t, err)
		assert.True(t, leftover || name == "x", name)
	}
	require.NoError(t, Replace(t.Context(), root, "x", to("new")), "the lock is gone with its process")
}

// full runs out of room.
func full(root *os.Root) error {
	signal.Ignore(unix.SIGXFSZ)
	const room = 64 << 10
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: room, Max: room}); err != nil {
		return err
	}
	large := bytes.Repeat([]byte("x"), room+1)
	err := Replace(context.Background(), root, "x", func([]byte) ([]byte, error) { return large, nil })
	fmt.Println(err)
	fmt.Println(Create(context.Background(), root, "y", large, 0o600))
	return Replace(context.Background(), root, "x", to("fits"))
}

// On a full disk the old content stays, and no part of the new.
func TestNoRoom(t *testing.T) {
	dir, _ := plant(t, map[string]string{"x": "old"})
	out, err := child("full", dir).Output()
	require.NoError(t, err)
	assert.Equal(t, "write x: file too large\nwrite y: file too large\n", string(out))
	assert.Equal(t, "fits", content(t, filepath.Join(dir, "x")))
	assert.Equal(t, []string{"x"}, names(t, dir))
}
