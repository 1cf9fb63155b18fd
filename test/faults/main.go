// Command faults makes things go wrong around a real qq, one after the other,
// and prints what came of it: a table with one row for each case.
//
//	go run ./faults [-quick] [-case PATTERN] [-seed N] [-timeout 30m]
//
// The qq is that of $QQ_BIN, or is built as the Makefile builds it. Its model
// server is a stand-in (package standin) and, where $QQ_OLLAMA names one, a real
// Ollama. A case states what it expects: exit code, status, requests that the
// server saw, time. Of every run it is expected that exit code, JSON and stderr
// agree, that nothing is called success that is not, and that neither a process
// nor a temporary file is left. The exit code is 1 when a case fails; one that
// cannot be played here is skipped, and says why.
//
// A task is lost when it has no completed result in the end, though it should;
// it is doubled when the server was asked for it again after its result had been
// recorded.
//
// Everything is played with real processes, real signals and real sockets, on
// loopback and below a folder of its own. Linux only: processes are read from
// /proc. Not promised: that a fault which no case plays is survived.
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
	"slices"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	quick := flag.Bool("quick", false, "small counts")
	pattern := flag.String("case", "", "play only the cases whose name matches this regular `expression`")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random moments, to play them again")
	timeout := flag.Duration("timeout", 30*time.Minute, "stop after this time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	if err := run(ctx, os.Stdout, *quick, *pattern, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// kase is one case: a fault and what should come of it.
type kase struct {
	name    string
	play    func(*stage) error
	limit   time.Duration // that it takes; 0 is caseLimit
	dialect string        // of the model server; empty is that of Ollama
	alone   bool          // never played beside others: it expects requests within a tenth of a second
}

// Dialects of model servers.
const (
	openAI    = "openai"
	anthropic = "anthropic"
	gemini    = "gemini"
)

// inDialects returns the cases, each followed by the same in other dialects: the verdicts are the same. Ollama itself
// does not speak the last.
func inDialects(list []kase, dialects ...string) []kase {
	var all []kase
	for _, k := range list {
		all = append(all, k)
		for _, d := range dialects {
			other := k
			other.name, other.dialect = k.name+", "+d, d
			all = append(all, other)
		}
	}
	return all
}

const caseLimit = 2 * time.Minute

func cases() []kase {
	return slices.Concat(inDialects(serverCases(), openAI, anthropic, gemini), otherCases(),
		inDialects(ollamaCases(), openAI, anthropic))
}

// serverCases are those in which the model server fails.
func serverCases() []kase {
	return []kase{
		{"first request 503", first503, 0, "", false},
		{"429, Retry-After: 2", retryAfter, 0, "", false},
		{"429 of one of five children", retryAfterOfOne, 0, "", true},
		{"connection reset", connectionReset, 0, "", false},
		{"stream cut", streamCut, 0, "", false},
		{"stream cut, as text", streamCutAsText, 0, "", false},
		{"stream stalled", streamStalled, 0, "", false},
		{"stream of a child stalled", childStreamStalled, 0, "", false},
		{"busy server, one at a time", busyServer, 0, "", false},
		{"always 503", always503, 0, "", false},
		{"always 503, a batch", always503Batch, 0, "", false},
		{"connection refused", connectionRefused, 0, "", false},
		{"wrong model", wrongModel, 0, "", false},
		{"server restarted", serverRestarted, 0, "", false},
		{"child killed", childKilled, 0, "", false},
		{"child killed after a write", childKilledAfterWrite, 0, "", false},
		{"the same, idempotent", childKilledIdempotent, 0, "", false},
	}
}

// otherCases are those in which something else does.
func otherCases() []kase {
	return []kase{
		{"child stopped", childStopped, 0, "", false},
		{"child out of memory", childOutOfMemory, 0, "", false},
		{"root killed, resumed", rootKilled, 5 * time.Minute, "", false},
		{"root killed, all outputs", rootKilledAllOutputs, 5 * time.Minute, "", false},
		{"disk full at the home", diskFullAtHome, 0, "", false},
		{"disk full at the ledger", diskFullAtLedger, 0, "", false},
		{"disk full at the output", diskFullAtOutput, 0, "", false},
		{"disk full for a while", diskFullForAWhile, 0, "", false},
		{"few descriptors", fewDescriptors, 0, "", false},
		{"few processes", fewProcesses, 0, "", false},
		{"home away for a while", homeAway, 0, "", false},
		{"working directory away for a while", workAway, 0, "", false},
		{"home away for good", homeAwayForGood, 0, "", false},
		{"clock set back", clockSetBack, 0, "", false},
		{"much output of one child", muchOutput, 0, "", false},
		{"many tasks", manyTasks, 14 * time.Minute, "", false},
	}
}

// ollamaCases are those with a real Ollama.
func ollamaCases() []kase {
	return []kase{
		{"Ollama: wrong model", ollamaWrongModel, 0, "", false},
		{"Ollama: one at a time", ollamaOneAtATime, 0, "", false},
		{"Ollama: restarted", ollamaRestarted, 0, "", false},
	}
}

func run(ctx context.Context, out io.Writer, quick bool, pattern string, seed uint64) (err error) {
	chosen, err := choose(cases(), pattern)
	if err != nil {
		return err
	}
	h, err := newHouse(ctx, quick, seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	fmt.Fprintf(os.Stderr, "seed %d\n", seed)
	var rows []row
	failed := 0
	for len(chosen) > 0 {
		if err := ctx.Err(); err != nil {
			return errors.Join(context.Cause(ctx), table(out, rows))
		}
		n := together(chosen)
		rows = append(rows, h.playAtOnce(ctx, chosen[:n])...)
		chosen = chosen[n:]
	}
	for _, r := range rows {
		if len(r.wrong) > 0 {
			failed++
		}
	}
	if err := table(out, rows); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, len(rows))
	}
	return nil
}

