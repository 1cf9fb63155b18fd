// Command pool is a yardstick: the least that a Go program does to run a
// program for each line of a file, some at once, and to print what they print
// in the order of the lines. The line is the program's last argument.
// Usage: pool JOBS FILE PROGRAM ARGS…
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: pool JOBS FILE PROGRAM ARGS…")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "pool:", err)
		os.Exit(1)
	}
}

type outcome struct {
	out []byte
	err error
}

func run(jobs, file, program string, args []string) error {
	n, err := strconv.Atoi(jobs)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	tasks := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	results := make([]chan outcome, len(tasks))
	for i := range results {
		results[i] = make(chan outcome, 1)
	}
	next := make(chan int)
	var workers sync.WaitGroup
	defer workers.Wait()
	for range n {
		workers.Go(func() {
			for i := range next {
				out, err := exec.Command(program, append(args[:len(args):len(args)], tasks[i])...).Output()
				results[i] <- outcome{out, err}
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		for i := range tasks {
			next <- i
		}
	})
	return print(results)
}

func print(results []chan outcome) error {
	out := bufio.NewWriter(os.Stdout)
	var first error
	for _, c := range results {
		r := <-c
		if _, err := out.Write(r.out); first == nil {
			first = err
		}
		if first == nil {
			first = r.err
		}
	}
	if err := out.Flush(); first == nil {
		first = err
	}
	return first
}
