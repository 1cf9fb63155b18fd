package editor

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/app/columns"
	"qq/internal/terminal/keys"
	"qq/pkg/tool"
)

// words completes names of fruit after an @.
type words []string

// Complete implements Completer.
func (w words) Complete(text string) (from int, candidates []string) {
	from = strings.LastIndexByte(text, '@')
	if from < 0 {
		return 0, nil
	}
	for _, c := range w {
		if strings.HasPrefix(c, text[from:]) {
			candidates = append(candidates, c)
		}
	}
	return from, candidates
}

func fresh() *Editor {
	return New(NewHistory([]string{"first", "second one", "third\nof two"}), words{"@apple ", "@apricot ", "@pear "})
}

// typed presses what a terminal sends, and returns the last action that is not None.
func typed(e *Editor, bytes string) (last Action) {
	var d keys.Decoder
	for _, k := range append(d.Feed([]byte(bytes)), d.Flush()...) {
		if a := e.Press(k); a != None {
			last = a
		}
	}
	return last
}

// withCursor returns the text with | at the cursor.
func withCursor(e *Editor) string {
	var b strings.Builder
	for i, p := range e.pieces {
		if i == e.at {
			b.WriteByte('|')
		}
		b.WriteString(p.shown())
	}
	if e.at == len(e.pieces) {
		b.WriteByte('|')
	}
	return b.String()
}

const (
	up    = "\x1b[A"
	down  = "\x1b[B"
	right = "\x1b[C"
	left  = "\x1b[D"
)

func TestEdit(t *testing.T) {
	for _, c := range []struct{ name, bytes, want string }{
		{"insert", "ac" + left + "b", "ab|c"},
		{"delete", "abc\x7f" + left + "\x1b[3~", "a|"},
		{"Home and End", "abc\x01x\x05y\x1b[H1\x1b[F2", "1xabcy2|"},
		{"wide characters", "漢😀é" + left + left + "\x7f", "|😀é"},
		{"joined emoji", "👩\u200d👩\u200d👧x" + left + "\x7f", "|x"},
		{"a mark joins", "e\u0301\x7f", "|"},
		{"words", "one two_2, three\x1bb\x1bbx", "one x|two_2, three"},
		{"a word to the right", "one two\x01\x1bf,", "one,| two"},
		{"words with Control and arrows", "one two\x1b[1;5D\x1b[1;5Dx", "x|one two"},
		{"cut a word", "one two\x17", "one |"},
		{"cut and paste", "one two three\x17\x17\x01\x19", "two three|one "},
		{"cut the end and paste", "one two\x1bb\x0b\x01\x19", "two|one "},
		{"cut the beginning", "one two\x1bb\x15", "|two"},
		{"cut a word to the right", "one two\x01\x1bd", "| two"},
		{"Alt-Backspace", "one two\x1b\x7f", "one |"},
		{"exchange", "ab\x14", "ba|"},
		{"lines", "one\x1b\rtwo\nthree\x01\x7f", "one\ntwo|three"},
		{"a backslash", "one\\\rtwo", "one\ntwo|"},
		{"Home in a line", "one\ntwo\x1b[Hx", "one\nx|two"},
		{"up and down", "long line\nx\nlong line" + up + up + "1" + down + "2" + down + "3",
			"long line1\nx2\nlo3|ng line"},
		{"a short paste", "a\x1b[200~b\rc\x1b[201~d", "ab\ncd|"},
		{"a long paste", "a\x1b[200~" + strings.Repeat("x\r", 20) + "\x1b[201~b" + left + left + "c",
			"ac|[pasted 40 bytes, 20 lines]b"},
		{"a paste is one piece", "a\x1b[200~" + strings.Repeat("x", 2000) + "\x1b[201~b" + left + "\x7f", "a|b"},
		{"completion", "see @pe\tx", "see @pear x|"},
		{"completion of what is common", "@ap\t", "@ap|"},
		{"completion by choice", "@ap\t\t\t", "@apricot |"},
		{"completion chosen", "@ap\t\t\r!", "@apple !|"},
		{"no completion", "@x\t", "@x|"},
		{"history", "draft" + up, "third\n" + "of two|"},
		{"history and back", "draft" + up + up + up + down + down + down, "draft|"},
		{"the oldest", up + up + up + up + up, "first|"},
		{"search", "\x12sec\x05!", "second one!|"},
		{"search further", "\x12o\x12\x05", "second one|"},
		{"a search that ends", "draft\x12sec\x1b", "draft|"},
		{"a search for nothing", "\x12zzz\x05x", "x|"},
		{"a search, then up", "\x12sec\x05\x10", "first|"},
	} {
		e := fresh()
		typed(e, c.bytes)
		assert.Equal(t, c.want, withCursor(e), c.name)
	}
}

func TestActions(t *testing.T) {
	for bytes, want := range map[string]Action{
		"x\r": Submit, "\r": Submit, "x\x03": Interrupt, "\x04": Leave, "x\x04": None, "\x1a": Suspend,
		"\x0c": Clear, "x\x1b": Back, "\x12s\x1b": None, "\x12s\x03": None, "@ap\t\x1b": None, "\x12sec\r": Submit,
	} {
		assert.Equal(t, want, typed(fresh(), bytes), "%q", bytes)
	}
}

// A paste of 1 MB is one piece at once, and the whole text is there.
func TestLargePaste(t *testing.T) {
	e := fresh()
	text := strings.Repeat(strings.Repeat("x", 51)+"\n", 20_000) + "end"
	begun := time.Now()
	typed(e, "look at ")
	e.Press(keys.Key{Code: keys.Paste, Text: text})
	typed(e, " now")
	v := e.Render(Frame{Width: 60, Rows: 10, Prompt: "> "})
	assert.Less(t, time.Since(begun), time.Second)
	assert.Equal(t, []string{"> look at [pasted 1.0 MB, 20,001 lines] now"}, v.Lines)
	assert.Equal(t, "look at "+text+" now", e.Text())
	assert.Equal(t, "look at [pasted 1.0 MB, 20,001 lines] now", e.Shown())
	assert.Equal(t, "[pasted 1.5 kB]", label(1500, 1))
}

