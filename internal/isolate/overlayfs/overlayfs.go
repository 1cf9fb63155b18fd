// Package overlayfs mounts overlays, in this process or with the help of another one, and knows what the kernel shows
// of them.
package overlayfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"qq/internal/sandbox"
)

// receive returns the overlay in the answer of a process of [sandbox.MountArgs]. The error is [io.EOF] if it has ended.
func receive(socket int) (*os.File, error) {
	text, control := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, rights, _, _, err := unix.Recvmsg(socket, text, control, 0)
	if err != nil {
		return nil, fmt.Errorf("receive an overlay: %w", err)
	}
	if n == 0 {
		return nil, io.EOF
	}
	if text[0] != 0 {
		return nil, errors.New(string(text[:n]))
	}
	messages, err := unix.ParseSocketControlMessage(control[:rights])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("no overlay was received")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("no overlay was received")
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "overlay"), nil
}

// MountBelow returns an error about a mount in a folder: an overlay would show an empty folder there.
func MountBelow(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			if at := unescape.Replace(fields[4]); at != dir && sandbox.Within(at, dir) {
				return fmt.Errorf("another file system is mounted at %s", at)
			}
		}
	}
	return nil
}

// Whiteout reports whether info is about what stands for a removed file in the upper folder of an overlay.
func Whiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// Opaque reports whether a folder in the upper one of an overlay hides that of the tree.
func Opaque(path string) bool {
	value := make([]byte, 1)
	n, err := unix.Lgetxattr(path, "user.overlay.opaque", value)
	return err == nil && n == 1 && value[0] == 'y'
}

// Wrote reports whether something was written or removed at a path in an overlay whose upper folder is upper.
func Wrote(upper, path string) bool {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(filepath.Join(upper, at))
		if err == nil {
			return at == path || !info.IsDir() || Opaque(filepath.Join(upper, at))
		}
		if at == "." {
			return true // it is not known
		}
	}
}
