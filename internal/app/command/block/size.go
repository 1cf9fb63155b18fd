package block

import (
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// SizeOf returns the size of the terminal f; zero if it is none.
func SizeOf(f *os.File) Size {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return Size{}
	}
	return Size{Columns: columns, Rows: rows}
}

// Foreground reports whether this process is in the foreground of the terminal f. If f does not tell, because it is no
// terminal or not the one of the process, the answer is yes.
func Foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}
