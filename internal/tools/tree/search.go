package tree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"

	"qq/pkg/regular"
)

const (
	// maxChunk is how many bytes of a file are searched at once. A longer line counts as several
	// lines.
	maxChunk   = 4 << 20
	firstChunk = 64 << 10
	// binaryHead is how many bytes at the beginning of a file are searched for a NUL.
	binaryHead = 8 << 10
	// batchFiles is how many files one worker takes at a time.
	batchFiles = 64
)

// ErrBinary says that a file is binary, not text.
var ErrBinary = errors.New("is a binary file")

// Search holds the pattern and the options of a search.
type Search struct {
	*Pattern
	Context int // lines around each match
	Limit   int // matches to show; the others are counted
	Workers int // files searched at once; 0 means what the machine has, 2 to 4
	// Wants reports whether to search a file; nil means all files. Only one goroutine calls it.
	Wants func(file string) bool
	// Show formats one line of the answer. Several goroutines may call it at once; it must not
	// keep line.
	Show func(file string, number int, line []byte, match bool) string
}

// Report is what a search found.
type Report struct {
	Blocks     []Block // at most as many as the limit
	Matches    int     // lines that match, shown or not
	Unreadable int     // files and folders
}

// Block is one match with its context lines.
type Block struct {
	Text  string
	Apart bool // other lines lie between the block before and this one
}

// add merges other into r and keeps at most limit blocks.
func (r *Report) add(other Report, limit int) {
	r.Matches += other.Matches
	r.Unreadable += other.Unreadable
	r.Blocks = append(r.Blocks, other.Blocks[:min(len(other.Blocks), limit-len(r.Blocks))]...)
}

// batch is a list of files in one folder, for one worker.
type batch struct {
	dir   string
	names []string
	found chan Report // receives one report
}

// Tree searches the regular files below start, a folder relative to root. One goroutine walks, a few search, and
// the caller merges their reports in the order of the paths. When ctx ends, the error is its cause.
func (s Search) Tree(ctx context.Context, root *os.Root, start string) (Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	workers := s.Workers
	if workers <= 0 {
		workers = min(max(runtime.GOMAXPROCS(0), 2), 4)
	}
	work := make(chan *batch)
	order := make(chan *batch, 4*workers) // bounds what is found but not yet taken
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel(nil)

	var unreadable int
	var walkErr error
	group.Go(func() {
		defer close(order)
		defer close(work)
		unreadable, walkErr = s.feed(ctx, root, start, func(b *batch) {
			for _, ch := range []chan *batch{order, work} {
				select {
				case ch <- b:
				case <-ctx.Done():
					return
				}
			}
		})
	})
	for range workers {
		group.Go(func() {
			sr := searcher{Search: s}
			for b := range work {
				b.found <- sr.searchBatch(ctx, root, b)
			}
		})
	}
	var all Report
	for b := range order {
		select {
		case found := <-b.found:
			all.add(found, s.Limit)
		case <-ctx.Done():
			return Report{}, context.Cause(ctx)
		}
	}
	// order is closed, so the walk has ended; what was found last may be
	// incomplete when the context ended as well.
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	all.Unreadable += unreadable
	return all, walkErr
}

// File searches one file, whose content is in. file is the name that the result shows. The error is [ErrBinary] for
// a binary file.
func (s Search) File(ctx context.Context, file string, in io.Reader) (Report, error) {
	sr := searcher{Search: s}
	err := sr.search(ctx, file, in)
	return sr.found, err
}

// feed walks below start and passes the files to search to send, in batches of files of one folder. It returns how
// many folders could not be read.
func (s Search) feed(ctx context.Context, root *os.Root, start string, send func(*batch)) (unreadable int, err error) {
	var next *batch
	flush := func() {
		if next != nil {
			send(next)
			next = nil
		}
	}
	unreadable, err = Walk(ctx, root, start, func(file string, e fs.DirEntry) {
		if !e.Type().IsRegular() || s.Wants != nil && !s.Wants(file) {
			return // a link's target is searched under its own name
		}
		dir, name := path.Split(file)
		if next != nil && (next.dir != dir || len(next.names) == batchFiles) {
			flush()
		}
		if next == nil {
			next = &batch{dir: dir, found: make(chan Report, 1)}
		}
		next.names = append(next.names, name)
	})
	flush()
	return unreadable, err
}

// searcher searches files one after another with one buffer.
type searcher struct {
	Search
	buf   []byte
	found Report

	file string // being searched
	line int    // lines before the chunk
}

