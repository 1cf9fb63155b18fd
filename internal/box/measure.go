package box

import (
	"math"
	"time"
)

// measureEvery is the time between two looks at what a command uses, where the kernel does not limit that.
const measureEvery = 100 * time.Millisecond

// measure waits for the end of the command. It ends the command if that reaches a limit that the kernel does not
// enforce, and returns a line that says so.
func (r *Process) measure() (excess []string) {
	enough, processes := r.measured.Memory, r.measured.Processes
	if enough <= 0 && processes <= 0 {
		return nil
	}
	if enough <= 0 {
		enough = math.MaxInt64
	}
	ticker := time.NewTicker(measureEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.proc.Done():
			return nil
		case <-ticker.C:
		}
		memory, threads := r.proc.Usage(enough)
		switch {
		case memory > enough:
			excess = append(excess, memoryExceeded(r.box.Limits))
		case processes > 0 && threads > processes:
			excess = append(excess, processesExceeded(r.box.Limits))
		default:
			continue
		}
		r.proc.Kill()
		return excess
	}
}
