package order

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// memSpill is a Spill that counts.
type memSpill struct {
	results []task.Result
	taken   int
	full    bool
}

func (m *memSpill) Put(r task.Result) (int64, error) {
	if m.full {
		return 0, errors.New("disk full")
	}
	m.results = append(m.results, r)
	return int64(len(m.results) - 1), nil
}

func (m *memSpill) Take(key int64) (task.Result, error) {
	m.taken++
	return m.results[key], nil
}

// Results that wait behind a slow task are spilled, and nothing is lost
// when the disk is full.
func TestSpill(t *testing.T) {
	for _, full := range []bool{false, true} {
		spill := &memSpill{full: full}
		o := Results{Spill: spill}
		for i := 1; i < 10; i++ {
			o.Put(task.Result{Index: i, Output: strings.Repeat("x", spillAbove/4-500)})
		}
		_, ok, err := o.Next()
		require.NoError(t, err)
		require.False(t, ok)
		o.Put(task.Result{Index: 0})
		for i := range 10 {
			r, ok, err := o.Next()
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, i, r.Index)
		}
		assert.Zero(t, o.kept)
		if !full {
			assert.Equal(t, 5, spill.taken)
		}
	}
}
