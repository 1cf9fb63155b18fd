// Package regular opens regular files, and nothing else. Who opens a named pipe waits for its
// writer, and who reads from a device may wait for ever; a name in a folder to which others can
// write may lead to either.
//
// Promises: to open a file never waits, and creates nothing. A file of /proc that makes its
// reader wait fails soon. [Reader] ends, even if the file grows meanwhile. Not promised: that
// reading does not wait for a file system that hangs.
package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// ErrOther is the error about a folder, a pipe, a socket or a device.
var ErrOther = errors.New("not a regular file")

// ErrKernelLog is the error about /proc/kmsg.
var ErrKernelLog = errors.New("the log of the kernel, which its readers take from each other: use dmesg")

// Unsized is how many bytes [Reader] reads of a file that states no size, such as those of /proc.
const Unsized = 64 << 20

// Open opens the regular file name. flag is os.O_RDONLY or os.O_RDWR, with os.O_APPEND or
// syscall.O_NOFOLLOW. The error is a [*fs.PathError], with [ErrOther] for another kind of file,
// or [ErrKernelLog].
func Open(name string, flag int) (*os.File, fs.FileInfo, error) {
	return check(os.OpenFile(name, flag|syscall.O_NONBLOCK, 0))
}

// In is Open for a name in root, for reading.
func In(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	return check(root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

// patience is how long the reader of a file waits if the file can make it wait, as some of /proc do.
const patience = 2 * time.Second

// check closes f unless it is a regular file.
func check(f *os.File, err error) (*os.File, fs.FileInfo, error) {
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: ErrOther}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	if f.SetReadDeadline(time.Now().Add(patience)) == nil && isKernelLog(f) { // most files have no deadlines
		f.Close()
		return nil, nil, &fs.PathError{Op: "open", Path: f.Name(), Err: ErrKernelLog}
	}
	return f, info, nil
}

// isKernelLog tells whether f is /proc/kmsg, by whatever name it was opened. It is a pipe by its nature: of two who
// read it at once, one may wait for ever for a message that the other has taken, whatever its deadline.
func isKernelLog(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	target := ""
	_ = conn.Control(func(fd uintptr) {
		target, _ = os.Readlink("/proc/self/fd/" + strconv.FormatUint(uint64(fd), 10))
	})
	return filepath.Base(target) == "kmsg"
}

// Reader returns a reader of f, which [Open] or [In] returned with info: up to the size that it
// had then, or up to [Unsized] bytes if it states none.
func Reader(f *os.File, info fs.FileInfo) *io.LimitedReader {
	size := info.Size()
	if size == 0 {
		size = Unsized
	}
	return &io.LimitedReader{R: f, N: size}
}