// together returns how many of the first cases are played at once: one, or those in dialects other than Ollama's.
func together(chosen []kase) int {
	n := 1
	beside := func(k kase) bool { return k.dialect != "" && !k.alone }
	for beside(chosen[0]) && n < len(chosen) && beside(chosen[n]) {
		n++
	}
	return n
}

// playAtOnce plays cases, each on its own stage and with its own server.
func (h *house) playAtOnce(ctx context.Context, list []kase) []row {
	rows := make([]row, len(list))
	var all sync.WaitGroup
	for i, k := range list {
		fmt.Fprintf(os.Stderr, "playing: %s …\n", k.name)
		all.Go(func() { rows[i] = h.play(ctx, k) })
	}
	all.Wait()
	return rows
}

func choose(all []kase, pattern string) ([]kase, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-case: %w", err)
	}
	var chosen []kase
	for _, k := range all {
		if re.MatchString(k.name) {
			chosen = append(chosen, k)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-case %s: no such case", pattern)
	}
	return chosen, nil
}

// row is one row of the result table.
type row struct {
	name     string
	played   bool
	exit     int
	status   string // by JSON
	requests int
	took     time.Duration
	lost     int
	doubled  int
	left     int // processes
	files    int // temporary ones that are left
	notes    []string
	skipped  string
	wrong    []string // what was expected and is not so
}

func (r row) verdict() string {
	switch {
	case len(r.wrong) > 0:
		return "FAILED"
	case r.skipped != "":
		return "skipped: " + r.skipped
	}
	return "ok"
}

func table(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "case\texit\tstatus by JSON\trequests\tseconds\tlost\tdoubled\tprocesses left\tfiles left\tverdict")
	for _, r := range rows {
		if !r.played {
			fmt.Fprintf(w, "%s\t\t\t\t\t\t\t\t\t%s\n", r.name, r.verdict())
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%.2f\t%d\t%d\t%d\t%d\t%s\n",
			r.name, r.exit, r.status, r.requests, r.took.Seconds(), r.lost, r.doubled, r.left, r.files, r.verdict())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		for _, text := range append(r.notes, r.wrong...) {
			fmt.Fprintf(out, "\n%s: %s", r.name, text)
		}
	}
	_, err := fmt.Fprintln(out)
	return err
}
