package dialog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qq/internal/approval"
	"qq/pkg/event"
	"qq/pkg/tool"
)

// hall is a queue with a terminal, and children that ask.
type hall struct {
	*terminalScreen
	queue *approval.Queue
	wg    sync.WaitGroup

	mu     sync.Mutex
	got    map[string]tool.Decision // by the summary
	events []event.Event
}

func newHall(t *testing.T, rows, columns uint16) *hall {
	t.Helper()
	h := &hall{terminalScreen: newScreen(t, false, nil), got: map[string]tool.Decision{}}
	h.size(rows, columns)
	t.Cleanup(func() { // a test that fails leaves questions
		for _, q := range h.queue.Open() {
			_ = h.queue.Answer(q.ID, approval.No, approval.BySocket)
		}
	})
	h.queue = approval.NewQueue(approval.QueueConfig{Prompter: h.Terminal, Events: h})
	return h
}

func (h *hall) size(rows, columns uint16) {
	h.t.Helper()
	require.NoError(h.t, pty.Setsize(h.screen, &pty.Winsize{Rows: rows, Cols: columns}))
}

// Emit implements approval.Emitter.
func (h *hall) Emit(e event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// asks asks for a command, as a child, and waits until the question is open.
func (h *hall) asks(ctx context.Context, n int, preview string) {
	h.t.Helper()
	summary := fmt.Sprint("run: step ", n)
	q := tool.Question{
		Chain: []string{"default", "coder"}, Depth: 1, ExecutionID: fmt.Sprintf("0000aaaa%08d", n),
		Intent: tool.Intent{Tool: "run_pty_cmd", Effect: tool.Executes, Risk: tool.High, Summary: summary,
			Preview: preview},
	}
	h.wg.Go(func() {
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		d := h.queue.Ask(ctx, q)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got[summary] = d
	})
	require.Eventually(h.t, func() bool { return h.id(n) != "" }, 10*time.Second, time.Millisecond)
}

// id returns the id of an open question.
func (h *hall) id(n int) string {
	for _, q := range h.queue.Open() {
		if q.Intent.Summary == fmt.Sprint("run: step ", n) {
			return q.ID
		}
	}
	return ""
}

// answered returns who answered what, by the number of the question, when all is over.
func (h *hall) answered() map[string]string {
	h.wg.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]string{}
	for _, e := range h.events {
		if e.Type == event.ValidationResolved {
			n := strings.TrimPrefix(e.Intent.Summary, "run: step ")
			all[n] = strings.TrimSpace(e.Decision + " " + e.AnsweredBy)
		}
	}
	return all
}

// hear waits until keys count again. On a loaded machine the list is on the screen before its second begins.
func hear() { time.Sleep(deafTime + 250*time.Millisecond) }

// row returns a pattern of a row of the list.
func row(n int, chosen bool) string {
	before := "  "
	if chosen {
		before = mark
	}
	return before + fmt.Sprintf("%d coder %08d asks: run_pty_cmd \"run: step %d\"", n, n, n)
}

// rows lists the rows on the screen that begin with a number, or with a mark.
var listRow = regexp.MustCompile(`(?m)^(  |› )\d+ .*$`)

func (h *hall) listing() []string { return listRow.FindAllString(h.visible(), -1) }

// sees waits until the list on the screen is that.
func (h *hall) sees(rows ...string) {
	h.t.Helper()
	ok := assert.Eventually(h.t, func() bool { return assert.ObjectsAreEqual(rows, h.listing()) }, 10*time.Second,
		5*time.Millisecond)
	if !ok {
		h.t.Fatalf("on the screen: %s", h.visible())
	}
}

// alone waits until only that question is shown.
func (h *hall) alone(n int) {
	h.t.Helper()
	ok := assert.Eventually(h.t, func() bool {
		v := h.visible()
		return len(h.listing()) == 0 && strings.HasSuffix(v, "\n"+choice) &&
			strings.Contains(v[strings.LastIndex(v, "default › coder"):], fmt.Sprintf("coder %08d asks", n))
	}, 10*time.Second, 5*time.Millisecond)
	if !ok {
		h.t.Fatalf("on the screen: %s", h.visible())
	}
}

