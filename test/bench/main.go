// Command bench measures what qq costs against yardsticks, and prints one table
// of ratios. Everything is measured in one run on one machine, interleaved, as
// medians: a ratio says the same on a slow machine as on a fast one. Programs that
// are compared were copied in the same way and at the same moment.
//
//	go run ./bench [-quick] [-row PATTERN] [-timeout 45m]
//
// The qq is that of $QQ_BIN, or is built as the Makefile builds it. The model
// server is a stand-in that is a process of its own, so that its work is not
// counted; see package server for how its models answer. The yardsticks stand
// in yard/.
//
// The exit code is 1 if a row could not be measured or missed its limit. With -quick only
// the limits of tokens and of the heap of a start count: the other figures mean little then.
// Loads are on loopback only, bounded in number and time, and nothing is left running. Linux
// only: memory and processes are read from /proc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	quick := flag.Bool("quick", false, "smaller counts: a smoke test, whose figures mean little")
	pattern := flag.String("row", "", "measure only the rows whose name matches this regular `expression`")
	timeout := flag.Duration("timeout", 45*time.Minute, "stop after this time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	if err := run(ctx, os.Stdout, *quick, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, quick bool, pattern string) (err error) {
	chosen, err := choose(rows(), pattern)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, quick)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()

	var lines []line
	var failed error
	for _, r := range chosen {
		fmt.Fprintf(os.Stderr, "measuring %s …\n", r.name)
		measured, err := r.measure(ctx, b)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", r.name, err))
			measured = []line{{what: r.name, note: "not measured"}}
		}
		lines = append(lines, measured...)
	}
	return errors.Join(failed, table(out, lines, quick))
}

// row is one measurement, which may print several lines of the table.
type row struct {
	name    string
	measure func(context.Context, *bench) ([]line, error)
}

func rows() []row {
	return []row{
		{"start", measureStart},
		{"prompt", measurePrompt},
		{"dialects", measureDialects},
		{"tokens", measureTokens},
		{"batch", measureBatch},
		{"model", measureModel},
		{"scale", measureScale},
		{"output", measureOutput},
		{"waiting", measureWaiting},
		{"kill", measureKill},
		{"approval", measureApproval},
		{"sandbox", measureSandbox},
		{"apart", measureApart},
		{"grep", measureGrep},
		{"edit", measureEdit},
		{"ledger", measureLedger},
		{"record", measureRecord},
		{"transcripts", measureTranscripts},
		{"runs", measureRuns},
		{"cache", measureCache},
		{"queue", measureQueue},
		{"breaker", measureBreaker},
		{"plan", measurePlan},
		{"faces", measureFaces},
	}
}

func choose(all []row, pattern string) ([]row, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-row: %w", err)
	}
	var chosen []row
	for _, r := range all {
		if re.MatchString(r.name) {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-row %s: no such row", pattern)
	}
	return chosen, nil
}

// line is one line of the table.
type line struct {
	what         string
	qq, yard     string // what was measured, for people
	value, limit float64
	unit         string // of value and limit; empty when there is nothing to judge
	note         string // instead of a judgement
}

func (l line) verdict() string {
	switch {
	case l.note != "":
		return l.note
	case l.value <= l.limit:
		return "ok"
	}
	return "MISSED"
}

func table(out io.Writer, lines []line, quick bool) error {
	mode := ""
	if quick {
		mode = ", quick: the figures mean little"
	}
	fmt.Fprintf(out, "%s %s/%s, %d cores%s\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		mode)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tqq\tagainst\tmeasured\tlimit\tverdict")
	for _, l := range lines {
		measured, limit := "", ""
		if l.note == "" {
			measured, limit = fmt.Sprintf("%.2f %s", l.value, l.unit), fmt.Sprintf("%.4g %s", l.limit, l.unit)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.what, l.qq, l.yard, measured, limit, l.verdict())
	}
	return errors.Join(w.Flush(), judge(lines, quick))
}

// judge returns an error if a line missed its limit. The figures of a quick run mean little, so only the lines without
// noise count there: those that count tokens or the heap of a start.
func judge(lines []line, quick bool) error {
	missed := 0
	for _, l := range lines {
		if l.verdict() == "MISSED" && (!quick || l.unit == "tokens" || l.unit == "KiB") {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d rows missed their limits", missed)
	}
	return nil
}

// ratio returns a line that compares two medians.
func ratio[T ~int64](what string, qq, yard []T, limit float64, show func(T) string) line {
	a, b := median(qq), median(yard)
	return line{what: what, qq: show(a), yard: show(b), value: float64(a) / float64(b), limit: limit, unit: "x"}
}
