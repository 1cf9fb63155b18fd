// Command server runs the stand-in for a model server as a process of its own,
// so that the bench measures qq and nothing else. It listens on a loopback port
// of the kernel's choice, prints its URL, and ends when its stdin does. How it
// answers is told by package standin.
package main

import (
	"fmt"
	"io"
	"os"

	"qq/test/bench/server/standin"
)

func main() {
	s := standin.New()
	if err := s.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "bench server:", err)
		os.Exit(1)
	}
	defer s.Stop()
	fmt.Printf("http://%s\n", s.Host())
	_, _ = io.Copy(io.Discard, os.Stdin) // until it ends
}
