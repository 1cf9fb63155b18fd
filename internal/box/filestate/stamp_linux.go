package filestate

import (
	"io/fs"
	"syscall"
	"time"
)

// StampOf returns the stamp of the file that info is about.
func StampOf(info fs.FileInfo) Stamp {
	s := Stamp{Size: info.Size(), Mode: info.Mode(), Changed: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Device, s.Inode, s.Changed = uint64(st.Dev), st.Ino, time.Unix(st.Ctim.Unix())
	}
	return s
}