// shows waits until a person sees text.
func (h *hall) shows(text string) {
	h.t.Helper()
	ok := assert.Eventually(h.t, func() bool { return strings.Contains(h.visible(), text) }, 10*time.Second,
		5*time.Millisecond)
	if !ok {
		h.t.Fatalf("%q is not on the screen: %s", text, h.visible())
	}
}

// visible returns what a person sees, without the rows that have left the screen above.
func (h *hall) visible() string {
	size := h.Terminal.size()
	h.terminalScreen.mu.Lock()
	defer h.terminalScreen.mu.Unlock()
	return replay(h.seen, size.columns)
}

// Three children ask at once, and a person answers them in reverse order.
func TestListInReverse(t *testing.T) {
	h := newHall(t, 40, 80)
	for n := 1; n <= 3; n++ {
		h.asks(t.Context(), n, fmt.Sprint("step ", n))
	}
	h.sees(row(1, true), row(2, false), row(3, false))
	assert.Contains(t, h.visible(), "3 questions wait for an answer:\n")
	assert.Contains(t, h.visible(), "\n  "+help+"\n", "it fits 80 columns")
	assert.Contains(t, h.visible(), "\ndefault › coder 00000001 asks: run_pty_cmd (executes, high risk)\n"+
		"  run: step 1\n  │ step 1\n")
	hear()
	h.typed("3")
	h.sees(row(1, false), row(2, false), row(3, true))
	h.typed("y")
	h.shows("Enter allows 3: once")
	assert.Len(t, h.queue.Open(), 3, "an answer that allows needs Enter")
	h.typed("\r")
	h.sees(row(1, false), row(2, true))
	assert.Contains(t, h.visible(), "\ncoder 00000003 asks: run_pty_cmd \"run: step 3\" → once\n2 questions wait")
	hear()
	h.typed("n")
	h.shows("→ no")
	h.alone(1)
	h.typed("o\n")
	assert.Equal(t, map[string]string{"1": "once terminal", "2": "no terminal", "3": "once terminal"}, h.answered())
	assert.Equal(t, tool.Decision{Allowed: true, Shown: true}, h.got["run: step 3"])
}

// A question that comes while another one is shown makes a list of both, and what was typed is dropped.
func TestListJoins(t *testing.T) {
	h := newHall(t, 40, 80)
	h.asks(t.Context(), 1, "")
	h.alone(1)
	h.typed("o")
	h.expect("o")
	h.asks(t.Context(), 2, "")
	h.sees(row(1, true), row(2, false))
	for range 20 { // meant for what stood there before, for longer than keys are dropped
		h.typed("y\r")
		time.Sleep(150 * time.Millisecond)
	}
	h.shows(dropped)
	hear()
	assert.Len(t, h.queue.Open(), 2, "no key counts at once")
	h.typed("\x1by\x13\x0f\x1b[200~y\x1b[201~") // Alt-y, Control-S, Control-O, and pasted text
	h.typed("x")
	h.shows("press one of the letters in brackets")
	assert.Len(t, h.queue.Open(), 2, "these are no answers")
	h.typed("s\r")
	assert.Equal(t, map[string]string{"1": "session terminal", "2": "session terminal"}, h.answered())
}

