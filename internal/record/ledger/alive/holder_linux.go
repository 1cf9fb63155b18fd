package alive

import (
	"bufio"
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Holder names the process that holds a lock by flock on the file path, as "process 71 (name)". It returns "" if
// that is unknown: nobody holds it any more, or a process in another PID namespace does.
func Holder(path string) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return ""
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return ""
	}
	defer f.Close()
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if pid := holderIn(lines.Text(), file); pid > 0 {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			return fmt.Sprintf("process %d (%q)", pid, bytes.TrimSpace(name))
		}
	}
	return ""
}

// holderIn returns the process that a line of /proc/locks names as holder of a lock by flock on file, or 0.
func holderIn(line, file string) int {
	var kind, mode, access, at string
	var pid int
	// 1: FLOCK  ADVISORY  WRITE 71 fe:00:9988275 0 EOF; one that waits has -> as its second word
	n, _ := fmt.Sscan(line, new(string), &kind, &mode, &access, &pid, &at)
	if n < 6 || kind != "FLOCK" || at != file {
		return 0
	}
	return pid
}
