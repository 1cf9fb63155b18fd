package digest

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"qq/internal/models/extract/prose"
)

// longestPhrase is how many words a keyword may have.
const longestPhrase = 3

// gram is a phrase by the numbers of its words; unused places are none.
type gram [longestPhrase]int32

// candidate is a phrase that may be a keyword.
type candidate struct {
	gram   gram
	length int
	body   float64 // how often it stands in sentences
	heads  float64 // and in headings
	inside float64 // how often it stands there as a part of longer ones
	around int     // how many different longer ones
	forms  map[string]int
	form   string // the one that is shown
	first  int
}

// phrases finds the phrases of a text.
type phrases struct {
	terms      *terms
	candidates map[gram]*candidate
	order      []*candidate
	noun, verb map[int32]int // how often a word stands where nouns and verbs stand
	foreign    map[string]bool
}

// Keywords returns the n phrases that a text is most about (0 is the usual 10),
// best first: those that occur often by themselves and not only as a part of a longer one.
func (d *Document) Keywords(n int) []string {
	if n == 0 {
		n = 10
	}
	p := &phrases{terms: d.terms, candidates: map[gram]*candidate{}, noun: map[int32]int{}, verb: map[int32]int{}}
	p.foreign = d.foreignStops()
	for _, s := range d.sections {
		if !s.side {
			p.add(s.heading, true)
		}
	}
	for _, s := range d.sentences {
		if !d.sections[s.section].side {
			p.add(s.text, false)
		}
	}
	return p.best(n)
}

// run is a run of words with a topic inside a sentence.
type run struct {
	ids   []int32
	at    []int  // where each word begins
	end   int    // where the last one ends
	ahead string // the word before the run
}

// add collects the phrases of one sentence or heading.
func (p *phrases) add(text string, isHeading bool) {
	var r run
	end, before := 0, ""
	for i, w := range prose.Words(text) {
		low := strings.ToLower(w)
		id := p.terms.id(w)
		if p.foreign[low] || strings.Trim(w, "0123456789.") == "" || domain(low) {
			id = none
		}
		gap := "-" // the pairs of characters of one word overlap
		if i >= end {
			gap = text[end:i]
		}
		if gap != " " && gap != "-" {
			before = ""
		}
		if id == none || before == "" {
			p.close(text, &r, low, isHeading)
		}
		if id != none {
			if first, _ := utf8.DecodeRuneInString(w); end > 0 && unicode.IsUpper(first) && !isHeading {
				p.noun[id]++ // a name
			}
			if len(r.ids) == 0 {
				r.ahead = before
			}
			r.ids, r.at, r.end = append(r.ids, id), append(r.at, i), i+len(w)
		}
		end, before = i+len(w), low
	}
	p.close(text, &r, "", isHeading)
}

// close counts every phrase inside a run, and what the words around it say
// about its first and its last word.
func (p *phrases) close(text string, r *run, behind string, isHeading bool) {
	if len(r.ids) == 0 {
		return
	}
	if p.terms.lex.verbAhead[r.ahead] {
		p.verb[r.ids[0]]++
	}
	if p.terms.lex.nounAhead[r.ahead] || behind == "of" || behind == "is" || behind == "are" {
		p.noun[r.ids[len(r.ids)-1]]++
	}
	stop := func(i int) int { // where word i ends
		if i+1 < len(r.at) {
			return len(strings.TrimRight(text[:r.at[i+1]], " -"))
		}
		return r.end
	}
	for i := range r.ids {
		for n := 1; n <= longestPhrase && i+n <= len(r.ids); n++ {
			p.count(r.ids[i:i+n], text[r.at[i]:max(stop(i+n-1), r.at[i])], isHeading)
		}
	}
	*r = run{}
}

// count notes that a phrase stands in the text once more.
func (p *phrases) count(ids []int32, form string, isHeading bool) {
	g := gram{none, none, none}
	copy(g[:], ids)
	c := p.candidates[g]
	if c == nil {
		c = &candidate{gram: g, length: len(ids), forms: map[string]int{}, first: len(p.order)}
		p.candidates[g] = c
		p.order = append(p.order, c)
	}
	if isHeading {
		c.heads++
	} else {
		c.body++
	}
	c.forms[form]++
}

// best ranks the candidates by their C-value.
func (p *phrases) best(n int) []string {
	var good []*candidate
	for _, c := range p.order {
		c.form = c.shown()
		if p.nounish(c) && c.body > 0 && (c.length == 1 || c.count() > 1) {
			good = append(good, c)
		}
	}
	for _, c := range good {
		for part := range c.parts() {
			if inner := p.candidates[part]; inner != nil && inner != c {
				inner.inside += c.count()
				inner.around++
			}
		}
	}
	slices.SortStableFunc(good, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(p.value(b), p.value(a)), cmp.Compare(a.first, b.first))
	})
	var out []string
	var chosen []*candidate
	for _, c := range good {
		if len(out) == n {
			break
		}
		if !slices.ContainsFunc(chosen, func(other *candidate) bool {
			return c.within(other) || other.within(c) && c.length > 1 && other.length > 1
		}) {
			chosen = append(chosen, c)
			out = append(out, c.form)
		}
	}
	return out
}

