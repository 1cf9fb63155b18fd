// Package room tells whether this machine has room for another child: descriptors, a working
// directory and space on a disk.
package room

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"qq/pkg/task"
)

const (
	// perChild is how many descriptors this process holds for a running child, and perStart how many
	// more it opens while it starts one.
	perChild, perStart = 5, 6
	// reserve is how many descriptors are left for other uses, such as the ledger.
	reserve = 24
	// lowSpace is the free space in bytes below which a disk counts as full.
	lowSpace = 1 << 20
)

// ForChild returns why no child can be started beside so many others now, or nil. Its errors are
// faults of the machine: dir, the working directory of the tree, is gone, or too few descriptors are
// left. The first child is started however few they are. dir may be empty.
func ForChild(dir string, children int64) error {
	if dir != "" {
		d, err := os.Open(dir)
		if err != nil {
			return task.Machine("", "the working directory: %w", err)
		}
		d.Close()
	}
	limit, many := Files(children)
	if many || children == 0 {
		return nil
	}
	open, err := os.ReadDir("/dev/fd")
	if err != nil || uint64(len(open)+perChild+perStart+reserve) <= limit {
		return nil
	}
	return task.Machine("raise `ulimit -n`",
		"children at once: at most %d, because this process may open only %d files", children, limit)
}

// Refused returns err, why a child could not be started. It is a fault of the machine if the program is there, and so
// the working directory of the tree, where the child would work, went away after ForChild had looked.
func Refused(program string, inTree bool, err error) error {
	err = fmt.Errorf("start child: %w", err)
	if inTree && errors.Is(err, os.ErrNotExist) {
		if _, missing := os.Stat(program); missing == nil {
			return task.Machine("", "%w", err)
		}
	}
	return err
}

// Files returns how many files this process may open, and whether so many are left beside those of
// its children that open ones need not be counted.
func Files(children int64) (limit uint64, many bool) {
	var r syscall.Rlimit // Go has raised the soft limit to the hard one
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0, true
	}
	left := uint64(r.Cur) - uint64(children*perChild)
	return uint64(r.Cur), left > 256 && left <= uint64(r.Cur)
}

// Full reports whether the disk of dir is full.
func Full(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && uint64(s.Bavail)*uint64(s.Bsize) < lowSpace
}
