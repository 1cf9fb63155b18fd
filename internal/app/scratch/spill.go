package scratch

import (
	"bufio"
	"encoding/json"
	"io"
	"os"

	"qq/pkg/task"
)

// Spill keeps results in a file until the results of slower tasks before them are printed.
type Spill struct {
	In   *Folder
	file *os.File
	end  int64
}

// spilled is the JSON line before the output of a result in a spill file.
type spilled struct {
	task.Stored
	Size int // of the output in bytes
}

// Put writes a result to the file and returns its offset, for Take.
func (s *Spill) Put(r task.Result) (int64, error) {
	if s.file == nil {
		dir, err := s.In.Path()
		if err != nil {
			return 0, err
		}
		if s.file, err = os.CreateTemp(dir, "spill-*"); err != nil {
			return 0, err
		}
	}
	b, err := json.Marshal(spilled{task.Store(r), len(r.Output)})
	if err != nil {
		return 0, err
	}
	at := s.end
	n, err := s.file.WriteAt(append(append(b, '\n'), r.Output...), at)
	if err != nil {
		return 0, err
	}
	s.end += int64(n)
	return at, nil
}

// Take reads the result at the offset that Put returned.
func (s *Spill) Take(at int64) (r task.Result, err error) {
	from := bufio.NewReader(io.NewSectionReader(s.file, at, s.end-at))
	line, err := from.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	var l spilled
	if err := json.Unmarshal(line, &l); err != nil {
		return r, err
	}
	output := make([]byte, l.Size)
	_, err = io.ReadFull(from, output)
	return l.Restored(string(output)), err
}

// Close closes the spill file, if there is one.
func (s *Spill) Close() {
	if s.file != nil {
		s.file.Close()
	}
}
