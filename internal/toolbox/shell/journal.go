package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// journal is the file that takes the whole output of all commands of an agent
// while they run. Commands that run at the same time take turns in it, and a
// line says whose turn it is.
type journal struct {
	open func() (*os.File, error) // nil: there is none

	mu      sync.Mutex
	file    *os.File
	size    int64
	last    *entry // who wrote last
	midline bool
}

// entry is one command in the journal. Its output is in the bytes begin to end,
// counted from 0 and without end itself.
type entry struct {
	journal    *journal
	command    string
	begin, end int64
	mixed      bool  // with what other commands wrote
	err        error // why not all of it is there
}

var errNoJournal = errors.New("none was set up")

// enter begins the entry of a command.
func (j *journal) enter(command string) *entry {
	e := &entry{journal: j, command: strings.ReplaceAll(visible(command), "\n", "\n> ")}
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.err = j.ready(); e.err == nil {
		j.turn(e, "")
	}
	e.begin, e.end = j.size, j.size
	return e
}

// ready opens the file. j.mu is held.
func (j *journal) ready() error {
	if j.file != nil {
		return nil
	}
	if j.open == nil {
		return errNoJournal
	}
	file, err := j.open()
	if err != nil {
		return err
	}
	if j.size, err = file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	j.file = file
	return nil
}

// turn makes e the one who writes. j.mu is held.
func (j *journal) turn(e *entry, remark string) {
	if j.last == e {
		return
	}
	j.last = e
	j.endLine(e)
	j.put(e, []byte("$ "+e.command+remark+"\n"))
}

func (j *journal) endLine(e *entry) {
	if j.midline {
		j.put(e, []byte("\n"))
	}
}

func (j *journal) put(e *entry, text []byte) {
	if e.err != nil || len(text) == 0 {
		return
	}
	var n int
	n, e.err = j.file.Write(text)
	j.size += int64(n)
	j.midline = text[len(text)-1] != '\n'
}

// write adds a piece of the output.
func (e *entry) write(text []byte) {
	j := e.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last != e {
		e.mixed = true
		j.turn(e, " (goes on)")
	}
	j.put(e, text)
	e.end = j.size
}

// close writes how the command ended, and says where its output is.
func (e *entry) close(verdict string) string {
	j := e.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	j.turn(e, " (ended)")
	j.endLine(e)
	j.put(e, []byte(verdict+"\n"))
	if e.err != nil {
		return fmt.Sprintf("no file has the whole output: %v", e.err)
	}
	where := fmt.Sprintf("the whole output is in %s, bytes %d-%d", j.file.Name(), e.begin+1, e.end)
	if e.mixed {
		where += ", between that of commands that ran at the same time"
	}
	return where
}
