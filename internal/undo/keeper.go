package undo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"qq/internal/tools/store"
)

// record is a line of a journal: a change that was about to be made. The content that the file had may follow.
type record struct {
	Path []byte      `json:"path"`          // relative to the working directory of the agent
	Old  string      `json:"old,omitempty"` // checksum of the content; empty means that there was no file
	New  string      `json:"new,omitempty"` // the same of what the file was to become
	Mode fs.FileMode `json:"mode,omitempty"`
	Made []byte      `json:"made,omitempty"` // see [store.Change]
	Time int64       `json:"time"`           // in nanoseconds
	// Size is how many bytes follow, which are the content Old, and a newline. Kept says that there are some.
	Kept bool  `json:"kept,omitempty"`
	Size int64 `json:"size,omitempty"`
	// Large says that the content was too large to be kept.
	Large bool `json:"large,omitempty"`
	// Only says that the record is no change, and only has the content Old. Void says that the last change of the file
	// in this journal was not made.
	Only bool `json:"only,omitempty"`
	Void bool `json:"void,omitempty"`

	journal string // path of the journal
	dir     string // of the agent
	at      int64  // where the content is in the journal
}

// maxLine is how long a record is, without the content.
const maxLine = 64 << 10

// Keeper keeps the changes of one agent. It implements [store.Keeper].
type Keeper struct {
	mu     sync.Mutex
	file   *os.File
	left   map[string]string // the checksum of the content that tools left, by path
	kept   map[string]bool   // contents that are kept, by path and checksum
	broken bool              // nothing can be kept any more
}

var _ store.Keeper = (*Keeper)(nil)

// Open opens a journal that [Book.Journal] has made.
func Open(path string) (*Keeper, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open the journal of changes: %w", err)
	}
	return &Keeper{file: f, left: map[string]string{}, kept: map[string]bool{}}, nil
}

// Close closes the journal. A nil Keeper has none.
func (k *Keeper) Close() {
	if k != nil {
		k.file.Close()
	}
}

// Keep implements [store.Keeper]. A change that cannot be kept, for example on a full disk, is made all the same, and
// listed as not undone.
func (k *Keeper) Keep(c store.Change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := record{Path: []byte(c.Path), Mode: c.Mode, Made: []byte(c.Made), Large: c.Large || len(c.Old) > maxFile}
	if c.Old != nil {
		r.Old = store.Sum(c.Old)
	} else if c.Large {
		r.Old = "unread"
	}
	if c.New != nil {
		r.New = store.Sum(c.New)
	}
	var content []byte
	key := c.Path + "\x00" + r.Old
	if c.Old != nil && !r.Large && k.left[c.Path] != r.Old && !k.kept[key] {
		r.Kept, content = k.room() >= int64(len(c.Old)), c.Old
	}
	if k.write(r, content) {
		k.left[c.Path], k.kept[key] = r.New, k.kept[key] || r.Kept
	}
}

// Failed implements [store.Keeper].
func (k *Keeper) Failed(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.left, path)
	k.write(record{Path: []byte(path), Void: true}, nil)
}

// write appends a record, with the content if it is kept.
func (k *Keeper) write(r record, content []byte) bool {
	if k.broken || k.room() <= -maxAnswer {
		return false
	}
	if r.Time = time.Now().UnixNano(); r.Kept {
		r.Size = int64(len(content))
	}
	line, err := json.Marshal(r)
	if err != nil || len(line) >= maxLine {
		return false
	}
	line = append(line, '\n')
	if r.Kept {
		line = append(append(line, content...), '\n')
	}
	before, err := k.file.Stat()
	if err == nil {
		err = appendWhole(k.file, line)
	}
	if err == nil {
		return true
	}
	after, err := k.file.Stat()
	k.broken = before == nil || err != nil || after.Size() != before.Size()
	return false
}

// room returns how many bytes may be kept of the answer.
func (k *Keeper) room() int64 {
	room := int64(maxAnswer)
	entries, _ := os.ReadDir(filepath.Dir(k.file.Name()))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			room -= info.Size()
		}
	}
	return room
}

// records reads the journal of an agent that worked in dir. It ends at the first record that is damaged, such as one
// during which the process was killed.
func records(path, dir string) (all []record) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	in, at := bufio.NewReaderSize(f, maxLine), int64(0)
	for at < 4*maxAnswer {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return all
		}
		at += int64(len(line))
		r := record{journal: path, dir: dir, at: at}
		if json.Unmarshal(line, &r) != nil || !r.sound() {
			return all
		}
		if r.Kept {
			if n, err := in.Discard(int(r.Size)); err != nil || int64(n) != r.Size {
				return all
			}
			if end, err := in.ReadByte(); err != nil || end != '\n' {
				return all
			}
			at += r.Size + 1
		}
		all = append(all, r)
	}
	return all
}

// sound reports whether r can have been written by a [Keeper].
func (r *record) sound() bool {
	path, made := string(r.Path), string(r.Made)
	return filepath.IsLocal(path) && filepath.Clean(path) == path && path != "." &&
		(made == "" || filepath.IsLocal(made) && filepath.Clean(made) == made) &&
		r.Size >= 0 && r.Size <= maxFile && r.Mode&^fs.ModePerm == 0
}

// content returns the content that r has kept. The error says that it is damaged.
func (r *record) content() ([]byte, error) {
	f, err := os.OpenFile(r.journal, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err = io.Copy(&b, io.NewSectionReader(f, r.at, r.Size)); err == nil && store.Sum(b.Bytes()) != r.Old {
		err = fmt.Errorf("what was kept of it is damaged")
	}
	return append([]byte{}, b.Bytes()...), err
}
