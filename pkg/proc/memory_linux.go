package proc

import (
	"bytes"
	"os"
	"strconv"
)

// scoreFile is the file of a process, in its folder in /proc, with the number that is added to its score when the
// kernel chooses what to kill because memory is short.
const scoreFile = "/oom_score_adj"

// expend raises the score of the process pid by points over that of this process. An error is ignored: the kernel
// then chooses by size alone. The caller holds h.mu.
func (h *Host) expend(pid, points int) {
	h.scoring.Do(func() {
		self, _ := os.Readlink("/proc/self")
		if self != strconv.Itoa(os.Getpid()) {
			return // /proc is that of another PID namespace, where pid is another process
		}
		text, err := os.ReadFile("/proc/self" + scoreFile)
		if err != nil {
			return
		}
		h.score, err = strconv.Atoi(string(bytes.TrimSpace(text)))
		h.scored, h.kills = err == nil, shortageKills()
	})
	if h.scored {
		score := strconv.Itoa(min(h.score+points, 1000))
		_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+scoreFile, []byte(score), 0)
	}
}

// starved reports whether the kernel has killed a process because memory was short, and no earlier call has counted
// that kill. The kernel does not say which process it was. The caller holds h.mu.
func (h *Host) starved() bool {
	if !h.scored || shortageKills() <= h.kills {
		return false
	}
	h.kills++
	return true
}

// shortageKills returns how many processes of this machine the kernel has killed because memory was short.
func shortageKills() int {
	text, _ := os.ReadFile("/proc/vmstat")
	return countIn(text, "oom_kill")
}

// countIn returns the number after name in a text with one name and number a line; 0 if there is none.
func countIn(text []byte, name string) int {
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if string(key) == name {
			n, _ := strconv.Atoi(string(value))
			return n
		}
	}
	return 0
}
