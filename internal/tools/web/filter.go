package web

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits for one HTML page. A parser opens formatting elements that were left open again in each following
// paragraph, so a small page can become a huge tree. Therefore the number of open formatting elements is limited
// too.
const (
	maxTags       = 100_000
	maxHTMLText   = 2 << 20
	maxFormatting = 6 // elements such as <b> open at once
	maxAttr       = 300
	maxSpan       = 64 // of a cell in a table
)

// filter is an io.Reader between a page and the HTML parser. It drops what the conversion does
// not need, stops at the limits, and ends when the context ends.
type filter struct {
	ctx  context.Context
	z    *html.Tokenizer
	out  bytes.Buffer
	err  error
	tags int
	text int
	// cut is true if a limit ended the page early.
	cut        bool
	skip       string         // name of the element whose content is being dropped
	open       map[string]int // elements begun and not ended, by name
	formatting int
}

func newFilter(ctx context.Context, text string) *filter {
	return &filter{ctx: ctx, z: html.NewTokenizer(strings.NewReader(text)), open: map[string]int{}}
}

// Read implements io.Reader.
func (f *filter) Read(p []byte) (int, error) {
	for f.out.Len() == 0 && f.err == nil {
		f.step()
	}
	if f.out.Len() > 0 {
		return f.out.Read(p)
	}
	return 0, f.err
}

// step processes the next token.
func (f *filter) step() {
	if f.err = f.ctx.Err(); f.err != nil {
		return
	}
	kind := f.z.Next()
	if kind == html.ErrorToken {
		f.err = f.z.Err()
		return
	}
	t := f.z.Token()
	switch {
	case f.skip != "":
		if kind == html.EndTagToken && t.Data == f.skip {
			f.skip = ""
		}
	case kind == html.TextToken:
		t.Data = clean(t.Data)
		f.text += len(t.Data)
		if over := f.text - maxHTMLText; over > 0 {
			t.Data = strings.ToValidUTF8(t.Data[:len(t.Data)-over], "")
		}
		f.write(t)
	case kind == html.StartTagToken, kind == html.SelfClosingTagToken:
		f.tags++
		f.start(t)
	case kind == html.EndTagToken:
		f.end(t)
	case kind == html.DoctypeToken:
		f.write(t) // it decides where tables may be
	}
	if f.tags > maxTags || f.text > maxHTMLText {
		f.cut, f.err = true, io.EOF
	}
}

func (f *filter) write(t html.Token) { f.out.WriteString(t.String()) }

func (f *filter) start(t html.Token) {
	switch t.DataAtom {
	case atom.Script, atom.Style, atom.Iframe, atom.Noembed, atom.Noframes:
		f.skip = t.Data
		return
	case atom.U, atom.S, atom.Font, atom.Big, atom.Small, atom.Nobr, atom.Strike, atom.Plaintext:
		return // nothing in Markdown
	case atom.Html, atom.Head, atom.Body:
		if f.open[t.Data] > 0 {
			return
		}
	}
	if isFormatting(t.DataAtom) {
		if f.formatting >= maxFormatting {
			return
		}
		f.formatting++
	}
	if !isVoid(t.DataAtom) {
		f.open[t.Data]++
	}
	t.Attr = keptAttributes(t)
	f.write(t)
}

// end passes on the end tag of an open element. It drops other end tags, which mean nothing but
// cost the parser time.
func (f *filter) end(t html.Token) {
	if f.open[t.Data] == 0 {
		return
	}
	f.open[t.Data]--
	if isFormatting(t.DataAtom) {
		f.formatting--
	}
	if t.DataAtom == atom.Html || t.DataAtom == atom.Body {
		f.open[t.Data]++ // there is one of each
		return
	}
	f.write(t)
}

// isFormatting reports whether a is a formatting element: if one was left open, the parser opens it again in the
// next paragraph.
func isFormatting(a atom.Atom) bool {
	return slices.Contains([]atom.Atom{atom.A, atom.B, atom.I, atom.Em, atom.Strong, atom.Code, atom.Tt}, a)
}

func isVoid(a atom.Atom) bool {
	return slices.Contains([]atom.Atom{atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img,
		atom.Input, atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr}, a)
}

// keptAttributes returns the attributes that the conversion reads. A hidden element gets the
// attribute hidden, however the page hides it.
func keptAttributes(t html.Token) []html.Attribute {
	var kept []html.Attribute
	for _, a := range t.Attr {
		a.Val = clean(a.Val)
		switch a.Key {
		case "href", "src":
			if len(a.Val) > maxURL {
				continue
			}
		case "colspan", "rowspan":
			if len(a.Val) > 2 || a.Val > "64" && len(a.Val) == 2 {
				continue // more than maxSpan
			}
		case "hidden", "start", "role":
		case "alt":
			a.Val = oneLine(a.Val, maxAttr)
		case "class": // of code it may name the language
			if t.DataAtom != atom.Code && t.DataAtom != atom.Pre {
				continue
			}
		case "aria-hidden", "style":
			if !hides(a) {
				continue
			}
			a = html.Attribute{Key: "hidden"}
		default:
			continue
		}
		if len(a.Val) > maxURL {
			continue
		}
		kept = append(kept, a)
	}
	return kept
}

func hides(a html.Attribute) bool {
	v := strings.ToLower(strings.ReplaceAll(a.Val, " ", ""))
	if a.Key == "aria-hidden" {
		return v == "true"
	}
	return strings.Contains(v, "display:none") || strings.Contains(v, "visibility:hidden")
}
