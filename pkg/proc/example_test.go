package proc_test

import (
	"fmt"
	"os"
	"time"

	"qq/pkg/proc"
)

// A program that leaves a process behind: Wait returns when that is gone too.
func Example() {
	host := proc.NewHost()
	defer host.Close()
	p, err := host.Start(proc.Command{
		Path:   "sh",
		Args:   []string{"sh", "-c", "sleep 1000 & echo started a process; exit 3"},
		Env:    []string{"PATH=" + os.Getenv("PATH")},
		Stdout: os.Stdout,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("exit code", p.Wait().Code)
	// Output:
	// started a process
	// exit code 3
}

// A program that ignores SIGTERM is killed after the grace time.
func ExampleProcess_Stop() {
	host := proc.NewHost()
	defer host.Close()
	ready, write, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ready.Close()
	p, err := host.Start(proc.Command{
		Path:   "sh",
		Args:   []string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"},
		Env:    []string{"PATH=" + os.Getenv("PATH")},
		Stdout: write,
		Grace:  10 * time.Millisecond,
	})
	write.Close()
	if err != nil {
		fmt.Println(err)
		return
	}
	ready.Read(make([]byte, len("ready\n")))
	p.Stop()
	fmt.Println(p.Wait().Signal)
	// Output: killed
}
