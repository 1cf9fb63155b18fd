package session

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"qq/pkg/llm"
	"qq/pkg/regular"
	"qq/pkg/task"
)

const suffix = ".jsonl"

// Store is a folder of sessions. Several goroutines and processes may use it at once.
type Store struct {
	dir string
	now func() time.Time
}

// Open returns the store in the folder dir. The folder is created when the first session is.
func Open(dir string) *Store { return &Store{dir: dir, now: time.Now} }

// Of returns the store of the sessions that people have begun, in home, the folder of qq.
func Of(home string) *Store { return Open(filepath.Join(home, "sessions")) }

func (st *Store) path(id string) string { return filepath.Join(st.dir, id+suffix) }

// Path returns the path of the transcript with that whole id, which may not exist.
func (st *Store) Path(id string) string { return st.path(id) }

// Create creates a session with the header h, and opens it for appending. It sets the version, id
// and time of the header.
func (st *Store) Create(h Header) (*Session, error) {
	if err := os.MkdirAll(st.dir, 0o700); err != nil {
		return nil, fmt.Errorf("create session: %w", err)
	}
	for {
		h.ID = newID(st.now().UTC())
		s, err := st.create(h)
		if !errors.Is(err, fs.ErrExist) { // else the id is taken: try another
			return s, err
		}
	}
}

// Begin opens the session with the id of h for appending. If there is none, it creates one with the
// header h. It sets the version and time of the header. It creates the folder of the store and the one
// above, but not the others: a home that is away does not come back as an empty one.
func (st *Store) Begin(h Header) (*Session, error) {
	if !valid(h.ID) {
		return nil, fmt.Errorf("create session: %q is no id", h.ID)
	}
	s, err := st.create(h)
	if errors.Is(err, fs.ErrNotExist) {
		_ = os.Mkdir(filepath.Dir(st.dir), 0o700) // what fails is told by the next step
		_ = os.Mkdir(st.dir, 0o700)
		s, err = st.create(h)
	}
	if errors.Is(err, fs.ErrExist) {
		s, _, err = st.Continue(h.ID)
	}
	return s, err
}

// create creates a session with the header h. The error wraps [fs.ErrExist] if there is one with its
// id.
func (st *Store) create(h Header) (*Session, error) {
	h.V, h.Created = Version, st.now().UTC()
	const flags = os.O_RDWR | os.O_APPEND | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(st.path(h.ID), flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create session: %w", err)
	}
	s := &Session{file: f, id: h.ID, empty: true, in: st}
	if err = lock(f); err == nil {
		err = s.write(h)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create session %s: %w", h.ID, err), s.Close())
	}
	return s, nil
}

// newID returns an id that sorts by time and can be typed: 20261120-153012-a1b2.
func newID(t time.Time) string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails
	return t.Format("20060102-150405-") + hex.EncodeToString(b[:])
}

// Load reads a session, even one that is in use. id may be the beginning of an id if only
// one session matches.
func (st *Store) Load(id string) (Transcript, error) {
	id, err := st.Find(id)
	if err != nil {
		return Transcript{}, err
	}
	return st.Whole(id)
}

// Whole is like [Store.Load] for an id that is a whole one. It does not look what else is in the folder.
func (st *Store) Whole(id string) (Transcript, error) {
	if !valid(id) {
		return Transcript{}, fmt.Errorf("%w: %q is no id", ErrNotFound, id)
	}
	f, err := st.open(id, os.O_RDONLY)
	if err != nil {
		return Transcript{}, err
	}
	defer f.Close()
	return load(f, id)
}

func load(f *os.File, id string) (Transcript, error) {
	t, err := read(f)
	if err != nil {
		return Transcript{}, fmt.Errorf("read session %s: %w", id, err)
	}
	t.Header.ID = id // the name of the file counts
	return t, nil
}

// Continue opens a session for appending and returns its transcript. id may be the
// beginning of an id if only one session matches.
func (st *Store) Continue(id string) (*Session, Transcript, error) {
	id, err := st.Find(id)
	if err != nil {
		return nil, Transcript{}, err
	}
	f, err := st.open(id, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil, Transcript{}, err
	}
	s := &Session{file: f, id: id, in: st}
	var t Transcript
	switch err = lock(f); {
	case errors.Is(err, ErrInUse):
		err = task.Hinted("end that one first, or start a new session", "session %s is %w", id, err)
	case err != nil:
		err = fmt.Errorf("open session %s: %w", id, err)
	default:
		if t, err = load(f, id); err == nil {
			err = s.repair(t)
		}
	}
	if err != nil {
		return nil, Transcript{}, errors.Join(err, f.Close())
	}
	return s, t, nil
}

// lock locks f for this process. It does not wait: the error is ErrInUse if another process holds
// the lock. If the file has been removed or replaced since it was opened, the error is ErrNotFound,
// because appended messages would be lost.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrInUse
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	ours, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(f.Name())
	if err != nil || !os.SameFile(ours, there) {
		return ErrNotFound
	}
	return nil
}

// open opens the file of a session. If it is not a regular file, that is an error, even if it is a
// symbolic link to one.
func (st *Store) open(id string, flags int) (*os.File, error) {
	f, _, err := regular.Open(st.path(id), flags|syscall.O_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	if err != nil {
		return nil, fmt.Errorf("open session %s: %w", id, err)
	}
	return f, nil
}

// valid reports whether id has the form of an id. Such an id contains no path separator, so it
// cannot lead out of the folder.
func valid(id string) bool {
	return id != "" && len(id) <= 64 && id[0] != '-' && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && r != '-'
	})
}

