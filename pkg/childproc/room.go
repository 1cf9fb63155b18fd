package childproc

import (
	"os"
	"path/filepath"
	"syscall"

	"qq/pkg/task"
)

const (
	// perChild is how many descriptors this process holds for a running child, and perStart how many
	// more it opens while it starts one.
	perChild, perStart = 4, 6
	// reserve is how many descriptors are left for other uses, such as the ledger.
	reserve = 24
)

// ready returns why no further child can be started now, or nil. Its errors are faults of the machine:
// the working directory of the tree is gone, or too few descriptors are left. The first child is
// started however few they are. The caller holds l.starting.
func (l *Launcher) ready() error {
	if l.cfg.Dir != "" {
		dir, err := os.Open(l.cfg.Dir)
		if err != nil {
			return task.Machine("", "the working directory: %w", err)
		}
		dir.Close()
	}
	children := l.children.Load()
	limit, many := l.manyFiles()
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

// manyFiles returns how many files this process may open, and whether so many are left that open
// ones need not be counted.
func (l *Launcher) manyFiles() (limit uint64, many bool) {
	var r syscall.Rlimit // Go has raised the soft limit to the hard one
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0, true
	}
	left := uint64(r.Cur) - uint64(l.children.Load()*perChild)
	return uint64(r.Cur), left > 256 && left <= uint64(r.Cur)
}

// dir returns the working directory of job.
func (l *Launcher) dir(job task.Job) string {
	if filepath.IsAbs(job.WorkingDir) {
		return job.WorkingDir
	}
	return filepath.Join(l.cfg.Dir, job.WorkingDir)
}

// noRoom is the free space in bytes below which a disk counts as full.
const noRoom = 1 << 20

// full reports whether the disk of dir is full.
func full(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && uint64(s.Bavail)*uint64(s.Bsize) < noRoom
}
