// Package digest makes summaries, key points, keywords and outlines of a text by
// quoting it.
//
// A text is a [Document]: sections and sentences. A random walk over the graph
// of alike sentences, as in TextRank and LexRank, finds the central ones; those
// that cannot stand alone, that point elsewhere or that repeat another are
// passed over. Keywords are ranked by their C-value. A [Wish] says which
// [Product] is wanted, and how much.
//
// The same text always gives the same answer. Of a long text the best sentences
// of each stretch are compared with each other, so the time is about linear in
// its length.
//
// Not promised: that a reader would have chosen the same, or that sentences from
// different places follow from each other.
package digest

import (
	"context"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"qq/internal/models/extract/prose"
)

// Product is what can be made of a text.
type Product int

// The products.
const (
	Summary Product = iota
	Points
	Keywords
	Outline
	products // how many there are
)

// String is how a heading names the product.
func (p Product) String() string {
	return [...]string{"Summary", "Key points", "Keywords", "Outline"}[p]
}

// Wish is what is wanted of a text, and how much of it; 0 leaves that open.
type Wish struct {
	Products []Product
	Count    [products]int // sentences, points, keywords, headings
	Words    int           // of a summary, at most
	Brief    bool
}

// Make returns the products that are wanted, each under its name when there are
// several. It is empty when the text has nothing that could be quoted.
func (d *Document) Make(ctx context.Context, w Wish) (string, error) {
	var parts []string
	for _, p := range w.Products {
		text, err := d.product(ctx, p, w)
		if err != nil {
			return "", err
		}
		if text == "" {
			continue
		}
		if len(w.Products) > 1 {
			text = p.String() + ":\n\n" + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n\n"), nil
}

func (d *Document) product(ctx context.Context, p Product, w Wish) (string, error) {
	switch {
	case p == Keywords:
		return strings.Join(d.Keywords(w.Count[Keywords]), ", "), nil
	case p == Outline && len(d.sections) > 2:
		return d.outline(w.Count[Outline]), nil
	case p == Summary:
		list, err := d.quotes(ctx, w, Summary)
		return d.paragraphs(list), err
	}
	list, err := d.quotes(ctx, w, Points) // an outline without headings as well
	return bullets(list), err
}

// Quotes returns the sentences of a summary, or of key points.
func (d *Document) Quotes(ctx context.Context, p Product, w Wish) ([]string, error) {
	list, err := d.quotes(ctx, w, p)
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = s.text
	}
	return texts, err
}

// Headings returns the headings of the text.
func (d *Document) Headings() []string {
	list := make([]string, 0, len(d.sections))
	for _, s := range d.sections[1:] {
		list = append(list, s.heading)
	}
	return list
}

// quotes chooses the sentences of a summary or of key points.
func (d *Document) quotes(ctx context.Context, w Wish, p Product) ([]sentence, error) {
	r, err := d.rank(ctx)
	if err != nil {
		return nil, err
	}
	b := budget{sentences: w.Count[p]}
	if p == Summary {
		b.words = w.Words
	}
	if b == (budget{}) {
		if len(d.sentences) <= 3 && !w.Brief && d.size <= shortText {
			return d.all(3), nil
		}
		b.sentences = usual(len(r.pool), p, w.Brief)
		if d.size > shortText {
			b.bytes = max(d.size/3, shortText/3)
		}
	}
	var out []sentence
	for _, i := range d.choose(r, b) {
		out = append(out, d.sentences[i])
	}
	if len(out) == 0 {
		return d.all(max(1, min(b.sentences, 3))), nil
	}
	return out, nil
}

// shortText is up to how many bytes a text may come back whole.
const shortText = 500

// usual is how many of n sentences are quoted when nothing else is wanted.
func usual(n int, p Product, brief bool) int {
	root := math.Sqrt(float64(n))
	count := min(max(int(math.Round(0.8*root)), 3), 12)
	if p == Points {
		count = min(max(int(math.Round(root)), 3), 10)
	}
	if brief {
		count = (count + 1) / 2
	}
	return count
}

// all returns up to n sentences of a text that is too short, or too strange, to
// choose from. Of a very long one it returns the beginning.
func (d *Document) all(n int) []sentence {
	var good, out []sentence
	for _, s := range d.sentences {
		letters, signs := 0, 0
		for _, r := range s.text {
			if unicode.IsLetter(r) {
				letters++
			} else if r != ' ' {
				signs++
			}
		}
		if letters <= signs || strings.HasSuffix(s.text, ":") || inCode(s.text)*2 > len(s.text) {
			continue
		}
		if tooLong(s.text, s.length) {
			head := strings.ToValidUTF8(s.text[:min(len(s.text), mostBytes*3/4)], "")
			if i := strings.LastIndexByte(head, ' '); i > 0 {
				head = head[:i]
			}
			s.text = strings.TrimRight(head, " ,;") + " …"
		}
		if out = append(out, s); s.weight > 0.1 {
			good = append(good, s)
		}
	}
	if len(good) > 0 {
		out = good
	}
	return out[:min(n, len(out))]
}

// paragraphs joins sentences to paragraphs: a long answer is broken where the text
// comes to another section.
func (d *Document) paragraphs(list []sentence) string {
	var b strings.Builder
	inParagraph := 0
	for i, s := range list {
		if i > 0 {
			if s.kind == prose.Record || list[i-1].kind == prose.Record {
				b.WriteByte('\n')
			} else if len(list) > 5 && inParagraph >= 3 && s.section != list[i-1].section && len(list)-i > 1 {
				b.WriteString("\n\n")
				inParagraph = 0
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteString(s.whole())
		inParagraph++
	}
	return b.String()
}

// whole is the sentence as it stands in a row of others: a list item may need
// a full stop.
func (c sentence) whole() string {
	s := c.text
	if c.kind == prose.Record {
		return s
	}
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(s, "\"'”’»)`*_"))
	if unicode.Is(unicode.STerm, last) || last == '.' || last == '…' || last == ':' || prose.Wide(last) {
		return s
	}
	return strings.TrimRight(s, ",;") + "."
}

func bullets(list []sentence) string {
	lines := make([]string, len(list))
	for i, s := range list {
		lines[i] = "- " + s.text
	}
	return strings.Join(lines, "\n")
}