func TestRender(t *testing.T) {
	e := fresh()
	typed(e, "abcdefgh\n漢字漢字漢字\x1b[200~\t\x1b[201~x")
	v := e.Render(Frame{Width: 12, Rows: 10, Prompt: "> "})
	assert.Equal(t, []string{"> abcdefgh", "  漢字漢字漢", "  字    x"}, v.Lines)
	assert.Equal(t, []int{2, 9}, []int{v.Row, v.Column})
	v = e.Render(Frame{Width: 12, Rows: 2, Prompt: "> "})
	assert.Equal(t, []string{"  漢字漢字漢", "  字    x"}, v.Lines, "the rows around the cursor")
	assert.Equal(t, 1, v.Row)
	v = e.Render(Frame{Width: 5, Rows: 10, Prompt: "> "})
	assert.Equal(t, "abcde", v.Lines[0], "no room for a prompt")

	e = fresh()
	typed(e, "12345678")
	v = e.Render(Frame{Width: 10, Rows: 10, Prompt: "> "})
	assert.Equal(t, []string{"> 12345678", "  "}, v.Lines)
	assert.Equal(t, []int{1, 2}, []int{v.Row, v.Column}, "behind a full row")

	e = fresh()
	typed(e, "\x1b[200~a\x1b[31m\u202eb\u200b\x1b[201~")
	v = e.Render(Frame{Width: 40, Rows: 10})
	assert.Equal(t, []string{"a\ufffd[31\ufffd\ufffd"}, v.Lines)

	e = fresh()
	typed(e, "@ap\t")
	v = e.Render(Frame{Width: 40, Rows: 10, Prompt: "> "})
	assert.Equal(t, []string{"> @ap", "  @apple", "  @apricot"}, v.Lines)
	typed(e, "\t")
	assert.Equal(t, []string{"> @apple ", "> @apple", "  @apricot"}, e.Render(Frame{40, 10, "> "}).Lines)
	e = fresh()
	typed(e, "\x12sec")
	assert.Equal(t, []string{"> second one", "search: sec"}, e.Render(Frame{40, 10, "> "}).Lines)
}

// Up and Down go through the rows of a long line as they are shown.
func TestWrappedRows(t *testing.T) {
	e := fresh()
	typed(e, "0123456789abcdefghijXYZ")
	e.Render(Frame{Width: 10, Rows: 10})
	typed(e, up+"|")
	assert.Equal(t, "0123456789abc||defghijXYZ", withCursor(e))
	typed(e, "\x7f"+up+up)
	assert.Equal(t, "third\nof two|", withCursor(e))
}

// keysOf draws what a person may type.
func keysOf(t *rapid.T) string {
	return strings.Join(rapid.SliceOf(rapid.OneOf(
		rapid.SampledFrom([]string{up, down, left, right, "\x1b[H", "\x1b[F", "\x7f", "\x1b[3~", "\x17", "\x15",
			"\x0b", "\x19", "\x14", "\x1bb", "\x1bf", "\x1bd", "\n", "\x1b\r", "\t", "\x1b[Z", "\x12", "\x1b[5~",
			"\x1b[6~", "@ap", "\x1b[200~" + strings.Repeat("y\r", 15) + "\x1b[201~", "漢", "😀",
			"e\u0301", "👩\u200d👧", "🇩🇪",
			"\u200b"}),
		rapid.String(),
	)).Draw(t, "keys"), "")
}

// Whatever is typed: the cursor is in the text, what is shown fits and has no character that a terminal obeys.
func TestAnyKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := fresh()
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			typed(e, keysOf(t))
			f := Frame{Width: rapid.IntRange(1, 60).Draw(t, "width"), Rows: rapid.IntRange(1, 12).Draw(t, "rows"),
				Prompt: "> "}
			v := e.Render(f)
			require.True(t, e.at >= 0 && e.at <= len(e.pieces))
			require.LessOrEqual(t, len(v.Lines), f.Rows)
			require.True(t, v.Row >= 0 && v.Row < len(v.Lines) && v.Column >= 0 && v.Column < max(f.Width, 1))
			for _, line := range v.Lines {
				require.False(t, strings.ContainsFunc(line, tool.Obeyed), "%q", line)
				n := 0
				for s := line; s != ""; {
					length, wide := columns.Cluster(s)
					n, s = n+wide, s[length:]
				}
				require.LessOrEqual(t, n, f.Width, "%q", line)
			}
			require.True(t, utf8.ValidString(e.Shown()))
		}
	})
}

// FuzzEditor: bytes of a terminal never break it.
func FuzzEditor(f *testing.F) {
	f.Add("one\ntwo"+up+down+"\x12x\t@ap\t\t\x17\x19", 20)
	f.Fuzz(func(_ *testing.T, bytes string, width int) {
		e := fresh()
		typed(e, bytes)
		e.Render(Frame{Width: width % 200, Rows: width % 50, Prompt: "> "})
		typed(e, up+down+"\x7f")
		_ = e.Text()
	})
}

func TestHistory(t *testing.T) {
	h := NewHistory(nil)
	assert.False(t, h.Add("  "))
	assert.True(t, h.Add("a"))
	assert.False(t, h.Add("a"), "again")
	for range maxEntries {
		h.Add("b")
		h.Add("c")
	}
	assert.Equal(t, maxEntries, h.Len())
}
