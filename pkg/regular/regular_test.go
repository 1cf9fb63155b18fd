package regular

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
	require.NoError(t, os.Symlink("file", filepath.Join(dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "socket")})
	require.NoError(t, err)
	defer socket.Close()
	for _, name := range []string{"file", "link", "folder", "pipe", "socket", "gone"} {
		byPath := func() (*os.File, fs.FileInfo, error) { return Open(filepath.Join(dir, name), os.O_RDONLY) }
		inRoot := func() (*os.File, fs.FileInfo, error) { return In(root, name) }
		for _, open := range []func() (*os.File, fs.FileInfo, error){byPath, inRoot} {
			f, info, err := open()
			switch name {
			case "file", "link":
				require.NoError(t, err, name)
				text, err := io.ReadAll(Reader(f, info))
				require.NoError(t, err)
				assert.Equal(t, "text", string(text))
				assert.NoError(t, f.Close())
			case "gone":
				assert.ErrorIs(t, err, fs.ErrNotExist)
			case "socket":
				assert.Error(t, err) // the system refuses it
			default:
				assert.ErrorIs(t, err, ErrOther, name)
			}
		}
	}
	_, _, err = Open(filepath.Join(dir, "link"), os.O_RDWR|syscall.O_NOFOLLOW)
	assert.ErrorIs(t, err, syscall.ELOOP)
	_, _, err = Open("/dev/null", os.O_RDONLY)
	assert.EqualError(t, err, "open /dev/null: not a regular file")
}

// A pipe with a writer that says nothing is not waited for either.
func TestPipeWithWriter(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	writer, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer writer.Close()
	_, _, err = Open(name, os.O_RDONLY)
	assert.ErrorIs(t, err, ErrOther)
}

// A file that grows while it is read is read up to where it ended.
func TestReaderEnds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(name, []byte("one\n"), 0o600))
	f, info, err := Open(name, os.O_RDWR|os.O_APPEND)
	require.NoError(t, err)
	defer f.Close()
	in := Reader(f, info)
	for range 10 {
		_, err := f.WriteString("more\n")
		require.NoError(t, err)
	}
	_, err = f.Seek(0, io.SeekStart)
	require.NoError(t, err)
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	assert.Equal(t, "one\n", string(text))
}

// Files of /proc say that they are empty, and are not.
func TestUnsized(t *testing.T) {
	f, info, err := Open("/proc/self/status", os.O_RDONLY)
	if err != nil {
		t.Skip("no /proc")
	}
	defer f.Close()
	assert.Zero(t, info.Size())
	text, err := io.ReadAll(Reader(f, info))
	require.NoError(t, err)
	assert.Contains(t, string(text), "Pid:")
}

// /dev/zero has no end, and some files of /proc wait for what may never come.
func TestDevicesAndProc(t *testing.T) {
	start := time.Now()
	for _, name := range []string{"/dev/zero", "/dev/tty", "/dev/random", "/proc/kmsg", "/proc/self/fd/0"} {
		f, info, err := Open(name, os.O_RDONLY)
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, Reader(f, info)) // whatever comes of it
		f.Close()
	}
	assert.Less(t, time.Since(start), time.Minute)
}

// TestKernelLog: the log of the kernel is refused by any name. Of several who read it at once, one may wait for ever.
func TestKernelLog(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("/proc/kmsg", link))
	for _, name := range []string{"/proc/kmsg", link} {
		f, _, err := Open(name, os.O_RDONLY)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			t.Skip(err)
		}
		if !assert.ErrorIs(t, err, ErrKernelLog) {
			f.Close()
		}
	}
}
