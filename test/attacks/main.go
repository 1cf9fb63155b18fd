// Command attacks plays a stranger against a real qq, one attack after the other, and prints a table:
// what was tried, by whom, what happened, and what held.
//
//	go run ./attacks [-attack PATTERN] [-as PATTERN]
//
// The qq is that of $QQ_BIN, or is built as the Makefile builds it. A stand-in for Ollama (package
// standin) is the hostile model. Each attack is played with qq as root, as an ordinary user, and as
// a user of a kernel that allows no namespaces; as an ordinary user alone if this program is not
// run by root. An attack that succeeds is BROKEN, and the exit code is 1.
//
// Some attacks are played by this program itself, in the role of a program that a hostile agent
// runs: see roles.
//
// Linux only. Everything happens on loopback and below a folder of its own. Not promised: that an
// attack which is not played here is held.
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
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	if role := os.Getenv(roleVar); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	pattern := flag.String("attack", "", "play only the attacks whose name matches this regular `expression`")
	who := flag.String("as", "", "play them only as those that match this regular `expression`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *pattern, *who); err != nil {
		fmt.Fprintln(os.Stderr, "attacks:", err)
		os.Exit(1)
	}
}

// attack is one attack and what is expected to hold it.
type attack struct {
	name string
	held string
	// try plays the attack. It reports what the attack achieved with scene.broken, and what was
	// seen otherwise with scene.saw. An error says that the attack could not be played.
	try func(*scene) error
}

// skip is the reason why an attack cannot be played on this machine.
type skip string

func (s skip) Error() string { return string(s) }

// row is one row of the table.
type row struct {
	attack, as, happened, held string
	broken, failed             bool
}

const attackLimit = time.Minute

func run(ctx context.Context, out io.Writer, pattern, who string) (err error) {
	chosen, people, err := choose(pattern, who)
	if err != nil {
		return err
	}
	h, err := newHouse(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	var rows []row
	bad := 0
	for _, a := range chosen {
		for _, p := range people {
			if ctx.Err() != nil {
				return errors.Join(context.Cause(ctx), table(out, rows))
			}
			fmt.Fprintf(os.Stderr, "playing: %s, as %s …\n", a.name, p)
			r := h.play(ctx, a, p)
			if rows = append(rows, r); r.broken || r.failed {
				bad++
			}
		}
	}
	if err := table(out, rows); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d rows are not held", bad, len(rows))
	}
	return nil
}

func choose(pattern, who string) (chosen []attack, as []person, err error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, nil, fmt.Errorf("-attack: %w", err)
	}
	by, err := regexp.Compile(who)
	if err != nil {
		return nil, nil, fmt.Errorf("-as: %w", err)
	}
	for _, a := range attacks() {
		if re.MatchString(a.name) {
			chosen = append(chosen, a)
		}
	}
	for _, p := range people() {
		if by.MatchString(string(p)) {
			as = append(as, p)
		}
	}
	if len(chosen) == 0 || len(as) == 0 {
		return nil, nil, errors.New("no such attack, or nobody to play it")
	}
	return chosen, as, nil
}

// play plays one attack on a scene of its own.
func (h *house) play(ctx context.Context, a attack, p person) row {
	ctx, cancel := context.WithTimeoutCause(ctx, attackLimit, fmt.Errorf("not over within %v", attackLimit))
	defer cancel()
	s, err := h.newScene(ctx, p)
	if err == nil {
		err = a.try(s)
	}
	r := row{attack: a.name, as: string(p), held: a.held}
	reason := skip("")
	skipped := errors.As(err, &reason)
	if skipped {
		err = nil
	}
	if err = errors.Join(err, s.close()); err != nil {
		r.failed, r.happened = true, err.Error()
		return r
	}
	switch {
	case len(s.broke) > 0:
		r.broken, r.happened, r.held = true, strings.Join(s.broke, "; "), "BROKEN"
	case skipped:
		r.happened, r.held = "not played: "+string(reason), ""
	default:
		r.happened = strings.Join(s.seen, "; ")
	}
	return r
}

func table(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "tried\tas\theld by\twhat happened")
	for _, r := range rows {
		held := r.held
		if r.failed {
			held = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.200q\n", r.attack, r.as, held, r.happened)
	}
	return w.Flush()
}
