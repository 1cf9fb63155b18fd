package files

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// coarse is the unit of the times of file systems that tell no smaller ones, at least. Those of such a file system
	// may be behind by up to coarser.
	coarse  = 10 * time.Millisecond
	coarser = 2 * time.Second
	// tick is how long the clock of a file system stands still, at most.
	tick = 20 * time.Millisecond
)

// Mark changes the permissions of a new folder to perm, and returns a time by the clock of file systems: what was
// changed before this call has an earlier one, see [Before]. The clock goes in steps, so that takes up to one of them.
func Mark(dir string, perm os.FileMode) (time.Time, error) {
	var first, now time.Time
	for begun := time.Now(); ; time.Sleep(time.Millisecond / 4) {
		err := os.Chmod(dir, perm)
		if err != nil {
			return now, err
		}
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return now, err
		}
		if now = time.Unix(st.Ctim.Unix()); first.IsZero() {
			first = now
		}
		if now.After(first) || time.Since(begun) > tick {
			return now, nil
		}
	}
}

// Before reports whether a file that was changed at the time changed was certainly changed before mark was made.
func Before(changed, mark time.Time) bool {
	if changed.Nanosecond()%int(coarse) == 0 {
		mark = mark.Add(-coarser)
	}
	return changed.Before(mark)
}