// The keys of a list: arrows, numbers, all of a question, unknown ones.
func TestListKeys(t *testing.T) {
	h := newHall(t, 30, 80)
	for n := 1; n <= 2; n++ {
		h.asks(t.Context(), n, strings.Repeat("line\n", 100))
	}
	h.sees(row(1, true), row(2, false))
	hear()
	h.typed("\x1b[B")
	h.sees(row(1, false), row(2, true))
	h.typed("\x1b[B")
	h.sees(row(1, true), row(2, false))
	h.typed("\x1b[A")
	h.sees(row(1, false), row(2, true))
	h.typed("1")
	h.sees(row(1, true), row(2, false))
	h.typed("7")
	h.expect("there is no question with this number")
	assert.Contains(t, h.visible(), "\n[Enter] shows all of it first, [n]o: ")
	for _, yes := range []string{"y", "o", "s"} {
		h.typed(yes)
		h.expect("a part was not shown: press Enter first")
	}
	h.typed("x")
	h.expect("press one of the letters in brackets")
	h.typed("\x1b[200~y\x1b[201~\x04\x1by")
	h.typed("\r")
	h.shows(strings.Repeat("  │ line\n", 100))
	h.shows("\n[o]nce, ")
	h.typed("y\r")
	h.shows("→ once")
	h.shows("\nshow [a]ll first, [n]o: ")
	h.typed("n\n")
	assert.Equal(t, map[string]string{"1": "once terminal", "2": "no terminal"}, h.answered())
}

// An answer elsewhere takes the question off the terminal, which says so in one row.
func TestListWithdrawn(t *testing.T) {
	h := newHall(t, 40, 80)
	ctx, cancel := context.WithCancelCause(t.Context())
	h.asks(t.Context(), 1, "")
	h.asks(t.Context(), 2, "")
	h.asks(ctx, 3, "")
	h.sees(row(1, true), row(2, false), row(3, false))
	require.NoError(t, h.queue.Answer(h.id(2), approval.Once, approval.BySocket))
	h.sees(row(1, true), row(3, false))
	h.shows(`coder 00000002 asks: run_pty_cmd "run: step 2"` + "\n  → once, from qq serve or another face\n")
	cancel(errors.New("timed out"))
	h.shows(`coder 00000003 asks: run_pty_cmd "run: step 3" → no longer needed`)
	h.alone(1)
	require.NoError(t, h.queue.Answer(h.id(1), approval.No, approval.BySocket))
	h.expect("\r\n(run: step 1 → no, from qq serve or another face)\r\n")
	assert.Equal(t, map[string]string{"1": "no socket", "2": "once socket", "3": "cancelled"}, h.answered())
}

// The question in turn ends in the middle of a list: the others stay.
func TestListTurnWithdrawn(t *testing.T) {
	h := newHall(t, 40, 80)
	for n := 1; n <= 3; n++ {
		h.asks(t.Context(), n, "")
	}
	h.sees(row(1, true), row(2, false), row(3, false))
	hear()
	h.typed("3")
	h.sees(row(1, false), row(2, false), row(3, true))
	require.NoError(t, h.queue.Answer(h.id(1), approval.No, approval.BySocket))
	h.sees(row(2, false), row(3, true))
	h.shows(`coder 00000001 asks: run_pty_cmd "run: step 1"` + "\n  → no, from qq serve or another face\n")
	hear()
	h.typed("n")
	h.alone(2)
	h.typed("o\n")
	assert.Equal(t, map[string]string{"1": "no socket", "2": "once terminal", "3": "no terminal"}, h.answered())
}

// Escape leaves a question to a face, if there is one. When the last one goes, the terminal has it again.
func TestListPutOff(t *testing.T) {
	h := newHall(t, 40, 80)
	for n := 1; n <= 3; n++ {
		h.asks(t.Context(), n, "")
	}
	h.sees(row(1, true), row(2, false), row(3, false))
	hear()
	h.typed("\x1b")
	h.shows("nobody else is there who could answer it")
	leave := h.queue.Attend()
	h.typed("\x1b")
	h.shows(`coder 00000001 asks: run_pty_cmd "run: step 1" → left to others`)
	h.sees(row(2, true), row(3, false))
	hear()
	h.typed("3\x1b")
	h.shows(`coder 00000003 asks: run_pty_cmd "run: step 3" → left to others`)
	h.alone(2)
	assert.Len(t, h.queue.Open(), 3)
	h.typed("o\n")
	require.Eventually(t, func() bool { return h.id(2) == "" }, 10*time.Second, time.Millisecond)
	require.NoError(t, h.queue.Answer(h.id(3), approval.Once, approval.BySocket))
	leave()
	h.alone(1)
	h.typed("n\n")
	assert.Equal(t, map[string]string{"1": "no terminal", "2": "once terminal", "3": "once socket"}, h.answered())
}

