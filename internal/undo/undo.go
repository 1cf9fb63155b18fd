// Package undo takes back what file tools changed in one answer of a conversation.
//
// Vocabulary: an answer is what the root does for one line of a person, with all agents that it starts. The book of a
// conversation keeps the changes of its last answer, in a folder of its own below $QQ_HOME. An agent has a journal in
// it, to which its process appends a record right before its tools change a file, with the content that the file has.
//
// Flow: the console calls [Book.Begin], runs the answer, and calls [Book.End] with its result. The wiring gives each
// agent that can change files a journal ([Book.Journal]). A child opens it ([Open]) before it enters its sandbox, which
// lets it write nowhere else in $QQ_HOME; package store tells the [Keeper] of each change. What a task in a copy
// changed is kept when it is joined ([Book.Join]). [Book.Look] says what can be undone, and [Book.Undo] does it. Both
// can be called again, also by a later process.
//
// A file is given back only if it is as the last tool left it, and if nothing but tools changed it in between. A record
// has the checksums of both contents, so that is known also if a process was killed between a record and its change.
// What is not given back is listed, and why: changed since, too large, not kept, or changed by a command or somebody
// else.
//
// A journal comes from a child and is read like the text of a stranger. It can only make the root write files in the
// folder of that child, where the child itself could write.
//
// Not promised: what commands changed outside of the working directory, or in files that git ignores; times, owners and
// links of files; anything after a power failure.
package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"qq/internal/agent/contents"
	"qq/pkg/task"
)

const (
	// maxFile is how large a file is whose content is kept, and maxAnswer how much is kept of one answer, in bytes.
	maxFile, maxAnswer = 8 << 20, 256 << 20
	// maxSeen is how many files the folder may have, and seeTime how long the look at it takes, so that it is known
	// what commands changed.
	maxSeen, seeTime = 20_000, time.Second
	// maxListed is how many files are listed that a command may have changed.
	maxListed = 1000
	// stale is how long the book of a conversation stays in which nothing happens.
	stale = 7 * 24 * time.Hour
)

// Book keeps the changes of the last answer of a conversation. A nil Book keeps nothing. Its methods may be called by
// several goroutines.
type Book struct {
	home string

	mu     sync.Mutex
	folder string // of the conversation
	dir    string // of the answer; empty unless one has begun
	before map[string]contents.Stamp
	number int // of journals
}

// begun is the file with what is known when an answer begins.
type begun struct {
	Dir     []byte    `json:"dir"` // the real path of the working directory
	Started time.Time `json:"started"`
}

// journal is a line of the file that lists the journals of an answer.
type journal struct {
	File string `json:"file"`
	Dir  []byte `json:"dir"` // the real path of the working directory of the agent
}

// ended is the file with what is known when an answer has ended.
type ended struct {
	Changed  [][]byte `json:"changed,omitempty"`  // files that tools changed, as the result says
	Others   [][]byte `json:"others,omitempty"`   // files that changed during the answer
	More     int      `json:"more,omitempty"`     // how many of these are not listed
	Unseen   bool     `json:"unseen,omitempty"`   // the folder is too large to know them
	Commands int      `json:"commands,omitempty"` // that the agent of the conversation ran
}

// The names of files in the folder of a book.
const (
	beginFile = "begin.json"
	listFile  = "journals"
	endFile   = "end.json"
	suffix    = ".kept"
)

// For returns the book of the conversation with that id. home is the folder of qq.
func For(home, conversation string) (*Book, error) {
	b := &Book{home: home}
	if err := b.Open(conversation); err != nil {
		return nil, err
	}
	return b, nil
}

// Open makes b the book of the conversation with that id: one that had none before, or another one.
func (b *Book) Open(conversation string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if conversation == "." || conversation != filepath.Base(conversation) || !filepath.IsLocal(conversation) {
		return fmt.Errorf("%q is no id of a conversation", conversation)
	}
	b.folder, b.dir = filepath.Join(b.home, "undo", conversation), ""
	return nil
}

