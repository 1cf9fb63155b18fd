package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"qq/pkg/regular"
	"qq/pkg/supervisor/jobs"
)

const (
	// maxEntries is how many bytes of a transcript one reply has, about.
	maxEntries = 1 << 20
	// maxEntry is how long a line of it may be. Of a longer one, only its length is told.
	maxEntry = 2 << 20
)

// log returns the entries of the transcript of a job that begin at an offset, and the text that its model writes.
func (s *Server) log(r *Log) (*Entries, *Fault) {
	path := s.cfg.Tree.Log(r.ExecutionID)
	if path == "" {
		return nil, &Fault{CodeUnknownJob, fmt.Sprintf("job %.64q keeps no transcript", r.ExecutionID),
			"what is not in the ledger has none"}
	}
	e, err := entries(path, r.From)
	switch {
	case errors.Is(err, os.ErrNotExist): // it has not started
		if !s.queues(r.ExecutionID) {
			return nil, unknownJob(r.ExecutionID)
		}
		e = &Entries{Entries: []json.RawMessage{}, Next: r.From}
	case err != nil:
		return nil, &Fault{CodeUnknownJob, "read the transcript: " + err.Error(), ""}
	}
	e.Text = s.board.Text(r.ExecutionID)
	return e, nil
}

// queues reports whether a job has not ended.
func (s *Server) queues(id string) bool {
	return slices.ContainsFunc(s.cfg.Tree.Jobs(), func(j jobs.Job) bool { return j.ExecutionID == id })
}

// entries reads the lines of a transcript that begin at an offset. A last line that is not ended is not one of them.
func entries(path string, from int64) (*Entries, error) {
	f, info, err := regular.Open(path, os.O_RDONLY|syscall.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	e := &Entries{Entries: []json.RawMessage{}, Next: from}
	r := bufio.NewReader(f)
	for e.Next-from < maxEntries {
		line, n, err := entry(r)
		if errors.Is(err, io.EOF) {
			return e, nil
		}
		if err != nil {
			return nil, err
		}
		e.Entries, e.Next = append(e.Entries, line), e.Next+n
	}
	e.More = e.Next < info.Size()
	return e, nil
}

// entry returns the next line, and how many bytes it takes. A line that is too long, or no JSON, becomes an object that
// says so.
func entry(r *bufio.Reader) (line json.RawMessage, n int64, err error) {
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var part []byte
		part, err = r.ReadSlice('\n')
		if n += int64(len(part)); n <= maxEntry {
			line = append(line, part...)
		}
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	if err == nil && (n > maxEntry || !json.Valid(line)) {
		line = fmt.Appendf(nil, `{"left_out":%d}`, n)
	}
	return line, n, err
}
