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
	// timeout bounds the time that ast-grep may take for one call of a tool.
	timeout = 60 * time.Second
	// maxOutput is how many bytes of matches are read from ast-grep.
	maxOutput = 64 << 20
	// maxDiagnosis is how many bytes of ast-grep's stderr are kept.
	maxDiagnosis = 4 << 10
	// maxNames bounds the file names on one command line of ast-grep, in bytes: some systems
	// allow 1 MB of arguments.
	maxNames = 256 << 10
	// mark begins the name of the environment variable by which the sweep finds the processes of
	// ast-grep.
	mark = "QQ_AST_GREP_"
)

// errMuch says that ast-grep found more matches than are read.
var errMuch = errors.New("there are too many matches: narrow the pattern, the path or the glob")

// span is a range of bytes in a file.
type span struct{ Start, End int }

// match is one match as ast-grep reports it, in JSON.
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

// find returns all matches of q in the order of files, and a remark of ast-grep about the
// pattern. With errMuch it returns the matches read so far.
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

// batch returns how many of files fit on one command line of ast-grep.
func batch(files []string) int {
	size := 0
	for i, f := range files {
		if size += len(f) + 1; size > maxNames && i > 0 {
			return i
		}
	}
	return len(files)
}

// run starts ast-grep and passes its output to read. If read returns early, ast-grep is killed.
// run returns what ast-grep wrote to stderr.
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
		io.Copy(io.Discard, diagnosis) // so that ast-grep does not wait for room in the pipe
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
	case exit.Signal != 0 || exit.Code > 1: // code 1 means that nothing was found
		return "", failure(exit, said.String())
	}
	return said.String(), nil
}

// start starts ast-grep with pipes for stdout and stderr, and returns their reading ends. Both
// pipes end when ast-grep ends, because its leftover processes are killed.
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

// failure returns an error with ast-grep's own words about why it failed.
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

// gist returns the first line of said that begins with one of prefixes, without the prefix, and with the cause that
// a later line names. It returns "" if there is no such line.
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