// A list leaves the terminal as it was.
func TestListMode(t *testing.T) {
	h := newHall(t, 40, 80)
	mode := func() unix.Termios {
		m, err := unix.IoctlGetTermios(int(h.screen.Fd()), getMode)
		require.NoError(t, err)
		return *m
	}
	before := mode()
	h.asks(t.Context(), 1, "")
	h.asks(t.Context(), 2, "")
	h.sees(row(1, true), row(2, false))
	assert.NotEqual(t, before, mode())
	hear()
	h.typed("s\r")
	h.answered()
	assert.Equal(t, before, mode())
}

// replay returns what a terminal with so many columns shows after it was sent text, with all rows that have left it
// above.
func replay(text string, columns int) string {
	screen := [][]rune{nil}
	y, x := 0, 0
	put := func(r rune) {
		for x >= len(screen[y]) {
			screen[y] = append(screen[y], ' ')
		}
		screen[y][x] = r
		x++
	}
	down := func() {
		if y++; y == len(screen) {
			screen = append(screen, nil)
		}
	}
	sequence := regexp.MustCompile(`^\x1b\[([?0-9;]*)([A-Za-z])`)
	for len(text) > 0 {
		if r := rune(text[0]); r >= ' ' && r < 0x7f && x < columns {
			put(r)
			text = text[1:]
			continue
		}
		if m := sequence.FindStringSubmatch(text[:min(len(text), 16)]); text[0] == 0x1b && m != nil {
			switch m[2] {
			case "A":
				n := 0
				fmt.Sscan(m[1], &n)
				y = max(y-n, 0)
			case "K":
				screen[y] = nil
			case "J":
				screen[y] = screen[y][:min(x, len(screen[y]))]
				screen = screen[:y+1]
			}
			text = text[len(m[0]):]
			continue
		}
		for i, r := range text {
			text = text[i+len(string(r)):]
			switch {
			case r == '\r':
				x = 0
			case r == '\n':
				down()
			case x == columns:
				x = 0
				down()
				put(r)
			default:
				put(r)
			}
			break
		}
	}
	lines := make([]string, len(screen))
	for i, line := range screen {
		lines[i] = strings.TrimRight(string(line), " ")
		if i == len(screen)-1 {
			lines[i] = string(line)
		}
	}
	return strings.Join(lines, "\n")
}

// book is a desk that a test writes.
type book struct{ open []tool.Question }

func (b *book) Waiting() []tool.Question { return b.open }

func (b *book) Changed() <-chan struct{} { return nil }

func (b *book) Answer(string, approval.Answer, string) error { return nil }

func (b *book) Shown(...string) {}

func (b *book) PutOff(string) bool { return false }

func (b *book) Over(string) *approval.OverError {
	return &approval.OverError{Answer: approval.No, By: approval.BySocket}
}

// hostile are names and texts that models may write.
var hostile = []string{"go test ./...", "\x1b[2J\x1b[H[o]nce", strings.Repeat("long ", 200),
	"漢字 😀 \u202e\u0301", "\r\n\t\x00",
	strings.Repeat("x", 3000), "", "a\nb\nc\nd\ne\nf\ng"}

