package digest

import (
	"strings"
	"unicode/utf8"
)

// terms gives words that mean the same the same number.
type terms struct {
	lex  *lexicon
	ids  map[string]int32 // by stem
	seen map[string]int32 // by the word as it is written
}

// none is the number of a word without a topic.
const none = int32(-1)

func newTerms() *terms {
	return &terms{lex: english(), ids: map[string]int32{}, seen: map[string]int32{}}
}

// id is the number of the word, or none for stop words and single letters.
func (t *terms) id(word string) int32 {
	if id, ok := t.seen[word]; ok {
		return id
	}
	id := none
	if low := strings.ToLower(word); !t.lex.stop[low] && utf8.RuneCountInString(low) > 1 {
		key := stem(low)
		known, ok := t.ids[key]
		if !ok {
			known = int32(len(t.ids))
			t.ids[strings.Clone(key)] = known
		}
		id = known
	}
	t.seen[word] = id
	return id
}

// stem cuts the endings that most often tell forms of one English word apart.
// It need not be a word: it only has to be the same for the same word.
func stem(w string) string {
	w = strings.TrimSuffix(strings.TrimSuffix(strings.ReplaceAll(w, "’", "'"), "'s"), "'")
	switch {
	case len(w) < 4:
		return w
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		w = w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"):
		w = w[:len(w)-2]
	case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		w = w[:len(w)-1]
	}
	for _, ending := range [...]string{"ing", "ed"} {
		if base, ok := strings.CutSuffix(w, ending); ok && len(base) >= 4 {
			w = base
			break
		}
	}
	if n := len(w); n > 4 && w[n-1] == w[n-2] && strings.IndexByte("bdgmnprt", w[n-1]) >= 0 { // planned, plan
		w = w[:n-1]
	}
	if len(w) > 4 {
		w = strings.TrimSuffix(w, "e")
	}
	return w
}
