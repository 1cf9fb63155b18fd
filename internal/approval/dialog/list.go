package dialog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"qq/internal/approval"
	"qq/internal/terminal"
	"qq/internal/terminal/keys"
	"qq/pkg/tool"
)

// listed is what a Terminal remembers of the open questions from one list to the next.
type listed struct {
	numbers map[string]int  // of the questions, by id: a question keeps its number
	last    int             // number
	whole   map[string]bool // of which a person saw everything, by id
	chosen  string          // id
}

// list shows several questions and reads single keys. Its rows are drawn again in place, from the cursor up; nothing
// above them is touched. One question is chosen, and the keys are about that:
//
//	2 questions wait for an answer:
//	› 1 coder 1b2c3d4e asks: run_pty_cmd "run: go test ./..."
//	  2 coder 5f607182 asks: edit_file "edit docs/a.md"
//
//	default › coder 1b2c3d4e asks: run_pty_cmd (executes, high risk)
//	  run: go test ./...
//	  │ go test ./...
//	  arrows or a number choose, Enter shows all of it, Escape leaves it to others
//	[o]nce, for this [s]ession (every run_pty_cmd, any command, any agent), [n]o:
//
// An answer that allows counts with Enter. When the chosen question ends, another one takes its place. Then no key
// counts until the keyboard was quiet for a moment: it was meant for what stood there before.
type list struct {
	*Terminal
	desk  approval.Desk
	turn  tool.Question
	open  []tool.Question
	above string          // rows to write above the list
	note  string          // a row of the list
	typed int             // the number that is being typed
	allow approval.Answer // that Enter gives to the chosen question; empty for none

	drawn  int  // rows that are on the screen, the last one with the cursor; 0 means that the next ones are new
	unseen bool // a part of the chosen question was never shown
	at     time.Time
	fresh  bool // a question was chosen by nobody
	deaf   time.Time
}

// meaning says what an answer allows.
var meaning = map[approval.Answer]string{
	approval.Once: "once", approval.Session: "for this session", approval.Folder: "always in this folder",
}

const (
	// drawTime is how often the list is drawn for others than the person who presses keys. A terminal must keep its
	// size for so long.
	drawTime = 100 * time.Millisecond
	// backgroundTime is how often a process in the background looks whether it may draw.
	backgroundTime = 200 * time.Millisecond
)

// several shows the open questions as a list until q is over, or the only one.
func (p *Terminal) several(ctx context.Context, q tool.Question, desk approval.Desk) error {
	keyboard, err := p.keyboard(p.Dumb)
	if err != nil {
		p.oneByOne = true
		return nil
	}
	defer keyboard.Close()
	if err := terminal.Flush(p.tty); err != nil {
		return fmt.Errorf("drop what was typed before the questions: %w", err)
	}
	l := &list{Terminal: p, desk: desk, turn: q, fresh: true}
	err = l.converse(ctx, keyboard.Events())
	if p.foreground() == nil {
		p.part(l.erase() + l.above)
	}
	p.wasResumed() // the list knows
	return err
}

// converse shows the list and reads keys.
func (l *list) converse(ctx context.Context, events <-chan terminal.Event) error {
	for {
		l.drain() // what watch tells
		changed := l.desk.Changed()
		if goes := l.look(ctx); !goes {
			return ctx.Err()
		}
		var again <-chan time.Time
		if l.foreground() != nil {
			l.drawn, again = 0, time.After(backgroundTime)
		} else if err := l.draw(ctx); err != nil {
			return err
		}
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				waits = false
			case <-again:
				waits = false
			case <-changed:
				changed, again = nil, time.After(drawTime-time.Since(l.at))
			case e, ok := <-events:
				switch {
				case !ok || e.Kind == terminal.Closed:
					return os.ErrClosed
				case e.Kind == terminal.Resized:
					l.drawn, again = 0, time.After(drawTime)
				case e.Kind == terminal.Resumed:
					l.drawn, l.fresh, waits = 0, true, false
					l.allow, l.note = "", ""
				case time.Now().Before(l.deaf): // it may be one of many
					l.deaf = time.Now().Add(deafTime)
					if l.note != dropped {
						l.note, waits = dropped, false
					}
				default:
					if err := l.press(ctx, e.Key); err != nil {
						return err
					}
					waits = false
				}
			}
		}
	}
}

// look asks the desk for the open questions, and tells how others ended. It reports whether the list goes on.
func (l *list) look(ctx context.Context) bool {
	before, m := l.open, &l.listed
	l.open = l.desk.Waiting()
	if ctx.Err() != nil { // the queue may not know yet
		l.open = slices.DeleteFunc(l.open, func(q tool.Question) bool { return q.ID == l.turn.ID })
	}
	for _, q := range before {
		if l.index(q.ID) < 0 {
			l.above += l.page().told(q, "→ "+l.fate(ctx, q)) + "\n"
		}
	}
	if len(l.open) < 2 || l.index(l.turn.ID) < 0 {
		if len(l.open) < 2 {
			*m = listed{}
		}
		return false
	}
	numbers, whole := map[string]int{}, map[string]bool{}
	for _, q := range l.open {
		if numbers[q.ID] = m.numbers[q.ID]; numbers[q.ID] == 0 {
			m.last++
			numbers[q.ID] = m.last
		}
		whole[q.ID] = m.whole[q.ID]
	}
	m.numbers, m.whole = numbers, whole
	if l.index(m.chosen) < 0 {
		at := slices.IndexFunc(before, func(q tool.Question) bool { return q.ID == m.chosen })
		m.chosen, l.fresh = l.open[min(max(at, 0), len(l.open)-1)].ID, true
		l.allow, l.note = "", ""
	}
	return true
}

