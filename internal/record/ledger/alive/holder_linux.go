package alive

import (
	"bufio"
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Holder returns the process that holds a lock by flock on the file path, and names it as "process 71 (name)". It
// returns 0 and "" if that is unknown: nobody holds it any more, or a process in another PID namespace does.
func Holder(path string) (pid int, name string) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0, ""
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0, ""
	}
	defer f.Close()
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if pid := holderIn(lines.Text(), file); pid > 0 {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			return pid, fmt.Sprintf("process %d (%q)", pid, bytes.TrimSpace(name))
		}
	}
	return 0, ""
}

// stopped reports whether a signal has stopped the process pid: SIGSTOP, or Ctrl-Z in its terminal.
func stopped(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // none is not stopped
	return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T "))
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