// ids returns the ids of all sessions in the folder, in no particular order. If the folder does not
// exist, there are none.
func (st *Store) ids() ([]string, error) {
	d, err := os.Open(st.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var ids []string
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, suffix); ok && valid(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Find returns the full id of the session whose id is id or begins with it. The error wraps
// [ErrNotFound] if there is none. Several are an error too.
func (st *Store) Find(id string) (string, error) {
	if !valid(id) {
		return "", task.Hinted("`qq sessions list` shows them", "%w: %q is no id", ErrNotFound, id)
	}
	all, err := st.ids()
	if err != nil {
		return "", err
	}
	if slices.Contains(all, id) {
		return id, nil
	}
	all = slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, id) })
	switch len(all) {
	case 0:
		return "", task.Hinted("`qq sessions list` shows them", "%w: %s", ErrNotFound, id)
	case 1:
		return all[0], nil
	}
	slices.Sort(all)
	more := ""
	if len(all) > 5 {
		all, more = all[:5], " …"
	}
	return "", task.Hinted(fmt.Sprintf("write more of the id: %s%s", strings.Join(all, " "), more),
		"session %s is several", id)
}

// Summary is one session in a list.
type Summary struct {
	Header
	Title    string    // beginning of the first message of the user
	Messages int       // lines after the header
	Modified time.Time // time of the last append
	Damaged  bool      // the header cannot be read
}

// file is a session file in the folder.
type file struct {
	id       string
	modified time.Time
}

// files returns the session files, the last used first.
func (st *Store) files() ([]file, error) {
	ids, err := st.ids()
	if err != nil {
		return nil, err
	}
	var files []file
	for _, id := range ids {
		if info, err := os.Lstat(st.path(id)); err == nil && info.Mode().IsRegular() {
			files = append(files, file{id, info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(b.modified.Compare(a.modified), cmp.Compare(b.id, a.id))
	})
	return files, nil
}

// List returns a summary of each session, the last used first. It decodes no message but the first of the user.
func (st *Store) List() ([]Summary, error) {
	files, err := st.files()
	if err != nil {
		return nil, err
	}
	list := make([]Summary, 0, len(files))
	for _, f := range files {
		s, err := st.summarize(f)
		if errors.Is(err, ErrNotFound) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func (st *Store) summarize(f file) (Summary, error) {
	s := Summary{Header: Header{ID: f.id}, Modified: f.modified}
	r, err := st.open(f.id, os.O_RDONLY)
	if err != nil {
		return s, err
	}
	defer r.Close()
	lines := lineReader{r: bufio.NewReaderSize(r, 64<<10)}
	first, err := lines.next()
	if err == nil {
		s.Header, err = decodeHeader(first)
		s.Header.ID = f.id
	}
	s.Damaged = err != nil
	for {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return s, nil
		case err != nil && !errors.Is(err, errLong):
			return s, fmt.Errorf("read session %s: %w", f.id, err)
		}
		var e llm.Entry
		if s.Title == "" || lines.torn {
			e, err = decodeEntry(line)
		}
		if lines.torn && err != nil {
			return s, nil
		}
		if err == nil && counts(line) {
			s.Messages++
		}
		if err == nil && e.Role == llm.User && s.Title == "" {
			s.Title = title(e.Content)
		}
	}
}

// title returns the beginning of a message as one line, without the context of its task.
func title(content string) string {
	text, _ := llm.SplitContext(content)
	text = strings.TrimSpace(text)
	if len(text) > 4096 { // enough for a line
		text = strings.ToValidUTF8(text[:4096], "")
	}
	return cmp.Or(task.Shorten(text, 80), "(no text)")
}

// Latest returns the id of the session that was last used in the working directory dir. It ignores
// sessions without a message. The error wraps ErrNotFound if there is none.
func (st *Store) Latest(dir string) (string, error) {
	files, err := st.files()
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if h, err := st.header(f.id); err != nil || h.Dir != dir {
			continue
		}
		if s, err := st.summarize(f); err == nil && s.Messages > 0 {
			return f.id, nil
		}
	}
	return "", task.Hinted("start one without --continue", "%w in %s", ErrNotFound, dir)
}

func (st *Store) header(id string) (Header, error) {
	f, err := st.open(id, os.O_RDONLY)
	if err != nil {
		return Header{}, err
	}
	defer f.Close()
	lines := lineReader{r: bufio.NewReader(f)}
	line, err := lines.next()
	if err != nil {
		return Header{}, err
	}
	return decodeHeader(line)
}

// Remove deletes the session with that id, or whose id begins so. If the session is in use, the
// error wraps ErrInUse.
func (st *Store) Remove(id string) error {
	id, err := st.Find(id)
	if err != nil {
		return err
	}
	return st.remove(id, time.Time{})
}

// remove deletes a session if the last append to it was before the given time; the zero time means
// at any time. Otherwise, or if the session is in use, the error wraps ErrInUse.
func (st *Store) remove(id string, before time.Time) error {
	f, err := st.open(id, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return fmt.Errorf("remove session %s: %w", id, err)
	}
	if info, err := f.Stat(); err != nil || !before.IsZero() && !info.ModTime().Before(before) {
		return cmp.Or(err, ErrInUse) // it has just been used
	}
	return os.Remove(f.Name())
}

// Prune removes the sessions to which nobody has appended for longer than olderThan, and returns
// their ids. It does not remove sessions that are in use.
func (st *Store) Prune(olderThan time.Duration) ([]string, error) {
	files, err := st.files()
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	before := st.now().Add(-olderThan)
	for _, f := range files {
		if !f.modified.Before(before) {
			continue
		}
		err := st.remove(f.id, before)
		switch {
		case err == nil:
			removed = append(removed, f.id)
		case !errors.Is(err, ErrInUse) && !errors.Is(err, ErrNotFound):
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}
