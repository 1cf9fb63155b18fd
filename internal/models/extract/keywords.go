package extract

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// phrase is a run of words that may be a keyword.
type phrase struct {
	stems  string // stems of its words, with spaces around each
	length int    // in words
	count  int    // number of its occurrences
	first  int
	form   string // how it is shown
}

const mostWords = 3 // of a keyword

var codeSpan = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("`[^`]*`") })

// keywords returns the n most frequent topical phrases of the text, best first; with 0 it returns at most 10.
// Longer phrases weigh more.
func (d *document) keywords(n int) (out []string) {
	phrases := map[string]*phrase{}
	for _, s := range d.sentences {
		countPhrases(phrases, codeSpan().ReplaceAllString(s.text, ","))
	}
	value := func(p *phrase) float64 { return float64(p.count) * math.Log2(float64(p.length)+1) }
	ranked := slices.SortedFunc(maps.Values(phrases), func(a, b *phrase) int {
		return cmp.Or(cmp.Compare(value(b), value(a)), cmp.Compare(a.first, b.first))
	})
	var chosen []*phrase
	for _, p := range ranked {
		repeats := slices.ContainsFunc(chosen, func(other *phrase) bool {
			return strings.Contains(other.stems, p.stems) || other.length > 1 && strings.Contains(p.stems, other.stems)
		})
		if len(out) < cmp.Or(n, 10) && !repeats && p.mayBeKeyword() {
			chosen, out = append(chosen, p), append(out, p.form)
		}
	}
	return out
}

// countPhrases adds the phrases of a sentence to phrases, a map by stems. A phrase is a run of topical words with
// only spaces between them.
func countPhrases(phrases map[string]*phrase, text string) {
	clauses := strings.FieldsFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.Punct, unicode.Symbol) && !strings.ContainsRune("-_'’.", r)
	})
	for _, clause := range clauses {
		words := splitWords(clause)
		start := 0 // of the run of topical words
		for end, w := range words {
			if stem(w) == "" || strings.Trim(w, "0123456789.") == "" {
				start = end + 1
			}
			stems := " "
			for i := end; i >= max(start, end+1-mostWords); i-- {
				stems = " " + stem(words[i]) + stems
				p := phrases[stems]
				if p == nil {
					p = &phrase{stems: stems, length: end + 1 - i, first: len(phrases)}
					phrases[stems] = p
				}
				p.count++
				// The shortest form is the singular; a small letter sorts after its capital.
				form := strings.Join(words[i:end+1], " ")
				if p.form == "" || len(form) < len(p.form) || len(form) == len(p.form) && form > p.form {
					p.form = form
				}
			}
		}
	}
}

// mayBeKeyword reports whether a phrase occurs more than once and does not look like a verb.
func (p *phrase) mayBeKeyword() bool {
	words := strings.Fields(strings.ToLower(p.form))
	last := words[len(words)-1]
	for _, w := range [...]string{words[0], last} {
		if weakSet()[w] || strings.HasSuffix(w, "ly") || strings.HasSuffix(w, "n't") {
			return false
		}
	}
	verb := len(last) > 4 && (strings.HasSuffix(last, "ed") || strings.HasSuffix(last, "ing"))
	return !verb && len(p.form) > 2 && (len(words) == 1 || p.count > 1)
}
