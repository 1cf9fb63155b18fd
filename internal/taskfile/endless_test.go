package taskfile

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/taskfile/until"
	"qq/pkg/task"
)

// endless repeats a text. After some mebibytes it ends a context.
type endless struct {
	text string
	left int
	end  context.CancelCauseFunc
	why  error
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left -= len(p); e.left < -(64 << 20) {
		return 0, io.EOF // the reader did not look at the context
	}
	if e.left < 0 {
		e.end(e.why)
	}
	n := 0
	for n+len(e.text) <= len(p) {
		n += copy(p[n:], e.text)
	}
	return n, nil
}

// long leaves out a test that takes long with -short, as under the race detector: this package has no goroutines.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long, and has one goroutine")
	}
}

// An input without an end and without a task ends with the context.
func TestEndless(t *testing.T) {
	long(t)
	for name, of := range map[string]struct {
		text string
		in   Source
	}{
		"zeros":  {"\x00", Source{Null: true}},
		"blanks": {"\n", Source{Form: Lines}},
		"rows":   {",\n", Source{Form: CSV, Template: "x"}},
		"list":   {"\n", Source{Lists: []List{{File: "stdin"}}}},
		"lists":  {"\n", Source{Lists: []List{{Values: []string{"x"}}, {File: "stdin"}}}},
		"shuf":   {"a\n", Source{Form: Lines, Shuffle: true}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("enough")
			var from io.Reader = &endless{of.text, 1 << 20, cancel, why}
			if of.in.Form == CSV {
				from = io.MultiReader(strings.NewReader("a,b\n"), from)
			}
			in := of.in
			in.Input = from
			for i, l := range in.Lists {
				if l.File != "" {
					in.Lists[i].Input = from
				}
			}
			_, err := Check(ctx, in, t.TempDir(), nil)
			require.ErrorIs(t, err, why)
		})
	}
}

// The tasks that are in their random order are not read either when the context has ended, nor is that order made.
func TestStopSorting(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	in := Source{Input: strings.NewReader(strings.Repeat("a\n", 10)), Form: Lines, Shuffle: true}
	made := 0
	_, err := Check(ctx, in, t.TempDir(), func(int, task.Task) error {
		made++
		cancel(why)
		return nil
	})
	require.ErrorIs(t, err, why)
	assert.Equal(t, 1, made)
	_, err = until.Perm(ctx, 1<<20, rand.New(rand.NewPCG(1, 2)))
	require.ErrorIs(t, err, why)
	got, err := until.Perm(t.Context(), 1000, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	assert.Equal(t, rand.New(rand.NewPCG(1, 2)).Perm(1000), got, "a batch that is resumed has the order that it had")
}
