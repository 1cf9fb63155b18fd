package dialog

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qq/internal/approval"
)

// Somebody who halts the terminal with Control-S halts the question, not the run.
func TestHalted(t *testing.T) {
	d := newScreen(t, false, nil)
	require.NoError(t, unix.IoctlSetInt(d.tty, unix.TCXONC, unix.TCOOFF))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.Equal(t, reply{"", context.DeadlineExceeded}, <-d.asks(ctx, question()))

	c := d.asks(t.Context(), question())
	require.NoError(t, unix.IoctlSetInt(d.tty, unix.TCXONC, unix.TCOON))
	d.expect(choice)
	d.typed("o\n")
	assert.Equal(t, reply{approval.Once, nil}, <-c)
}
