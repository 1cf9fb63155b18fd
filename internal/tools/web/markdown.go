package web

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	titleLimit = 300
	// The library writes < and > of a text as entities. These stand for them
	// until it is done; [clean] sees to it that no page contains them.
	markLess    = "\uF003"
	markGreater = "\uF004"
)

// markdown is the result of converting an HTML page.
type markdown struct {
	title string
	text  string
	cut   bool // a limit ended the page
}

var errHTML = errors.New("the HTML of the page cannot be read")

// toMarkdown converts the main content of the page at u to Markdown. It stops when ctx ends.
func toMarkdown(ctx context.Context, u *url.URL, text string) (m markdown, err error) {
	defer func() {
		// The page is a stranger's and the libraries are large: a panic in them is an error of this page only. A
		// panic also stops a conversion when ctx ends.
		if recover() != nil {
			m, err = markdown{}, errHTML
		}
		if ctx.Err() != nil {
			m, err = markdown{}, context.Cause(ctx)
		}
	}()
	src := newFilter(ctx, text)
	doc, err := html.ParseWithOptions(src, html.ParseOptionEnableScripting(false))
	if err != nil { // it is nested too deeply
		return markdown{text: flatText(ctx, text)}, nil
	}
	m = markdown{title: titleOf(doc), cut: src.cut}
	root, rules := mainContent(doc)
	t := tidier{base: baseOf(doc, u), rules: rules}
	t.tidy(root, place{})
	if n := root.Parent; n != nil {
		n.RemoveChild(root)
	}
	out, err := newConverter().ConvertNode(root, converter.WithContext(ctx))
	if err != nil {
		return markdown{}, errHTML
	}
	m.text = strings.TrimSpace(clean(strings.NewReplacer(markLess, "<", markGreater, ">").Replace(string(out))))
	return m, nil
}

// newConverter returns a converter for one page.
func newConverter() *converter.Converter {
	// Without escapes the text reads as it stands on the page; finding out where
	// one is needed also takes quadratic time for some pages.
	conv := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(
			commonmark.WithListEndComment(false),
			commonmark.WithLinkEmptyHrefBehavior(commonmark.LinkBehaviorSkip),
			commonmark.WithLinkEmptyContentBehavior(commonmark.LinkBehaviorSkip),
		),
		table.NewTablePlugin(
			table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal), // aligned columns cost tokens
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve),
			table.WithHeaderPromotion(true),
			table.WithSkipEmptyRows(true),
		),
	))
	// The library ignores its context, so a renderer checks it and panics.
	angles := strings.NewReplacer("<", markLess, ">", markGreater)
	conv.Register.TextTransformer(func(_ converter.Context, text string) string { return angles.Replace(text) },
		converter.PriorityEarly)
	conv.Register.Renderer(func(ctx converter.Context, _ converter.Writer, _ *html.Node) converter.RenderStatus {
		if ctx.Err() != nil {
			panic(ctx.Err())
		}
		return converter.RenderTryNext
	}, converter.PriorityEarly)
	return conv
}

// flatText returns all text of a page, without structure. It is for pages that the parser rejects.
func flatText(ctx context.Context, text string) string {
	var b strings.Builder
	f := newFilter(ctx, text)
	for f.err == nil {
		f.out.Reset()
		before := f.text
		f.step()
		if f.text > before {
			b.WriteString(html.UnescapeString(f.out.String()))
			b.WriteByte('\n')
		}
	}
	return strings.TrimSpace(b.String())
}

func titleOf(doc *html.Node) string {
	n := find(doc, func(n *html.Node) bool { return n.DataAtom == atom.Title && n.Namespace == "" })
	if n == nil {
		return ""
	}
	var b strings.Builder
	for c := range n.ChildNodes() {
		b.WriteString(c.Data)
	}
	return oneLine(b.String(), titleLimit)
}

// baseOf returns the URL to which the links of the page are relative.
func baseOf(doc *html.Node, u *url.URL) *url.URL {
	n := find(doc, func(n *html.Node) bool { return n.DataAtom == atom.Base })
	if n == nil {
		return u
	}
	at, err := u.Parse(strings.TrimSpace(attr(n, "href")))
	if err != nil || at.Scheme != "http" && at.Scheme != "https" {
		return u
	}
	return at
}

func find(n *html.Node, wanted func(*html.Node) bool) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && wanted(d) {
			return d
		}
	}
	return nil
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func hasAttr(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key {
			return true
		}
	}
	return false
}
