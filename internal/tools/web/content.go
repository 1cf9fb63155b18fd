package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	maxLists  = 6       // nesting of lists and quotations: each level indents all that is in it
	maxCells  = 200_000 // cells of a table, as it is drawn
	maxLinks  = 1 << 20
	shortMain = 200
)

// rules select which elements of a page are dropped.
type rules int

const (
	// content leaves out what is around the main content.
	content rules = iota
	// everything leaves out only what is not seen, for a page of which nothing
	// would remain otherwise.
	everything
)

// mainContent returns the part of doc to convert, and the rules for it.
func mainContent(doc *html.Node) (*html.Node, rules) {
	body := find(doc, func(n *html.Node) bool { return n.DataAtom == atom.Body })
	if body == nil {
		return doc, everything
	}
	whole := content.textSize(body)
	if whole == 0 {
		return body, everything
	}
	if n := chosen(body); n != nil {
		// A mark on a very small part of the page is ignored.
		if size := content.textSize(n); size >= shortMain || size >= whole/4 {
			return n, content
		}
	}
	return body, content
}

// chosen returns the element that the page itself marks as its main part, or nil.
func chosen(body *html.Node) *html.Node {
	var articles []*html.Node
	for n := range body.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.DataAtom == atom.Main || attr(n, "role") == "main":
			return n
		case n.DataAtom == atom.Article:
			articles = append(articles, n)
		}
	}
	if len(articles) == 1 {
		return articles[0]
	}
	return nil
}

// textSize counts the bytes of text below n that are kept.
func (r rules) textSize(n *html.Node) int {
	if n.Type == html.TextNode {
		return len(strings.TrimSpace(n.Data))
	}
	size := 0
	for c := range n.ChildNodes() {
		if !r.drops(c) {
			size += r.textSize(c)
		}
	}
	return size
}

// drops reports whether n and all that it contains is dropped.
func (r rules) drops(n *html.Node) bool {
	if n.Type == html.CommentNode || n.Type == html.DoctypeNode {
		return true
	}
	if n.Type != html.ElementNode {
		return false
	}
	if n.Namespace != "" || hasAttr(n, "hidden") {
		return true // SVG and MathML, or not seen
	}
	switch n.DataAtom {
	case atom.Head, atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Object, atom.Embed,
		atom.Canvas, atom.Audio, atom.Video, atom.Map, atom.Select, atom.Datalist, atom.Input, atom.Textarea,
		atom.Dialog, atom.Progress, atom.Meter:
		return true
	case atom.Button:
		return !isHeading(n.Parent) // there it is the heading of something that unfolds
	}
	return r == content && around(n)
}

// around reports whether n belongs to the site (menus, footers) rather than to the page.
func around(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Aside, atom.Footer:
		return true
	case atom.Header:
		return !within(n, atom.Main, atom.Article) // there it holds the title
	case atom.Form: // some sites put the whole page into one
		return find(n, func(d *html.Node) bool {
			return d.DataAtom == atom.Main || d.DataAtom == atom.Article || d.DataAtom == atom.H1
		}) == nil
	}
	return slices.Contains([]string{"navigation", "banner", "contentinfo", "complementary", "search", "menu", "menubar",
		"dialog", "alertdialog"}, attr(n, "role"))
}

func within(n *html.Node, kinds ...atom.Atom) bool {
	for a := range n.Ancestors() {
		if slices.Contains(kinds, a.DataAtom) {
			return true
		}
	}
	return false
}

func isHeading(n *html.Node) bool {
	return n != nil && slices.Contains([]atom.Atom{atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6}, n.DataAtom)
}

// tidier prepares a part of a page for the converter: it drops elements, makes links absolute and
// limits sizes.
type tidier struct {
	base  *url.URL
	rules rules
	links int // bytes of links
}

// place describes the elements that contain a node.
type place struct {
	lists int // lists and quotations
	cell  bool
}

func (p place) inside(n *html.Node) place {
	if isList(n) {
		p.lists++
	}
	p.cell = p.cell || n.DataAtom == atom.Td || n.DataAtom == atom.Th
	return p
}

