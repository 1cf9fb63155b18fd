// Package pane shows rows on the whole screen of a terminal, in its alternate screen, so that what was there before
// comes back. It writes only what has changed, each time in one write, and never clears the screen.
package pane

import (
	"fmt"
	"strings"
	"sync"

	"qq/internal/app/columns"
	"qq/internal/app/command/block"
)

// Control sequences of terminals.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l" // without wrapping: a terminal may be narrower than it has said yet
	leave = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	clear = "\x1b[K" // from the cursor to the end of its row
	below = "\x1b[J" // from the cursor to the end of the screen
	plain = "\x1b[0m"
)

// Style is how a row looks.
type Style string

// Styles of rows.
const (
	Plain  Style = ""
	Chosen Style = "\x1b[7m"
	Head   Style = "\x1b[1m"
	Faint  Style = "\x1b[2m"
)

// Row is one row.
type Row struct {
	Text  string // printable, on one line
	Style Style
}

// Terminal is what a Pane is shown on.
type Terminal interface {
	// Draw writes text at once.
	Draw(text string) error
}

// Pane is the screen of one terminal. Several goroutines may use it.
type Pane struct {
	on    Terminal
	plain bool // without styles

	mu    sync.Mutex
	open  bool
	size  block.Size
	shown []Row
}

// New returns a Pane on that terminal. It is not open. Without colour its rows have no styles.
func New(on Terminal, colour bool) *Pane { return &Pane{on: on, plain: !colour} }

// Open shows an empty screen.
func (p *Pane) Open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open, p.shown, p.size = true, nil, block.Size{}
	return p.on.Draw(enter)
}

// Close shows what was there before.
func (p *Pane) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return nil
	}
	p.open = false
	return p.on.Draw(leave)
}

// Resized says that the terminal has moved or cut what is shown, even if its size is the same again.
func (p *Pane) Resized() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = block.Size{}
}

// Draw shows rows on a screen of that size, from the first row on. What does not fit is left out.
func (p *Pane) Draw(rows []Row, size block.Size) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return nil
	}
	rows = p.fit(rows, size)
	var s strings.Builder
	if size != p.size {
		p.shown, p.size = nil, size
	}
	for i, row := range rows {
		known := i < len(p.shown)
		if known && p.shown[i] == row {
			continue
		}
		fmt.Fprintf(&s, "\x1b[%dH", i+1)
		switch {
		case known && p.shown[i].Style == row.Style && row.Style == Plain:
			s.WriteString(block.Change(p.shown[i].Text, row.Text))
		case row.Style == Plain:
			s.WriteString(row.Text + clear)
		default:
			s.WriteString(string(row.Style) + row.Text + plain + clear)
		}
	}
	if p.shown == nil || len(rows) < len(p.shown) {
		if len(rows) < size.Rows {
			fmt.Fprintf(&s, "\x1b[%dH%s", len(rows)+1, below)
		}
	}
	p.shown = rows
	if s.Len() == 0 {
		return nil
	}
	return p.on.Draw(s.String())
}

// fit returns rows as they fit.
func (p *Pane) fit(rows []Row, size block.Size) []Row {
	fitting := make([]Row, 0, len(rows))
	for _, row := range rows[:min(len(rows), size.Rows)] {
		row.Text = columns.First(row.Text, size.Columns-1) // some terminals wrap after the last column
		if row.Style == Chosen && !p.plain {
			row.Text += strings.Repeat(" ", max(size.Columns-1-columns.Of(row.Text), 0))
		}
		if p.plain {
			row.Style = Plain
		}
		fitting = append(fitting, row)
	}
	return fitting
}
