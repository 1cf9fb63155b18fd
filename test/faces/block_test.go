package faces

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qq/internal/app/columns"
	"qq/internal/app/command/block"
)

// words are what the texts of the tests are made of: plain ones, wide characters, combining ones.
var words = []string{"one ", "two", "漢字", "かな ", "e\u0301 ", "\n", "\n\n", "a long line of words that goes on ", "x", "é ",
	"0123456789", "\n\t", "😀", "\n● not a line of the block\n", strings.Repeat("wide 漢 ", 30)}

// typist is what one test does with a block: it says text and changes the lines below.
type typist struct {
	*testing.T
	random *rand.Rand
	block  block.Block
	lines  []string // that the block is to show

	seen, text *Screen // with the block, and with the text alone
}

func (p *typist) size() block.Size { return block.Size{Columns: p.seen.Width(), Rows: p.seen.Height()} }

// say writes text as command.Screen does.
func (p *typist) say(text string) {
	p.text.Print(text)
	if p.block.Lines() > 0 && !p.block.Fits(text, p.size()) {
		p.seen.Print(p.block.Erase(p.size()))
	}
	text = p.block.Rest(text)
	p.block.Wrote(text, p.size())
	p.seen.Print(text)
	p.seen.Print(p.block.Draw(p.lines, p.size()))
}

// show changes the lines.
func (p *typist) show() {
	switch n := p.random.IntN(4); {
	case n == 0 || len(p.lines) == 0:
		p.lines = nil
		for i := range p.random.IntN(10) {
			p.lines = append(p.lines, fmt.Sprintf("● child %d  grep_file %q  %d s", i, words[p.random.IntN(2)], i))
		}
	case n == 1:
		p.lines = append([]string{}, p.lines...)
		p.lines[p.random.IntN(len(p.lines))] = "● 漢字 " + strings.Repeat("ab 漢", p.random.IntN(60))
	case n == 2:
		p.lines = p.lines[:len(p.lines)-1]
	default:
		p.lines = append(p.lines[:len(p.lines):len(p.lines)], "◦ 3 queued")
	}
	p.seen.Print(p.block.Draw(p.lines, p.size()))
}

// resize gives the terminals another width. What a terminal does with the rows that it has is its own affair, so the
// text is compared from then on.
func (p *typist) resize() {
	wide := 20 + p.random.IntN(181)
	p.seen.Resize(wide, p.seen.Height())
	p.text = NewScreen(wide, p.seen.Height())
	p.seen.Print(p.block.Draw(p.lines, p.size()))
	p.compareLines()
	p.say("\n")
	p.text = NewScreen(wide, p.seen.Height())
}

// compare compares the screen with what should be on it.
func (p *typist) compare() {
	p.Helper()
	p.compareLines()
	gone := p.text.ScrollbackLen() + p.text.CursorPosition().Y
	want, got := p.text.Above(gone), p.seen.Above(gone)
	if p.block.Lines() == 1 && got[len(got)-1] == p.fitting()[0] { // the line is in the row of the cursor
		got[len(got)-1] = ""
	}
	if p.text.CursorPosition().X == p.text.Width()-1 { // the row is full: the block has ended it
		if last := len(got) - 1; got[last] == "" {
			want = append(want, "")[1:]
		}
	}
	require.Equal(p, want, got)
}

// fitting returns the lines as the screen can show them.
func (p *typist) fitting() []string {
	var all []string
	for _, line := range p.lines {
		all = append(all, strings.TrimRight(columns.First(line, p.seen.Width()-1), " "))
	}
	return all
}

func (p *typist) compareLines() {
	p.Helper()
	want, got := p.fitting(), p.seen.Below()
	if len(want) == 1 && len(got) == 0 {
		got = []string{p.seen.Row(p.seen.CursorPosition().Y)}
	}
	require.Equal(p, want, got)
}

// TestBlock: whatever is written and however the lines change, the text is as it is without them, and below it are
// the lines, at each width and through resizes.
func TestBlock(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 14))
		wide := 20 + random.IntN(181)
		p := &typist{T: t, random: random, seen: NewScreen(wide, 24), text: NewScreen(wide, 24)}
		for range 200 {
			switch n := random.IntN(40); {
			case n == 0:
				p.resize()
			case n < 15:
				p.show()
			default:
				p.say(words[random.IntN(len(words))])
			}
			p.compare()
		}
	}
}
