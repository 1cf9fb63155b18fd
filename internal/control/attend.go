package control

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// attended is the file in the folder of qq that a face has locked which answers questions.
const attended = "attended.lock"

// Announce says to roots that begin that a face is there which will soon find them and answer questions, until over is
// called or the process ends. home is the folder of qq.
func Announce(home string) (over func(), err error) {
	f, err := os.OpenFile(filepath.Join(home, attended), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// Faces looks for faces. Its value is the folder of qq.
type Faces string

// Near reports whether a face has announced itself.
func (home Faces) Near() bool {
	f, err := os.OpenFile(filepath.Join(string(home), attended), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}
