package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"qq/pkg/tool"
)

// journal is the file that receives the whole output of all commands of an agent while they run.
// Commands that run at the same time take turns; a line says whose output follows. The file has a
// size limit, because a program that prints forever would fill the disk.
type journal struct {
	file  *os.File // nil until path is opened
	path  string
	limit int64 // bytes

	mu      sync.Mutex
	opened  bool // the file is open and its size is known
	size    int64
	last    *entry // the entry written to last
	midline bool
}

// entry is the output of one command in the journal: the bytes from begin up to end.
type entry struct {
	journal    *journal
	command    string
	begin, end int64
	mixed      bool  // with the output of other commands in between
	err        error // why a part of it is missing
}

// maxJournal is the size limit of a journal, in bytes.
const maxJournal = 256 << 20

var (
	errNoJournal   = errors.New("there is no folder for it")
	errJournalFull = errors.New("the journal is full")
)

// enter adds an entry for a command that starts. If the file cannot be opened, the entry keeps the error and drops
// what is written.
func (j *journal) enter(command string) *entry {
	e := &entry{journal: j, command: strings.ReplaceAll(tool.Visible(command), "\n", "\n> ")}
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.err = j.ready(); e.err == nil {
		j.turn(e, "")
	}
	e.begin, e.end = j.size, j.size
	return e
}

// ready opens the file, unless it is open already. The caller holds j.mu.
func (j *journal) ready() (err error) {
	switch {
	case j.opened:
		return nil
	case j.file == nil && j.path == "":
		return errNoJournal
	case j.file == nil:
		if j.file, err = OpenLog(j.path); err != nil {
			return err
		}
	}
	j.size, err = j.file.Seek(0, io.SeekEnd)
	j.opened = err == nil
	return err
}

// OpenLog opens the file that receives the whole output of commands.
func OpenLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of commands: %w", err)
	}
	return f, nil
}

// turn makes e the entry that is written to. Unless it is already, it writes a line with the command and remark.
// The caller holds j.mu.
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

// put writes text and returns how many bytes it wrote. Beyond the size limit it drops the text and writes a remark
// once. The caller holds j.mu.
func (j *journal) put(e *entry, text []byte) (n int) {
	if e.err != nil || len(text) == 0 {
		return 0
	}
	room := j.limit - j.size
	over := int64(len(text)) > room
	if over {
		text = tool.WholeRunes(text[:max(room, 0)])
	}
	n, e.err = j.file.Write(text)
	j.size += int64(n)
	if n > 0 {
		j.midline = text[n-1] != '\n'
	}
	if over && e.err == nil {
		e.err = errJournalFull
		if room >= 0 { // otherwise the remark is there already
			note, _ := fmt.Fprintf(j.file, "\n[the rest is not kept: this file takes no more than %s]\n", j.most())
			j.size = max(j.size+int64(note), j.limit+1)
		}
	}
	return n
}

// most returns the limit as a text for people.
func (j *journal) most() string { return fmt.Sprintf("%d MB", j.limit>>20) }

// write appends text to the output of e. After an error it drops the text.
func (e *entry) write(text []byte) {
	j := e.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.err != nil {
		return
	}
	if j.last != e {
		e.mixed = true
		j.turn(e, " (continued)")
	}
	begin := j.size
	if n := j.put(e, text); n > 0 {
		e.end = begin + int64(n)
	}
}

// close writes how the command ended, and returns a line that says where its output is.
func (e *entry) close(verdict string) string {
	j := e.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	lost := e.err // an error here concerns the output; the lines below are extra
	j.turn(e, " (ended)")
	j.endLine(e)
	j.put(e, []byte(verdict+"\n"))
	if lost == nil && e.err == errJournalFull {
		e.err = nil
	}
	what, rest := "the whole output is", ""
	switch {
	case e.err == errJournalFull && e.end > e.begin:
		what, rest = "its beginning is", fmt.Sprintf("; the rest is not kept, for that file takes no more than %s",
			j.most())
	case e.err == errJournalFull:
		return fmt.Sprintf("no file has it: %s takes no more than %s", j.file.Name(), j.most())
	case e.err != nil:
		return fmt.Sprintf("no file has the whole output: %v", e.err)
	}
	where := fmt.Sprintf("%s in %s, bytes %d-%d", what, j.file.Name(), e.begin+1, e.end)
	if e.mixed {
		where += ", between that of commands that ran at the same time"
	}
	return where + rest
}
