package astgrep

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"qq/pkg/proc"
)

const (
	// timeout bounds all that one call of a tool has the program do.
	timeout = 60 * time.Second
	// maxOutput is how much the program may say about matches, in bytes.
	maxOutput = 64 << 20
	// maxDiagnosis is how much is kept of what it says about itself, in bytes.
	maxDiagnosis = 4 << 10
	// maxNames is how long the names of the files of one start may be, in bytes:
	// systems bound the arguments of a program, some at 1 MB.
	maxNames = 256 << 10
	// mark begins the name of the variable that marks the program.
	mark = "QQ_AST_GREP_"
)

// errMuch says that there are more matches than are read.
var errMuch = errors.New("there are too many matches: narrow the pattern, the path or the glob")

// span is a part of a file, in bytes.
type span struct{ Start, End int }

// match is one place that the program found.
type match struct {
	File  string
	Text  string
	Range struct {
		ByteOffset span
		Start, End struct{ Line int } // counted from 0
	}
	Replacement        string
	ReplacementOffsets *span // nil where nothing is replaced
}

// find returns all matches of q in files, in their order, and a remark of the
// program about the pattern. With errMuch it returns those that it read.
func (c Config) find(ctx context.Context, q query, files []string) (found []match, remark string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("ast-grep took longer than %v: narrow the path or the glob", timeout))
	defer cancel()
	if files, err = c.holding(ctx, files, q.words()); err != nil {
		return nil, "", err
	}
	left := int64(maxOutput)
	for err == nil && len(files) > 0 {
		n := batch(files)
		remark, err = c.run(ctx, append(q.args(), files[:n]...), func(r io.Reader) error {
			limited := &io.LimitedReader{R: r, N: left}
			dec := json.NewDecoder(limited)
			for {
				var m match
				if err := dec.Decode(&m); err != nil {
					left = limited.N
					if left > 0 && errors.Is(err, io.EOF) {
						return nil
					}
					if left <= 0 {
						return errMuch
					}
					return fmt.Errorf("read what ast-grep found: %w", err)
				}
				found = append(found, m)
			}
		})
		files = files[n:]
	}
	slices.SortFunc(found, func(a, b match) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Range.ByteOffset.Start-b.Range.ByteOffset.Start,
			b.Range.ByteOffset.End-a.Range.ByteOffset.End)
	})
	return found, remark, err
}

// batch is how many of files one start of the program can be given.
func batch(files []string) int {
	size := 0
	for i, f := range files {
		if size += len(f) + 1; size > maxNames && i > 0 {
			return i
		}
	}
	return len(files)
}

// run starts the program and has read read its output; when that returns early
// the program is ended. It returns what the program said about itself.
func (c Config) run(ctx context.Context, args []string, read func(io.Reader) error) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	p, out, diagnosis, err := c.start(args)
	if err != nil {
		return "", err
	}
	defer out.Close()
	defer diagnosis.Close()
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	var said strings.Builder
	var reader sync.WaitGroup
	reader.Go(func() {
		io.Copy(&said, io.LimitReader(diagnosis, maxDiagnosis))
		io.Copy(io.Discard, diagnosis) // it must not wait for room
	})
	readErr := read(out)
	early := readErr != nil
	if early {
		p.Kill()
	}
	exit := p.Wait()
	reader.Wait()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case early:
		return "", readErr
	case exit.Signal != 0 || exit.Code > 1: // 1 is: nothing found
		return "", failure(exit, said.String())
	}
	return said.String(), nil
}

// start starts the program with two pipes, of which it returns the ends to read
// from. Whatever ends the program ends them, because nothing that it leaves
// behind survives.
func (c Config) start(args []string) (p *proc.Process, out, diagnosis *os.File, err error) {
	out, outW, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer outW.Close()
	diagnosis, errW, err := os.Pipe()
	if err != nil {
		out.Close()
		return nil, nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer errW.Close()
	p, err = c.Host.Start(proc.Command{
		Path: c.Program, Args: append([]string{c.Program}, args...), Env: c.Env, Dir: c.Dir,
		Stdout: outW, Stderr: errW, Marker: mark + strconv.Itoa(c.Depth) + "=" + rand.Text(),
	})
	if err != nil {
		out.Close()
		diagnosis.Close()
		return nil, nil, nil, err
	}
	return p, out, diagnosis, nil
}

// failure says why the program failed, in its words.
func failure(exit proc.Exit, said string) error {
	if exit.Signal != 0 {
		return fmt.Errorf("ast-grep was ended by %v", exit.Signal)
	}
	if strings.Contains(said, "unexpected argument '--custom-languages'") {
		return errors.New("this ast-grep is too old: 0.50 or newer is needed")
	}
	if text := gist(said, "Error: ", "error: "); text != "" {
		return fmt.Errorf("ast-grep: %s", text)
	}
	return fmt.Errorf("ast-grep failed with exit code %d", exit.Code)
}

// gist is the first line of said that begins with one of prefixes, and what the
// last line says as the cause.
func gist(said string, prefixes ...string) string {
	text := ""
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		for _, p := range prefixes {
			if after, ok := strings.CutPrefix(line, p); ok && text == "" {
				text = strings.TrimSuffix(after, ".")
			}
		}
		if cause, ok := strings.CutPrefix(line, "╰▻ "); ok && text != "" {
			return text + ": " + cause
		}
	}
	return text
}
