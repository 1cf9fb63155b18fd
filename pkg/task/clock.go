package task

import (
	"fmt"
	"strconv"
	"time"
)

// ClockError is why a task was ended whose time ran out: of its run time
// ([Timeout]) or of its time without any activity ([Idle]). It has the texts that
// users and scripts rely on.
type ClockError struct {
	Status Status
	After  time.Duration
}

func (e *ClockError) Error() string {
	after := strconv.FormatFloat(e.After.Round(10*time.Millisecond).Seconds(), 'f', -1, 64)
	if e.Status == Idle {
		return fmt.Sprintf("Sub-agent inactive for %s seconds", after)
	}
	return fmt.Sprintf("Child process timed out after %ss", after)
}
