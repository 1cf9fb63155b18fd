// Package filestate says in which state a file is, so that a change can be found later, and tells a version of a file
// from another one without reading it.
//
// Not promised: that a change is found which keeps size and time of change, of a file that is larger than [MaxFile].
package filestate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// MaxFile bounds the bytes of a file whose content is read.
const MaxFile = 1 << 20

// racy is how much older than its reading a time of change must be, so that an equal time later means that nothing
// changed: file systems count time in steps.
const racy = 50 * time.Millisecond

// Stamp identifies a version of a file or folder.
type Stamp struct {
	Device, Inode uint64
	Size          int64
	Mode          fs.FileMode
	Changed       time.Time
}

// Settled reports whether an equal stamp at a later time than now means that nothing changed.
func (s Stamp) Settled(now time.Time) bool { return now.Sub(s.Changed) > racy }

// SameFile reports whether two stamps are of one file or folder.
func (s Stamp) SameFile(t Stamp) bool { return s.Inode == t.Inode && s.Device == t.Device }

// State is one file, folder or link.
type State struct {
	Stamp
	Sum     string // of a file: its checksum; of a link: its target
	Content []byte // of a small file
	settled bool
}

// Read returns the state of the file at the absolute path name, about which info is. known is the state when it was
// read before. The content is read if whole is set.
func Read(name string, info fs.FileInfo, known State, whole bool) State {
	now := time.Now()
	st := State{Stamp: StampOf(info)}
	if known.settled && known.Stamp == st.Stamp {
		return known
	}
	st.settled = st.Settled(now)
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		st.Sum, _ = os.Readlink(name)
	case info.Mode().IsRegular() && info.Size() <= MaxFile && whole:
		if content, err := ReadFile(name); err == nil {
			st.Content, st.Sum = content, fmt.Sprintf("%x", sha256.Sum256(content))
		}
	case info.Mode().IsRegular():
		st.Sum = fmt.Sprint(st.Size, st.Changed) // too much to be read
	}
	return st
}

// ReadFile reads a regular file, and not what was put in its place.
func ReadFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("no regular file")
	}
	return io.ReadAll(io.LimitReader(f, MaxFile))
}

// Differs reports whether programs would find something else in b than in a.
func (a State) Differs(b State) bool {
	if a.Mode.IsDir() && b.Mode.IsDir() {
		return false
	}
	return a.Mode != b.Mode || a.Sum != b.Sum
}
