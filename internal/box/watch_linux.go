package box

import (
	"io/fs"
	"syscall"
	"time"
)

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mode: info.Mode(), changed: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode, s.changed = uint64(st.Dev), st.Ino, time.Unix(st.Ctim.Unix())
	}
	return s
}