// Whatever changes, at any width: the last rows on the screen are the list, what was told above it stays there, and no
// row is as wide as the screen.
func TestListDraws(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 1))
	for columns := 20; columns <= 200; columns += 30 {
		d := newScreen(t, true, nil)
		size := &pty.Winsize{Rows: uint16(8 + random.IntN(60)), Cols: uint16(columns)}
		require.NoError(t, pty.Setsize(d.screen, size))
		desk := &book{}
		l := &list{Terminal: d.Terminal, desk: desk}
		text := func() string { return hostile[random.IntN(len(hostile))] }
		var told []string
		for n := range 25 {
			for random.IntN(2) == 0 && len(desk.open) < 12 {
				desk.open = append(desk.open, tool.Question{
					ID: fmt.Sprint(n, len(desk.open)), Chain: []string{text(), "coder"}, Depth: 1, ExecutionID: text(),
					Task: text(), Intent: tool.Intent{Tool: text(), Summary: text(), Preview: text(), Risk: tool.High},
				})
			}
			if random.IntN(3) == 0 && len(desk.open) > 3 {
				at := random.IntN(len(desk.open))
				desk.open = slices.Delete(slices.Clone(desk.open), at, at+1)
			}
			if !l.look(t.Context()) && len(desk.open) < 2 {
				continue
			}
			l.listed.chosen = l.open[random.IntN(len(l.open))].ID
			l.note = []string{"", "a note"}[random.IntN(2)]
			told = append(told, strings.Fields(l.above)...)
			require.NoError(t, l.draw(t.Context()))
			rows := l.rows(l.page())
			d.written()
			var want []string
			for _, row := range rows {
				want = append(want, strings.TrimRight(colours.ReplaceAllString(row, ""), " "))
				narrow := strings.NewReplacer("┆", "|", "│", "|", "›", ">", "…", "~", "→", ">") // of one column
				require.Less(t, width(narrow.Replace(colours.ReplaceAllString(row, ""))), columns, row)
			}
			d.mu.Lock()
			seen := strings.Split(replay(d.seen, columns), "\n")
			d.mu.Unlock()
			for i := range seen {
				seen[i] = strings.TrimRight(seen[i], " ")
			}
			require.GreaterOrEqual(t, len(seen), len(want))
			require.Equal(t, want, seen[len(seen)-len(want):], "%d columns", columns)
		}
		d.mu.Lock()
		left := strings.Join(strings.Fields(replay(d.seen, columns)), " ")
		d.mu.Unlock()
		for _, word := range told {
			require.Contains(t, left, word)
		}
	}
}

var colours = regexp.MustCompile(`\x1b\[\d*m`)

// written waits until the screen has everything that was written to it.
func (d *terminalScreen) written() {
	d.t.Helper()
	end := fmt.Sprintf("\x1b]%d\a", time.Now().UnixNano())
	require.NoError(d.t, d.write(d.t.Context(), end))
	require.Eventually(d.t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		seen, ok := strings.CutSuffix(d.seen, end)
		d.seen = seen
		return ok
	}, 10*time.Second, time.Millisecond)
}

// A person types an answer and a face answers at the same moment: one of them wins, and the terminal says so if it is
// not the person.
func TestAnswersAtTheSameMoment(t *testing.T) {
	h := newHall(t, 40, 80)
	won := map[string]int{}
	for n := 1; n <= 30; n++ {
		h.asks(t.Context(), n, "")
		h.alone(n)
		id := h.id(n)
		var typing sync.WaitGroup
		typing.Go(func() { h.typed("o\n") })
		time.Sleep(time.Duration(n) * 3 * time.Millisecond) // the terminal waits a moment before it takes a line
		err := h.queue.Answer(id, approval.No, approval.BySocket)
		typing.Wait()
		by := h.answered()[fmt.Sprint(n)]
		won[by]++
		if err == nil {
			require.Equal(t, "no socket", by)
			h.expect(fmt.Sprintf("(run: step %d → no, from qq serve or another face)\r\n", n))
			continue
		}
		require.ErrorContains(t, err, "already answered at the terminal of its run: once")
		require.Equal(t, "once terminal", by)
		h.mu.Lock()
		assert.True(t, h.got[fmt.Sprint("run: step ", n)].Allowed)
		h.mu.Unlock()
	}
	assert.Len(t, won, 2, "both win now and then")
}
