package digest

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"qq/internal/models/extract/prose"
)

// Document is a text as ranking sees it. It is made for one goroutine.
type Document struct {
	sections  []section
	sentences []sentence
	terms     *terms
	joined    bool     // a collection of texts
	size      int      // of all texts in it, in bytes
	first     int      // the sentence where it begins to speak
	ranked    *ranking // what rank found
}

const (
	// mostWords and mostBytes are how long a sentence may be to be quoted whole.
	mostWords, mostBytes = 60, 400
)

// section is what stands under one heading. The first section has none.
type section struct {
	heading string
	level   int
	side    bool    // not about the matter: licence, installation …
	terms   []int32 // of the heading
}

// sentence is one sentence or sentence-like list item.
type sentence struct {
	text    string
	section int
	kind    prose.Kind
	lead    bool    // the first of its paragraph
	leans   bool    // makes sense only behind the sentence before
	weight  float64 // what it is worth before ranking; 0 is never quoted
	length  int     // in words
	vector  []component
}

// component is how much a sentence says about a term.
type component struct {
	term   int32
	weight float32
}

// New makes a document of the blocks of a text.
func New(blocks []prose.Block) *Document {
	d := &Document{sections: []section{{}}, terms: newTerms()}
	for _, b := range blocks {
		d.size += len(b.Text) + 1
		texts := []string{b.Text}
		switch b.Kind {
		case prose.Heading:
			d.sections = append(d.sections, d.section(b))
			continue
		case prose.Paragraph, prose.Item, prose.Quote:
			texts = prose.Sentences(d.terms.lex.capital(b.Text))
		}
		for i, text := range texts {
			s := sentence{text: text, section: len(d.sections) - 1, kind: b.Kind, lead: i == 0, weight: fitness(text, b.Kind), length: prose.Count(text)}
			if b.Kind != prose.Record && d.terms.lex.leans(text) {
				s.leans = true
				s.weight *= 0.7
			}
			d.sentences = append(d.sentences, s)
		}
	}
	d.settle()
	d.vectors()
	return d
}

// NewCollection makes a document of several texts of equal rank, each under a
// heading: none of them introduces the others.
func NewCollection(blocks []prose.Block) *Document {
	d := New(blocks)
	d.joined = true
	return d
}

// capital gives a paragraph the capital that it lacks where it begins with a
// common word; a name may well begin with a small letter.
func (l *lexicon) capital(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if first, size := utf8.DecodeRuneInString(s); unicode.IsLower(first) && l.stop[word] {
		return string(unicode.ToUpper(first)) + s[size:]
	}
	return s
}

func (d *Document) section(b prose.Block) section {
	s := section{heading: b.Text, level: b.Level}
	for _, w := range prose.Words(b.Text) {
		if id := d.terms.id(w); id != none {
			s.terms = append(s.terms, id)
		}
		if n := len(d.sections); n > 1 && d.terms.lex.side[strings.ToLower(w)] {
			s.side = true
		}
	}
	if last := d.sections[len(d.sections)-1]; last.side && last.level < b.Level {
		s.side = true
	}
	return s
}

// vectors fills in what each sentence says: TF-IDF of its terms, of length 1.
func (d *Document) vectors() {
	var ids []int32
	frequency := map[int32]int{} // of a term: sentences that have it
	for i := range d.sentences {
		s := &d.sentences[i]
		ids = ids[:0]
		for _, w := range prose.Words(s.text) {
			if id := d.terms.id(w); id != none && len(ids) < 200 {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		for j, id := range ids {
			if j > 0 && id == ids[j-1] {
				s.vector[len(s.vector)-1].weight++
				continue
			}
			s.vector = append(s.vector, component{id, 1})
			frequency[id]++
		}
	}
	n := float64(len(d.sentences))
	for i := range d.sentences {
		vector := d.sentences[i].vector
		sum := 0.0
		for j, c := range vector {
			w := (1 + math.Log(float64(c.weight))) * math.Log(1+n/float64(frequency[c.term]))
			vector[j].weight = float32(w)
			sum += w * w
		}
		for j := range vector {
			vector[j].weight /= float32(math.Sqrt(sum))
		}
	}
}

// leans reports whether a sentence points backwards at its beginning: by a word
// such as "however", or by a "this" that is not the text itself.
func (l *lexicon) leans(text string) bool {
	low := strings.ToLower(strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), 80)], ""), "’", "'"))
	for _, phrase := range l.linking {
		if strings.HasPrefix(low, phrase) {
			return true
		}
	}
	var first []string
	for _, w := range prose.Words(low) {
		first = append(first, w)
	}
	for i, w := range first[:min(len(first), 5)] {
		if w == "this" || w == "these" || w == "those" {
			rest := first[i+1 : min(i+4, len(first))]
			return !slices.ContainsFunc(rest, func(w string) bool { return l.itself[w] })
		}
		if i == 0 && l.dangling[w] {
			return true
		}
	}
	return false
}

