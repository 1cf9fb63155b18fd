package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// promptLimit is how long a question may take to appear.
const promptLimit = 30 * time.Second

// answerOnce waits until text appears on the terminal and types an answer.
func answerOnce(ctx context.Context, person *os.File, text, answer string) error {
	deadline := time.Now().Add(promptLimit)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := person.SetReadDeadline(deadline); err != nil {
		return err
	}
	var seen strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), text) {
		n, err := person.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			return fmt.Errorf("wait for %q on the terminal: %w\n%s", text, err, seen.String())
		}
	}
	_, err := person.WriteString(answer)
	return err
}
