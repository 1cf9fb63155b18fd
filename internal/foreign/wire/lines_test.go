package wire

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	l := NewLines(strings.NewReader("a\r\n\nb\n" + strings.Repeat("x", MaxLine) + "\nc"))
	for _, want := range []string{"a", "", "b", strings.Repeat("x", MaxLine)} {
		line, err := l.Next()
		require.NoError(t, err)
		assert.Equal(t, len(want), len(line))
		assert.True(t, string(line) == want)
	}
	line, err := l.Next()
	assert.ErrorIs(t, err, ErrHalf)
	assert.Equal(t, "c", string(line))
	_, err = l.Next()
	assert.ErrorIs(t, err, io.EOF)
	assert.True(t, l.Half)
	assert.Zero(t, l.Skipped)

	l = NewLines(io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(io.ErrNoProgress)))
	_, err = l.Next()
	require.NoError(t, err)
	_, err = l.Next()
	assert.ErrorIs(t, err, io.ErrNoProgress)
}

// endless is a line of n bytes.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.n)
	e.n -= n
	for i := range p[:n] {
		p[i] = 'x'
	}
	return n, nil
}

// TestLongLine: a line of 100 MB is left out, costs no more than one that is read, and the next one is read.
func TestLongLine(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := NewLines(io.MultiReader(&endless{100 << 20}, strings.NewReader("\nnext\n"), &endless{MaxLine + 2}))
	_, err := l.Next()
	assert.ErrorIs(t, err, ErrTooLong)
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8*MaxLine))
	line, err := l.Next()
	require.NoError(t, err)
	assert.Equal(t, "next", string(line))
	_, err = l.Next()
	assert.ErrorIs(t, err, ErrTooLong)
	_, err = l.Next()
	assert.ErrorIs(t, err, io.EOF)
	assert.Equal(t, 2, l.Skipped)
}

// TestRead: a reader of lines gets whole ones only.
func TestRead(t *testing.T) {
	l := NewLines(io.MultiReader(strings.NewReader("one\n"), &endless{MaxLine + 2}, strings.NewReader("\ntwo\nhalf")))
	text, err := io.ReadAll(iotest.OneByteReader(l))
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\n", string(text))
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nc"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l := NewLines(bytes.NewReader(text))
		var got [][]byte
		for {
			line, err := l.Next()
			if err == io.EOF {
				break
			}
			got = append(got, bytes.Clone(line))
		}
		plain := func(text []byte) string { return strings.ReplaceAll(string(text), "\r", "") }
		assert.Equal(t, plain(text), plain(append(bytes.Join(got, []byte("\n")), end(text)...)))
	})
}

// end is the newline at the end of text.
func end(text []byte) []byte {
	if bytes.HasSuffix(text, []byte("\n")) {
		return []byte("\n")
	}
	return nil
}