// fitness is how well a sentence can stand alone, whatever it is about: 1 for a
// whole sentence of usual length, 0 for what should never be quoted.
func fitness(text string, kind prose.Kind) float64 {
	if kind == prose.Record {
		return recordFitness(text)
	}
	count, letters, signs := prose.Count(text), 0, 0
	for _, r := range text {
		switch {
		case unicode.IsLetter(r):
			letters++
		case r != ' ' && !unicode.IsMark(r):
			signs++
		}
	}
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text, "\"'”’»*_)]`"))
	switch {
	case strings.HasSuffix(text, "e.g."), strings.HasSuffix(text, "i.e."), inCode(text)*2 > len(text):
		return 0
	case count < 4, tooLong(text, count), letters < 2*signs, last == ':', strings.Count(text, "(") != strings.Count(text, ")"),
		strings.Count(text, "`")%2 == 1, strings.Contains(text, "\uFFFD"):
		return 0
	}
	w := [...]float64{prose.Paragraph: 1, prose.Item: 0.8, prose.Quote: 0.6}[kind]
	if count < 7 {
		w *= 0.6
	}
	if count > 40 {
		w *= 0.7
	}
	if last == '?' {
		w *= 0.4
	} else if !unicode.Is(unicode.STerm, last) && last != '.' && last != '…' {
		w *= 0.6
	}
	if first, _ := utf8.DecodeRuneInString(text); unicode.IsLower(first) {
		w *= 0.8
		if kind == prose.Item {
			w *= 0.6
		}
	}
	if strings.Count(text, "`") > 8 {
		w *= 0.7
	}
	if fragment(text) {
		w *= 0.5
	}
	return w * pointing(strings.ToLower(text))
}

// tooLong reports whether a sentence of count words is too long to be quoted.
func tooLong(text string, count int) bool { return count > mostWords || len(text) > mostBytes }

// recordFitness is how well a line of a log or a table can stand alone. One
// that says what went wrong is worth more.
func recordFitness(text string) float64 {
	words, w := 0, 0.4
	for _, word := range prose.Words(text) {
		if strings.ContainsFunc(word, unicode.IsLetter) {
			words++
		}
		switch strings.ToLower(word) {
		case "error", "errors", "fatal", "panic", "failed", "failure", "critical", "denied", "exception":
			w = 0.9
		case "warning", "warn", "timeout", "refused", "killed":
			w = max(w, 0.7)
		}
	}
	if words < 2 || tooLong(text, words) {
		return 0
	}
	return w
}

// fragment reports whether a sentence is a remark beside a title and no
// statement: "How it is built, and why.", "Measured on two machines."
func fragment(text string) bool {
	first, rest, _ := strings.Cut(text, " ")
	second, rest, _ := strings.Cut(rest, " ")
	switch strings.ToLower(first) {
	case "how", "why", "what", "where", "who", "whether":
		return !strings.Contains(rest, ", ") || len(text) < 60
	}
	switch second {
	case "on", "in", "with", "by", "from", "for", "at", "as", "against":
		return len(first) > 4 && strings.HasSuffix(first, "ed") && !strings.Contains(rest, ", ")
	}
	return false
}

// inCode is how many bytes of a sentence stand in code spans.
func inCode(text string) int {
	n := 0
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			n += len(part) + 2
		}
	}
	return n
}

// pointing lowers the worth of a sentence that points at something else: at a
// page, at the reader, or at what stands above or below.
func pointing(low string) float64 {
	w := 1.0
	if strings.Contains(low, "://") {
		w *= 0.4
	}
	switch first, _, _ := strings.Cut(low, " "); {
	case strings.HasPrefix(low, "("):
		w *= 0.6
	case first == "if", first == "when", first == "whenever", first == "unless":
		w *= 0.8
	}
	for _, sign := range [...]string{"copyright", "©", "(c) ", "all rights reserved", "licensed under", "licenced under", "public licen", " license,", "spdx-", "without warranty", "warranties",
		"author:", "authors:", "written by", "maintained by", "as follows", "[output truncated", "redistribut", "is free software;", "permission to", "permission is"} {
		if strings.Contains(low, sign) {
			w *= 0.15
			break
		}
	}
	for _, start := range [...]string{"see ", "check ", "please ", "click ", "read ", "refer ", "note", "thank", "let's ", "we'll ", "now ",
		"first, ", "i ", "be sure", "become ", "do ", "feel free", "make sure", "don't forget", "there is no", "there are no", "here ", "we'd ", "we have ", "we've "} {
		if strings.HasPrefix(low, start) {
			w *= 0.5
			break
		}
	}
	for _, phrase := range [...]string{"following", " below", " above", "see also", "for more ", "for details", "this section", "check out", "please",
		" this ", " these ", " those ", " such ", "you may also", "next section", "previous section"} {
		if strings.Contains(low, phrase) {
			w *= 0.7
			break
		}
	}
	return w
}

// settle lowers the worth of list items where a section is little else than a
// long list: a catalogue, not an argument. Where a text has paragraphs, the
// records between them are left out.
func (d *Document) settle() {
	items, others := make([]int, len(d.sections)), make([]int, len(d.sections))
	records, words, good := 0, 0, 0
	for i, s := range slices.Backward(d.sentences) {
		if i < 12 && s.kind == prose.Paragraph && s.weight > 0.5 && s.length >= 6 {
			d.first = i
		}
		switch {
		case s.kind == prose.Item:
			items[s.section]++
		default:
			others[s.section]++
		}
		if s.kind == prose.Record {
			records += s.length
		} else if s.weight > 0.3 {
			words += s.length
			good++
		}
	}
	for i := range d.sentences {
		s := &d.sentences[i]
		switch {
		case s.kind == prose.Item && items[s.section] > 12 && items[s.section] > 2*others[s.section]:
			s.weight *= 0.5
		case s.kind == prose.Record && good > 2 && 30*words > records:
			s.weight = 0
		}
	}
}