func (s *searcher) searchBatch(ctx context.Context, root *os.Root, b *batch) Report {
	s.found = Report{}
	dir, err := root.OpenRoot(path.Clean(b.dir))
	if err != nil {
		return Report{Unreadable: len(b.names)}
	}
	defer dir.Close()
	for _, name := range b.names {
		if ctx.Err() != nil {
			break
		}
		if err := s.searchName(ctx, dir, b.dir+name, name); err != nil && !errors.Is(err, ErrBinary) {
			s.found.Unreadable++
		}
	}
	return s.found
}

func (s *searcher) searchName(ctx context.Context, dir *os.Root, file, name string) error {
	f, info, err := regular.In(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.search(ctx, file, regular.Reader(f, info))
}

// search searches one file, a chunk of whole lines at a time.
func (s *searcher) search(ctx context.Context, file string, in io.Reader) error {
	if s.buf == nil {
		s.buf = make([]byte, firstChunk)
	}
	s.file, s.line = file, 0
	for kept, first := 0, true; ; first = false {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := s.fill(in, kept)
		if err != nil && err != io.EOF {
			return err
		}
		chunk := s.buf[:n]
		if first && bytes.IndexByte(chunk[:min(n, binaryHead)], 0) >= 0 {
			return ErrBinary
		}
		if err == io.EOF {
			s.chunk(chunk)
			return nil
		}
		whole := bytes.LastIndexByte(chunk, '\n') + 1
		if whole == 0 {
			whole = n
		}
		s.chunk(chunk[:whole])
		s.line += bytes.Count(chunk[:whole], []byte{'\n'})
		kept = copy(s.buf, chunk[whole:])
	}
}

// fill reads into the buffer behind the kept bytes until it is full or the file ends. The buffer
// grows up to a limit.
func (s *searcher) fill(in io.Reader, kept int) (n int, err error) {
	for n = kept; ; {
		if n == len(s.buf) {
			if n == maxChunk {
				return n, nil
			}
			s.buf = append(s.buf, make([]byte, min(3*n, maxChunk-n))...)
		}
		m, err := in.Read(s.buf[n:])
		if n += m; err != nil {
			return n, err
		}
	}
}

// hit is one matching line of a chunk.
type hit struct {
	start, end int
	number     int
}

// chunk adds the matches in buf, which holds whole lines, to s.found. Matches beyond the limit are only counted.
func (s *searcher) chunk(buf []byte) {
	var hits []hit
	at, number := 0, s.line+1 // a place and the number of its line
	s.lines(buf, func(start, end int) {
		s.found.Matches++
		if len(s.found.Blocks)+len(hits) == s.Limit {
			return // counted only
		}
		number += bytes.Count(buf[at:start], []byte{'\n'})
		at = start
		hits = append(hits, hit{start, end, number})
	})
	shown := 0 // end of what the blocks show
	for i, h := range hits {
		ceiling := len(buf)
		if i+1 < len(hits) {
			ceiling = hits[i+1].start
		}
		from := before(buf, h.start, s.Context, shown)
		to := after(buf, h.end, s.Context, ceiling)
		var lines []string
		lines = s.contextLines(lines, buf[from:h.start], h.number-bytes.Count(buf[from:h.start], []byte{'\n'}))
		lines = append(lines, s.Show(s.file, h.number, buf[h.start:h.end], true))
		lines = s.contextLines(lines, buf[min(h.end+1, to):to], h.number+1)
		s.found.Blocks = append(s.found.Blocks, Block{Text: strings.Join(lines, "\n"),
			Apart: s.Context > 0 && (i == 0 || from > shown)})
		shown = to
	}
}

// before returns the start of the line that is n lines before the line at start, but at least floor.
func before(buf []byte, start, n, floor int) int {
	for ; n > 0 && start > floor; n-- {
		start = floor + bytes.LastIndexByte(buf[floor:start-1], '\n') + 1
	}
	return start
}

// after returns the end of the line that is n lines after the line that ends at end, but at most ceiling.
func after(buf []byte, end, n, ceiling int) int {
	pos := min(end+1, ceiling)
	for ; n > 0 && pos < ceiling; n-- {
		i := bytes.IndexByte(buf[pos:ceiling], '\n')
		if i < 0 {
			return ceiling
		}
		pos += i + 1
	}
	return pos
}

// contextLines appends the formatted lines of text; number is that of the first.
func (s *searcher) contextLines(lines []string, text []byte, number int) []string {
	for line := range bytes.Lines(text) {
		lines = append(lines, s.Show(s.file, number, bytes.TrimSuffix(line, []byte{'\n'}), false))
		number++
	}
	return lines
}