// index returns where a question stands in the list; -1 means nowhere.
func (l *list) index(id string) int {
	return slices.IndexFunc(l.open, func(q tool.Question) bool { return q.ID == id })
}

// fate says what became of a question that is not open any more.
func (l *list) fate(ctx context.Context, q tool.Question) string {
	over := l.desk.Over(q.ID)
	switch {
	case over != nil && over.By == approval.ByTerminal:
		return string(over.Answer)
	case over != nil:
		return ended(over)
	case q.ID == l.turn.ID && ctx.Err() != nil:
		return ended(context.Cause(ctx))
	}
	return "left to others"
}

// page formats the rows of a list. None is as wide as the terminal: some put the cursor below such a row.
func (l *list) page() page {
	s := l.size()
	s.columns--
	return page{size: s, colour: l.colour, fits: true}
}

// draw writes the list.
func (l *list) draw(ctx context.Context) error {
	p := l.page()
	rows := l.rows(p)
	from, to := l.window(max(p.size.rows/4, leastListed))
	for _, q := range l.open[from:to] {
		l.desk.Shown(q.ID)
	}
	text := l.frame(rows)
	switch err := l.write(ctx, text); {
	case errors.Is(err, errResumed):
		l.drawn = 0
	case err != nil:
		l.drawn = 0
		return cmp.Or(ctx.Err(), err)
	case l.Dumb || len(rows) >= p.size.rows || p.columns < leastWidth+barWidth:
		l.drawn, l.above = 0, "" // it cannot be drawn again in place
	default:
		l.drawn, l.above = len(rows), ""
	}
	l.at = time.Now()
	if l.fresh {
		l.fresh, l.deaf = false, l.at.Add(deafTime)
	}
	return nil
}

// press does what a key means.
func (l *list) press(ctx context.Context, key keys.Key) error {
	typed, allow := l.typed, l.allow
	l.note, l.typed, l.allow = "", 0, ""
	at := l.index(l.listed.chosen)
	if at < 0 || key.Ctrl || key.Alt {
		return nil
	}
	switch q := l.open[at]; {
	case key.Code == keys.Up:
		l.listed.chosen = l.open[(at+len(l.open)-1)%len(l.open)].ID
	case key.Code == keys.Down, key.Code == keys.Tab:
		l.listed.chosen = l.open[(at+1)%len(l.open)].ID
	case key.Code == keys.Escape:
		if !l.desk.PutOff(q.ID) {
			l.note = "nobody else is there who could answer it"
		}
	case key.Code == keys.Enter && allow != "" && !l.unseen:
		_ = l.desk.Answer(q.ID, allow, approval.ByTerminal) // if it is over, look says how
	case key.Code == keys.Enter, key.Code == keys.Rune && (key.Rune == 'v' || key.Rune == 'a'):
		return l.whole(ctx, q)
	case key.Code == keys.Rune && '0' <= key.Rune && key.Rune <= '9':
		l.number(typed, int(key.Rune-'0'))
	case key.Code == keys.Rune:
		answer := answerOf(string(key.Rune), q)
		switch {
		case answer == "":
			l.note = "press one of the letters in brackets"
		case l.unseen && answer != approval.No:
			l.note = "a part was not shown: press Enter first"
		case answer == approval.No:
			_ = l.desk.Answer(q.ID, answer, approval.ByTerminal)
		default:
			l.allow = answer
			l.note = fmt.Sprintf("Enter allows %d: %s", l.listed.numbers[q.ID], meaning[answer])
		}
	}
	return nil
}

// number chooses the question whose number ends with digit, after the digits that were typed before.
func (l *list) number(typed, digit int) {
	for _, n := range []int{typed*10 + digit, digit} {
		for id, number := range l.listed.numbers {
			if number == n {
				l.listed.chosen, l.typed = id, n
				return
			}
		}
	}
	l.note = "there is no question with this number"
}

// whole shows all of a question above the list.
func (l *list) whole(ctx context.Context, q tool.Question) error {
	text, _ := page{size: l.size(), colour: l.colour}.question(q, true)
	text = l.erase() + text
	l.drawn = 0
	switch err := l.write(ctx, text); {
	case errors.Is(err, errResumed):
		l.note = "it was not shown whole"
		return nil
	case err != nil:
		return cmp.Or(ctx.Err(), err)
	}
	l.listed.whole[q.ID] = true
	return nil
}
