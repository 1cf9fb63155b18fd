package dialog

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// confirmed is what a Confirm returned.
type confirmed struct {
	yes bool
	err error
}

func (d *terminalScreen) confirms(ctx context.Context, lines ...string) <-chan confirmed {
	c := make(chan confirmed, 1)
	go func() {
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		yes, err := d.Confirm(ctx, Confirmation{"A head:", lines, lines, "Is it so?"})
		c <- confirmed{yes, err}
	}()
	return c
}

// TestConfirm: only y means yes, and Enter means no. What is typed before the question does not answer it, and the
// text is all spelled out.
func TestConfirm(t *testing.T) {
	const choice = "[y]es, [n]o: "
	for line, want := range map[string]bool{"y": true, " YES ": true, "n": false, "No": false, "": false} {
		d := newScreen(t, false, nil)
		d.typed("y\n")
		d.expect("y\r\n")
		c := d.confirms(t.Context(), "a\x1b[2J\u202eb", strings.Repeat("c", 80))
		assert.Equal(t, "\nA head:\n  │ a␛[2J<U+202E>b\n  │ "+strings.Repeat("c", 76)+"\n  ┆ cccc\nIs it so?\n",
			d.expect(choice))
		d.typed("o\n")
		d.expect("type y or n\r\n" + choice)
		d.typed(line + "\n")
		assert.Equal(t, confirmed{want, nil}, <-c, "%q", line)
	}
	d := newScreen(t, false, nil)
	ctx, cancel := context.WithCancel(t.Context())
	c := d.confirms(ctx, "a")
	d.expect(choice)
	cancel()
	require.ErrorIs(t, (<-c).err, context.Canceled)
	c = d.confirms(t.Context(), "a")
	d.expect(choice)
	d.typed("\x04")
	require.ErrorIs(t, (<-c).err, errEOF, "no answer")
}

// TestConfirmLeftOut: yes to a line that leaves something out counts only after all of it was shown.
func TestConfirmLeftOut(t *testing.T) {
	d := newScreen(t, false, nil)
	yes := make(chan confirmed, 1)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	go func() {
		ok, err := d.Confirm(ctx, Confirmation{"A head:", []string{"a … c"}, []string{"a b c"}, "Is it so?"})
		yes <- confirmed{ok, err}
	}()
	assert.Contains(t, d.expect("show [a]ll first, [n]o: "), "│ a … c\n")
	d.typed("y\n")
	d.expect("type a or n\r\nshow [a]ll first, [n]o: ")
	d.typed("a\n")
	assert.Contains(t, d.expect("[y]es, [n]o: "), "│ a b c\n")
	d.typed("y\n")
	assert.Equal(t, confirmed{true, nil}, <-yes)
}

// TestConfirmLong: yes to more than a page counts only after all of it was shown. The last lines are next to the
// question in any case.
func TestConfirmLong(t *testing.T) {
	lines := make([]string, 500)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d.", i)
	}
	d := newScreen(t, false, nil)
	c := d.confirms(t.Context(), lines...)
	shown := d.expect("show [a]ll first, [n]o: ")
	assert.Less(t, strings.Count(shown, "\n"), 50)
	assert.Contains(t, shown, "rows are left out here")
	assert.Contains(t, shown, "│ line 499.\nIs it so?\n")
	d.typed("y\n")
	d.expect("type a or n\r\nshow [a]ll first, [n]o: ")
	d.typed("a\n")
	shown = d.expect("[y]es, [n]o: ")
	assert.Equal(t, 500, strings.Count(shown, "│ line "))
	d.typed("y\n")
	assert.Equal(t, confirmed{true, nil}, <-c)
}
