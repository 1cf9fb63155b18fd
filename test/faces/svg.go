package faces

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"image/color"
	"strings"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
)

// The sizes of a picture, in pixels.
const (
	cellWidth, rowHeight = 8.4, 19
	edge, titleHeight    = 14, 30
	pictureStyle         = `
text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre; fill: #1f2328; }
.page { fill: #f6f8fa; stroke: #d0d7de; } .bar { fill: #eaeef2; } .title { fill: #57606a; }
.faint { fill: #6e7781; } .bold { font-weight: bold; } .italic { font-style: italic; }
.mark { fill: #1f2328; } .marked { fill: #f6f8fa; }
.c1 { fill: #b3151f; } .c2 { fill: #116329; } .c3 { fill: #7d4e00; } .c4 { fill: #0550ae; } .c5 { fill: #8250df; } .c6 { fill: #1b6a72; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.page { fill: #0d1117; stroke: #30363d; } .bar { fill: #161b22; } .title { fill: #9198a1; }
.faint { fill: #9198a1; }
.mark { fill: #e6edf3; } .marked { fill: #0d1117; }
.c1 { fill: #ff7b72; } .c2 { fill: #56d364; } .c3 { fill: #e3b341; } .c4 { fill: #79c0ff; } .c5 { fill: #d2a8ff; } .c6 { fill: #76e3ea; }
}
`
)

// SVG returns a picture of the screen, as far as there is something on it, with real text in the fonts of whoever looks. It
// is light or dark as its reader is. The title says what was typed.
func (s *Screen) SVG(title string) string {
	rows := s.Height()
	for rows > 1 && s.Row(rows-1) == "" {
		rows--
	}
	width, height := float64(s.Width())*cellWidth+2*edge, titleHeight+rows*rowHeight+edge
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">`+
		"\n<title>%s</title>\n<style>%s</style>\n", width, height, width, height, escaped(title), pictureStyle)
	fmt.Fprintf(&b, `<rect class="page" x=".5" y=".5" width="%.0f" height="%d" rx="8"/>`+"\n", width-1, height-1)
	fmt.Fprintf(&b, `<path class="bar" d="M1 %d V8 a7 7 0 0 1 7 -7 H%.0f a7 7 0 0 1 7 7 V%d z"/>`+"\n", titleHeight-4,
		width-8, titleHeight-4)
	fmt.Fprintf(&b, `<text class="title" x="%d" y="18">$ %s</text>`+"\n", edge, escaped(title))
	for y := range rows {
		s.drawRow(&b, y)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// piece is a part of a row in one style.
type piece struct {
	text   string
	at, to int // columns
	style  uv.Style
}

func (s *Screen) drawRow(b *strings.Builder, y int) {
	var all []piece
	for x := 0; x < s.Width(); x++ {
		c := s.CellAt(x, y)
		if c == nil || c.Width == 0 {
			continue
		}
		text := cmp.Or(c.Content, " ")
		if n := len(all); n > 0 && all[n-1].style.Equal(&c.Style) {
			all[n-1].text, all[n-1].to = all[n-1].text+text, x+c.Width
			continue
		}
		all = append(all, piece{text, x, x + c.Width, c.Style})
	}
	top := titleHeight + y*rowHeight
	for _, p := range all {
		class := classOf(p.style)
		if p.style.Attrs&uv.AttrReverse != 0 {
			class = "marked"
			fmt.Fprintf(b, `<rect class="mark" x="%.1f" y="%d" width="%.1f" height="%d"/>`+"\n", edge+float64(p.at)*cellWidth,
				top, float64(p.to-p.at)*cellWidth, rowHeight)
		}
		text := strings.TrimRight(p.text, " ")
		if text == "" {
			continue
		}
		cells := p.to - p.at - (len(p.text) - len(text))
		fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
			class, edge+float64(p.at)*cellWidth, top+14, float64(cells)*cellWidth, escaped(text))
	}
}

// classOf names how a text looks.
func classOf(style uv.Style) string {
	var list []string
	for _, a := range []struct {
		bit  uint8
		name string
	}{{uv.AttrBold, "bold"}, {uv.AttrFaint, "faint"}, {uv.AttrItalic, "italic"}} {
		if style.Attrs&a.bit != 0 {
			list = append(list, a.name)
		}
	}
	return strings.Join(append(list, colorOf(style.Fg)...), " ")
}

// colorOf returns the class of one of the colours that a terminal names; there is none for others.
func colorOf(c color.Color) []string {
	basic, ok := c.(ansi.BasicColor)
	if n := basic % 8; ok && n > 0 && n < 7 {
		return []string{fmt.Sprintf("c%d", n)}
	}
	return nil
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder never fails
	return b.String()
}