// tidy adjusts all nodes below n.
func (t *tidier) tidy(n *html.Node, in place) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if t.rules.drops(c) || !t.adjust(c, in) {
			n.RemoveChild(c)
		} else {
			t.tidy(c, in.inside(c))
		}
		c = next
	}
}

// adjust reports whether n stays. It may change n.
func (t *tidier) adjust(n *html.Node, in place) bool {
	switch {
	case n.Type == html.TextNode:
		if in.cell {
			n.Data = strings.ReplaceAll(n.Data, "|", `\|`)
		}
	case isList(n):
		if in.lists >= maxLists {
			rename(n, atom.Div)
		}
	case n.DataAtom == atom.Summary:
		rename(n, atom.Div) // a line of its own
	case n.DataAtom == atom.A:
		return t.link(n)
	case n.DataAtom == atom.Img:
		return t.image(n)
	case n.DataAtom == atom.Table:
		boundTable(n)
	}
	return true
}

func isList(n *html.Node) bool {
	return n.DataAtom == atom.Ul || n.DataAtom == atom.Ol || n.DataAtom == atom.Blockquote
}

func rename(n *html.Node, to atom.Atom) { n.DataAtom, n.Data, n.Attr = to, to.String(), nil }

// link makes the target of a link absolute, and reports whether to keep the element. A link that leads nowhere else
// becomes plain text.
func (t *tidier) link(n *html.Node) bool {
	to := t.absolute(attr(n, "href"))
	if to == "" {
		c := n.FirstChild
		mark := c != nil && c.NextSibling == nil &&
			slices.Contains([]string{"¶", "#", "§", "🔗"}, strings.TrimSpace(c.Data))
		rename(n, atom.Span)
		return !mark // the sign beside a heading
	}
	n.Attr = []html.Attribute{{Key: "href", Val: to}}
	return true
}

// image reports whether to keep an image: only one with a description.
func (t *tidier) image(n *html.Node) bool {
	alt := attr(n, "alt")
	if alt == "" {
		return false
	}
	if src := t.absolute(attr(n, "src")); src != "" {
		n.Attr = []html.Attribute{{Key: "src", Val: src}, {Key: "alt", Val: alt}}
		return true
	}
	n.Type, n.DataAtom, n.Data, n.Attr = html.TextNode, 0, alt, nil
	return true
}

// absolute returns the absolute URL of a link, or "" for one that is not kept.
func (t *tidier) absolute(link string) string {
	link = strings.TrimSpace(link)
	if link == "" || link[0] == '#' {
		return ""
	}
	u, err := t.base.Parse(link)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return ""
	}
	whole := u.String()
	if t.links += len(whole); len(whole) > maxURL || t.links > maxLinks {
		return "" // a short link below a long base grows
	}
	return whole
}

// boundTable limits a table that would become too large. The converter pads each row to the
// longest one and repeats cells that span rows or columns, so boundTable drops the spans or, if
// that is not enough, converts the table to plain text.
func boundTable(n *html.Node) {
	var own []*html.Node // rows and cells
	rows, cells, widest, spans := 1, 0, 0, 0
	for d := range n.Descendants() {
		switch d.DataAtom {
		case atom.Tr:
			rows++
			cells = 0
		case atom.Td, atom.Th:
			cells++
			widest = max(widest, cells)
			spans += span(d, "colspan")*span(d, "rowspan") - 1
		default:
			continue
		}
		own = append(own, d)
	}
	if spans > 0 && (rows+maxSpan)*(widest+maxSpan+spans) > maxCells {
		for _, d := range own {
			d.Attr = nil
		}
		spans = 0
	}
	if spans == 0 && rows*widest > maxCells && rows > 1 && widest > 50 {
		rename(n, atom.Div)
		for _, d := range own {
			rename(d, atom.Div)
		}
	}
}

func span(n *html.Node, key string) int {
	v, err := strconv.Atoi(attr(n, key))
	if err != nil {
		return 1
	}
	return max(v, 1)
}