// Begin begins an answer in the folder dir. What is kept of the answer before is removed.
func (b *Book) Begin(ctx context.Context, dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dir, b.before, b.number = "", nil, 0
	b.sweep()
	if err := os.RemoveAll(b.folder); err != nil {
		return fmt.Errorf("remove what was kept of the last answer: %w", err)
	}
	if err := os.MkdirAll(b.folder, 0o700); err != nil {
		return fmt.Errorf("make the folder for changes: %w", err)
	}
	if err := b.save(beginFile, begun{[]byte(real), time.Now()}); err != nil {
		return err
	}
	b.dir, b.before = real, b.see(ctx, real)
	return nil
}

// Remove removes all that is kept of the conversation, which has no transcript, for example.
func (b *Book) Remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dir, b.before = "", nil
	if err := os.RemoveAll(b.folder); err != nil {
		return fmt.Errorf("remove what was kept of the last answer: %w", err)
	}
	return nil
}

// sweep removes the books in which nothing has happened for a long time.
func (b *Book) sweep() {
	above := filepath.Dir(b.folder)
	entries, _ := os.ReadDir(above)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > stale {
			_ = os.RemoveAll(filepath.Join(above, e.Name()))
		}
	}
}

// see returns the stamps of the files in dir, or nil if there are too many.
func (b *Book) see(ctx context.Context, dir string) map[string]contents.Stamp {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), seeTime)
	defer cancel()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	files, err := contents.Stamps(ctx, root, dir, []string{b.home}, maxSeen)
	if err != nil {
		return nil
	}
	return files
}

// save writes v to a file of the book, as a whole or not at all.
func (b *Book) save(name string, v any) error {
	path := filepath.Join(b.folder, name)
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		_ = os.Remove(path + ".new")
		return fmt.Errorf("keep what was changed: %w", err)
	}
	return nil
}

// Journal returns the path of a new journal, for an agent that works in dir; "" if no answer has begun, or if there is
// no room for one. Then nothing that the agent changes is kept.
func (b *Book) Journal(dir string) string {
	if b == nil {
		return ""
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dir == "" {
		return ""
	}
	b.number++
	name := strconv.Itoa(b.number) + suffix
	line, err := json.Marshal(journal{name, []byte(real)})
	if err != nil || add(filepath.Join(b.folder, listFile), append(line, '\n')) != nil {
		return ""
	}
	path := filepath.Join(b.folder, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return ""
	}
	f.Close()
	return path
}

// add appends text to a file. A part of it does not stay.
func add(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return appendWhole(f, text)
}

// appendWhole appends text to f, or nothing.
func appendWhole(f *os.File, text []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err != nil {
		err = errors.Join(err, f.Truncate(info.Size()))
	}
	return err
}

// End ends the answer, with its result. From then on changes are those of somebody else.
func (b *Book) End(ctx context.Context, r task.Result) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dir == "" {
		return nil
	}
	e := ended{Unseen: true}
	for _, file := range r.ChangedFiles {
		if !filepath.IsAbs(file) {
			file = filepath.Join(b.dir, filepath.FromSlash(file))
		}
		e.Changed = append(e.Changed, []byte(file))
	}
	if r.Did != nil {
		e.Commands = len(r.Did.Commands) + r.Did.MoreCommands
	}
	if now := b.see(ctx, b.dir); now != nil && b.before != nil {
		e.Unseen = false
		files := contents.Differing(b.before, now)
		slices.Sort(files)
		e.More = max(0, len(files)-maxListed)
		for _, file := range files[:len(files)-e.More] {
			e.Others = append(e.Others, []byte(filepath.Join(b.dir, filepath.FromSlash(file))))
		}
	}
	b.dir, b.before = "", nil
	return b.save(endFile, e)
}

// load reads a file of the book into v. It returns false if there is none.
func (b *Book) load(name string, v any) (bool, error) {
	const most = 64 << 20
	path := filepath.Join(b.folder, name)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > most) {
		err = fmt.Errorf("%s is damaged", name)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return false, fmt.Errorf("read what was changed: %w", err)
	}
	return true, nil
}
