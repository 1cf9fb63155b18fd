package console

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"qq/internal/terminal/editor"
	"qq/pkg/regular"
)

// Limits of the history file.
const (
	historyFile = "history"
	maxHistory  = 4 << 20  // bytes that are read: the last ones
	maxEntry    = 32 << 10 // bytes of an entry; longer ones are kept by this process only
)

// memory is the file with what was typed in earlier conversations, a JSON string on each line. Nobody else may read it.
type memory struct{ path string }

// load returns the history. What cannot be read is left out.
func (m memory) load() (*editor.History, error) {
	f, info, err := regular.Open(m.path, os.O_RDONLY|syscall.O_NOFOLLOW)
	if os.IsNotExist(err) {
		return editor.NewHistory(nil), nil
	}
	if err != nil {
		return editor.NewHistory(nil), fmt.Errorf("the history is not kept: %w", err)
	}
	defer f.Close()
	if over := info.Size() - maxHistory; over > 0 {
		if _, err := f.Seek(over, io.SeekStart); err != nil {
			return editor.NewHistory(nil), err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxHistory))
	var entries []string
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxHistory)
	for lines.Scan() {
		var entry string
		if json.Unmarshal(lines.Bytes(), &entry) == nil && len(entry) <= maxEntry {
			entries = append(entries, strings.ToValidUTF8(entry, ""))
		}
	}
	h := editor.NewHistory(entries)
	if info.Size() > maxHistory/2 {
		m.rewrite(h)
	}
	return h, err
}

// rewrite replaces a file that has grown large by one with the entries that are used. On failure it stays as it is.
func (m memory) rewrite(h *editor.History) {
	f, err := os.CreateTemp(filepath.Dir(m.path), historyFile)
	if err != nil {
		return
	}
	defer os.Remove(f.Name())
	w := bufio.NewWriter(f)
	for _, entry := range h.Entries() {
		line, _ := json.Marshal(entry)
		_, _ = w.Write(append(line, '\n'))
	}
	if w.Flush() == nil && f.Close() == nil {
		_ = os.Rename(f.Name(), m.path)
	}
}

// add appends an entry. One that begins with a space is not kept, as in shells.
func (m memory) add(entry string) error {
	if m.path == "" || len(entry) > maxEntry || strings.HasPrefix(entry, " ") {
		return nil
	}
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(m.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(append(line, '\n')); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
