// Package gitpatch writes changes of files as a patch in the format of git, which `git apply` takes: with modes, links,
// binary files and names of any bytes. The format has no folders.
package gitpatch

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the format has these sums
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Blob is a file or link at one point of time. The zero Blob is none.
type Blob struct {
	Mode fs.FileMode // with the type; 0 means that there is no file
	Data []byte      // the content, or the target of a link
}

// Change is what happened to the file at Path, which has slashes.
type Change struct {
	Path     string
	Old, New Blob
}

// Bounds of a change that is written as lines. Others are written as bytes.
const (
	maxText  = 1 << 20
	sniffed  = 8000 // bytes in which git looks for a NUL
	perLine  = 52   // bytes of a binary patch
	contexts = 3
)

// Write writes the changes. What is no file and no link counts as no file.
func Write(w io.Writer, changes []Change) error {
	for _, c := range changes {
		old, now := c.Old, c.New
		if old.Mode != 0 && now.Mode != 0 && old.Mode.Type() != now.Mode.Type() { // as git does: remove, then make
			if err := write(w, c.Path, old, Blob{}); err != nil {
				return err
			}
			old = Blob{}
		}
		if err := write(w, c.Path, old, now); err != nil {
			return err
		}
	}
	return nil
}

func write(w io.Writer, path string, old, now Blob) error {
	was, is := mode(old), mode(now)
	if was == is && bytes.Equal(old.Data, now.Data) {
		return nil
	}
	from, to := quote("a/"+path), quote("b/"+path)
	head, index := fmt.Sprintf("diff --git %s %s\n", from, to), ""
	switch {
	case was == "":
		head, from = head+"new file mode "+is+"\n", "/dev/null"
	case is == "":
		head, to = head+"deleted file mode "+was+"\n", "/dev/null"
	case was != is:
		head += "old mode " + was + "\nnew mode " + is + "\n"
	default:
		index = " " + is
	}
	if was == is || !bytes.Equal(old.Data, now.Data) || was == "" || is == "" {
		head += fmt.Sprintf("index %s..%s%s\n", sum(old), sum(now), index)
	}
	if _, err := io.WriteString(w, head); err != nil || bytes.Equal(old.Data, now.Data) {
		return err
	}
	if binaryData(old.Data) || binaryData(now.Data) {
		return writeBinary(w, now.Data)
	}
	diff, err := udiff.ToUnified("-", "-", string(old.Data), udiff.Lines(string(old.Data), string(now.Data)), contexts)
	if err != nil {
		return err
	}
	_, hunks, _ := strings.Cut(diff, "@@")
	_, err = fmt.Fprintf(w, "--- %s\n+++ %s\n@@%s", ended(from), ended(to), hunks)
	return err
}

// ended returns a name as it stands in a line of its own: a tab ends one with spaces.
func ended(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

// mode returns the mode that git has for b, "" for none.
func mode(b Blob) string {
	switch {
	case b.Mode == 0:
		return ""
	case b.Mode.Type() == fs.ModeSymlink:
		return "120000"
	case b.Mode.Perm()&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// sum returns the name that git has for the content of b.
func sum(b Blob) string {
	if b.Mode == 0 {
		return strings.Repeat("0", 40)
	}
	h := sha1.New() //nolint:gosec // see above
	fmt.Fprintf(h, "blob %d\x00", len(b.Data))
	h.Write(b.Data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

func binaryData(data []byte) bool {
	return len(data) > maxText || bytes.IndexByte(data[:min(len(data), sniffed)], 0) >= 0
}

// digits are those of the numbers of a binary patch, to the base 85.
const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// writeBinary writes the new content of a file as git does: compressed, in lines that begin with their length.
func writeBinary(w io.Writer, data []byte) error {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "GIT binary patch\nliteral %d\n", len(data))
	for packed.Len() > 0 {
		line := packed.Next(perLine)
		length := byte('A' + len(line) - 1)
		if len(line) > 26 {
			length = byte('a' + len(line) - 27)
		}
		out.WriteByte(length)
		for len(line) > 0 {
			var group [4]byte
			line = line[copy(group[:], line):]
			n, text := binary.BigEndian.Uint32(group[:]), [5]byte{}
			for i := 4; i >= 0; i-- {
				text[i] = digits[n%85]
				n /= 85
			}
			out.Write(text[:])
		}
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	_, err := io.WriteString(w, out.String())
	return err
}

// quote returns a name as git writes it: in quotes, with escapes, if it has other than plain characters.
func quote(name string) string {
	var b strings.Builder
	plain := true
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
			continue
		}
		plain = false
	}
	if plain {
		return name
	}
	return `"` + b.String() + `"`
}
