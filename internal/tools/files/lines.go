package files

import (
	"bytes"
	"io"

	"qq/internal/tools/store"
)

// Lines counts the lines of a file, to check a reference such as docs/x.md:12. ok is false if path is no file in
// the working directory or cannot be read. In a file too large to be changed, it counts only the lines of the
// beginning.
func (w *Workspace) Lines(path string) (n int, ok bool) {
	rel, info, err := w.find(path)
	if err != nil {
		return 0, false
	}
	f, err := w.openFound(path, rel, info)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	in := io.LimitReader(f, store.MaxSize)
	buf := make([]byte, 64<<10)
	last := byte('\n')
	for {
		k, err := in.Read(buf)
		if k > 0 {
			n += bytes.Count(buf[:k], []byte{'\n'})
			last = buf[k-1]
		}
		if err != nil {
			if last != '\n' {
				n++
			}
			return n, err == io.EOF
		}
	}
}
