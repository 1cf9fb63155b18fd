package extract

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"qq/internal/models/extract/markdown"
	"qq/pkg/llm"
)

// document is a text, split into sections and sentences, with the values that ranking needs.
type document struct {
	sections  []section
	sentences []sentence
	worth     map[string]float64 // weight of a term: rare terms weigh more
	first     int                // index of the sentence that introduces the text, or -1
}

// section is the text under one heading. The first section has no heading.
type section struct {
	heading string
	level   int
}

// sentence is a sentence or a list item.
type sentence struct {
	text    string
	section int
	kind    markdown.Kind
	lead    bool     // the first of its paragraph
	leans   bool     // unclear without the previous sentence
	weight  float64  // fitness to be quoted alone, up to 1; 0 is never quoted
	length  int      // in words
	terms   []string // stems of its words, sorted, each once
	norm    float64  // of the vector of its terms
	score   float64  // how central it is
}

const (
	mostBytes    = 400 // longest sentence that is quoted
	mostHeadings = 60  // in an outline, if the request names no number
)

// quoteText returns the answer to w about a text: plain text or, if schema is not nil, JSON. name is the file of
// the text for messages, or "". It returns an error if the text has nothing to quote.
func quoteText(text, name string, w wish, schema json.RawMessage) (string, error) {
	if name != "" {
		name += ": "
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", &llm.Error{Kind: llm.Rejected, Problem: name + "the file is empty"}
	case strings.Contains("\n"+text, "\n+++ ") && strings.Contains(text, "\n@@ -"):
		return "", unsupported(name + "the text is a difference of files, and has no sentences to quote")
	}
	d := newDocument(markdown.Parse(text), false)
	if schema != nil {
		return d.renderJSON(w, schema)
	}
	answer := d.render(w)
	if answer == "" {
		return "", unsupported(name + "the text has no sentences to quote")
	}
	return answer, nil
}

// render returns what w asks for (a summary, key points, keywords or an outline) as plain text, or "" if there is
// nothing to quote.
func (d *document) render(w wish) (text string) {
	switch {
	case w.product == keywords:
		return strings.Join(d.keywords(w.count), ", ")
	case w.product == outline && len(d.sections) > 2:
		return d.outline(cmp.Or(w.count, mostHeadings))
	case w.product == summary:
		return paragraphs(d.quotes(w))
	}
	for _, s := range d.quotes(w) { // an outline without headings is key points
		text += "\n- " + s.text
	}
	return strings.TrimSpace(text)
}

// paragraphs joins sentences. In a long answer it starts a new paragraph for each section.
func paragraphs(list []sentence) (text string) {
	inParagraph := 0
	for i, s := range list {
		if inParagraph++; inParagraph > 3 && len(list) > 5 && s.section != list[i-1].section && i+1 < len(list) {
			text += "\n\n"
			inParagraph = 1
		}
		text += s.text
		if !strings.ContainsAny(s.text[len(s.text)-1:], ".!?") && s.kind == markdown.Item {
			text += "."
		}
		text += " "
	}
	return strings.TrimSpace(strings.ReplaceAll(text, " \n", "\n"))
}

// outline returns the nested headings of a text, at most limit of them; it drops the deepest
// levels first.
func (d *document) outline(limit int) string {
	all := d.sections[1:]
	for deepest := 6; len(all) > limit && deepest > 1; deepest-- {
		all = slices.DeleteFunc(slices.Clone(all), func(s section) bool { return s.level >= deepest })
	}
	var b strings.Builder
	var open []int // levels of the headings that contain this one
	for _, s := range all[:min(limit, len(all))] {
		for len(open) > 0 && open[len(open)-1] >= s.level {
			open = open[:len(open)-1]
		}
		b.WriteString(strings.Repeat("  ", len(open)) + "- " + s.heading + "\n")
		open = append(open, s.level)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// newDocument makes a ranked document of the blocks of a text. In a collection of several texts,
// no sentence counts as the introduction.
func newDocument(blocks []markdown.Block, collection bool) *document {
	d := &document{sections: []section{{}}, first: -1}
	for _, b := range blocks {
		if b.Kind == markdown.Heading {
			d.sections = append(d.sections, section{b.Text, b.Level})
			continue
		}
		for i, text := range splitSentences(b.Text) {
			words := splitWords(text)
			s := sentence{text: text, section: len(d.sections) - 1, kind: b.Kind, lead: i == 0, leans: leans(text)}
			s.length = max(len(words), len(text)/12) // a script without spaces has few words
			s.weight = fitness(s)
			for _, w := range words {
				if term := stem(w); term != "" {
					s.terms = append(s.terms, term)
				}
			}
			slices.Sort(s.terms)
			s.terms = slices.Compact(s.terms)
			isOpening := s.kind == markdown.Paragraph && s.weight > 0.5 && s.length >= 6 && !s.leans
			if isOpening && !collection && d.first < 0 && len(d.sentences) < 12 {
				d.first = len(d.sentences)
			}
			d.sentences = append(d.sentences, s)
		}
	}
	d.rank()
	return d
}

// stem removes the most common endings of English words, so that the forms of one word become equal. It returns ""
// for stop words and single letters.
func stem(w string) string {
	w = strings.ToLower(strings.ReplaceAll(w, "’", "'"))
	if stopSet()[w] || len(w) < 2 {
		return ""
	}
	w, _, _ = strings.Cut(w, "'")
	if base, ok := strings.CutSuffix(w, "ies"); ok && len(base) > 1 {
		w = base + "y"
	} else if len(w) > 3 && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") {
		w = strings.TrimSuffix(w, "s")
	}
	for _, ending := range [...]string{"ing", "ed", "e"} {
		if base, ok := strings.CutSuffix(w, ending); ok && len(base) >= 4 {
			w = base
		}
	}
	return w
}