// count is how often a phrase stands in the text; a heading counts as well, but
// not what stands in headings alone.
func (c *candidate) count() float64 { return c.body + min(c.heads, c.body) }

// value is the C-value: how often a phrase occurs, less how often it is only a
// part of others, more for a longer one.
func (p *phrases) value(c *candidate) float64 {
	alone := c.count()
	if c.around > 0 {
		alone -= c.inside / float64(c.around)
	}
	switch {
	case c.length == 1 && p.terms.lex.common[strings.ToLower(c.form)]:
		return 0.3 * alone
	case c.length == 1 && p.noun[c.gram[0]] == 0:
		return 0.5 * alone
	case c.length == 1:
		return alone
	}
	return alone * math.Log2(float64(c.length)+2)
}

// parts yields the phrases inside of c.
func (c *candidate) parts() func(func(gram) bool) {
	return func(yield func(gram) bool) {
		for i := range c.length {
			for n := 1; i+n <= c.length; n++ {
				g := gram{none, none, none}
				copy(g[:], c.gram[i:i+n])
				if !yield(g) {
					return
				}
			}
		}
	}
}

// within reports whether all words of c are words of other.
func (c *candidate) within(other *candidate) bool {
	for _, id := range c.gram[:c.length] {
		if !slices.Contains(other.gram[:other.length], id) {
			return false
		}
	}
	return true
}

// shown is the form of a phrase that is most usual in the text. A capital at the
// beginning says nothing when the phrase also stands there in small letters.
func (c *candidate) shown() string {
	counts := map[string]int{}
	for form, n := range c.forms {
		form = strings.Trim(form, "_'")
		if low := strings.ToLower(form); form != low && capitalised(form) && c.forms[low] >= n {
			form = low
		}
		counts[form] += n
	}
	best := ""
	for _, form := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[form] - counts[best]; best == "" || n > 0 || n == 0 && len(form) < len(best) {
			best = form
		}
	}
	return best
}

// capitalised reports whether only the first letters of the words are capitals.
func capitalised(s string) bool {
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '-' }) {
		_, size := utf8.DecodeRuneInString(w)
		if strings.ToLower(w[size:]) != w[size:] {
			return false
		}
	}
	return true
}

// nounish reports whether a candidate may be a keyword: English marks nouns
// only by where they stand, so words that mostly stand where verbs do are out.
func (p *phrases) nounish(c *candidate) bool {
	all := strings.FieldsFunc(strings.ToLower(c.form), func(r rune) bool { return r == ' ' || r == '-' })
	if len(all) == 0 || utf8.RuneCountInString(c.form) < 2 {
		return false
	}
	for i, w := range all {
		verb := i < c.length && p.verb[c.gram[i]] > p.noun[c.gram[i]]
		edge := i == 0 || i == len(all)-1
		if edge && (p.terms.lex.weak[w] || verb) || strings.HasSuffix(w, "ly") && edge {
			return false
		}
		if i == len(all)-1 && (strings.HasSuffix(w, "ed") || strings.HasSuffix(w, "n't")) && len(w) > 4 {
			return false
		}
	}
	return c.length > 1 || utf8.RuneCountInString(c.form) > 2 || strings.ToUpper(c.form) == c.form || prose.Wide([]rune(c.form)[0])
}

// foreignStops guesses the stop words of a text that is not English: short
// words in small letters that stand in many of its sentences.
func (d *Document) foreignStops() map[string]bool {
	count, all, stops := map[string]int{}, 0, 0
	for _, s := range d.sentences {
		for _, w := range prose.Words(s.text) {
			all++
			if d.terms.id(w) == none {
				stops++
			}
			if r, _ := utf8.DecodeRuneInString(w); unicode.IsLower(r) && utf8.RuneCountInString(w) <= 5 {
				count[w]++
			}
		}
	}
	if stops*4 > all {
		return nil
	}
	out := map[string]bool{}
	for w, n := range count {
		if n*15 > len(d.sentences) || utf8.RuneCountInString(w) < 4 {
			out[w] = true
		}
	}
	return out
}

// domain reports whether a word is the name of a host.
func domain(low string) bool {
	for _, end := range [...]string{".com", ".org", ".net", ".io", ".dev"} {
		if strings.HasSuffix(low, end) {
			return true
		}
	}
	return false
}
