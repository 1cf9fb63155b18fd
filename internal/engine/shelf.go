package engine

import (
	"bufio"
	"encoding/json"
	"io"
	"os"

	"qq/pkg/task"
)

// shelf keeps results that wait for slower ones in a file.
type shelf struct {
	folder func() (string, error)
	file   *os.File
	end    int64
}

// Put implements supervisor.Shelf.
func (s *shelf) Put(r task.Result) (int64, error) {
	if s.file == nil {
		dir, err := s.folder()
		if err != nil {
			return 0, err
		}
		if s.file, err = os.CreateTemp(dir, "shelf-*"); err != nil {
			return 0, err
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	at := s.end
	n, err := s.file.WriteAt(append(b, '\n'), at)
	if err != nil {
		return 0, err
	}
	s.end += int64(n)
	return at, nil
}

// Take implements supervisor.Shelf.
func (s *shelf) Take(at int64) (r task.Result, err error) {
	line, err := bufio.NewReader(io.NewSectionReader(s.file, at, s.end-at)).ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

func (s *shelf) close() {
	if s.file != nil {
		s.file.Close()
	}
}
