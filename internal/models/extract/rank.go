package extract

import (
	"math"
	"slices"
)

// rank sets the score of each sentence: the cosine similarity of its terms to the terms of the
// whole text, raised for sentences at introductory places. Rare terms weigh more than frequent
// ones.
func (d *document) rank() {
	frequency := map[string]float64{} // how many sentences have a term
	for _, s := range d.sentences {
		for _, t := range s.terms {
			frequency[t]++
		}
	}
	d.worth = map[string]float64{}
	for t, n := range frequency {
		d.worth[t] = math.Log(1 + float64(len(d.sentences))/n)
	}
	for i := range d.sentences {
		s := &d.sentences[i]
		for _, t := range s.terms {
			s.norm += d.worth[t] * d.worth[t]
			s.score += d.worth[t] * d.worth[t] * frequency[t]
		}
		if s.norm = math.Sqrt(s.norm); s.norm > 0 {
			s.score /= s.norm
		}
		s.score *= s.weight
		if i == d.first {
			s.score *= 1.6
		} else if i == 0 || d.sentences[i-1].section != s.section {
			s.score *= 1.3
		}
	}
}

// alike returns the cosine similarity of two sentences.
func (d *document) alike(a, b sentence) float64 {
	sum := 0.0
	for _, t := range a.terms {
		if _, ok := slices.BinarySearch(b.terms, t); ok {
			sum += d.worth[t] * d.worth[t]
		}
	}
	return sum / max(a.norm*b.norm, 1e-9)
}

// quotes returns the sentences for a summary or for key points, in the order of the text. Without an amount in w
// their number depends on the length of the text, from 3 to 12.
func (d *document) quotes(w wish) (out []sentence) {
	if w.count == 0 && w.words == 0 {
		good := 0.0
		for _, s := range d.sentences {
			good += math.Ceil(s.weight)
		}
		w.count = min(max(int(math.Round(0.8*math.Sqrt(good))), 3), 12)
	}
	for _, i := range d.choose(w) {
		out = append(out, d.sentences[i])
	}
	return out
}

// choose picks central sentences that do not repeat each other and come from different sections,
// in the order of the text. It includes the sentence that introduces the text. It takes a
// sentence that refers to the previous one only together with that one, and never as a key point.
func (d *document) choose(w wish) (chosen []int) {
	from := map[int]int{} // chosen sentences by section
	nearest := make([]float64, len(d.sentences))
	words, best, alone := 0, 0.0, false
	for _, s := range d.sentences {
		best = max(best, s.score)
		alone = alone || s.score > 0 && !s.leans // if false, a sentence that leans is better than none
	}
	next := func() int {
		pick, value := -1, math.Inf(-1)
		for i, s := range d.sentences {
			leansAlone := s.leans && alone && (s.lead || w.product != summary || !slices.Contains(chosen, i-1))
			used := slices.Contains(chosen, i) || w.words > 0 && words+s.length > w.words && len(chosen) > 0
			if s.score == 0 || nearest[i] > 0.75 || leansAlone || used {
				continue
			}
			if v := s.score/best/(1+0.3*float64(from[s.section])) - 0.4*nearest[i]; v > value {
				pick, value = i, v
			}
		}
		return pick
	}
	pick := next()
	if pick >= 0 && d.first >= 0 && (w.count != 1 || d.sentences[d.first].score >= best*0.4) {
		pick = d.first
	}
	for pick >= 0 && (w.count == 0 || len(chosen) < w.count) {
		s := d.sentences[pick]
		chosen = append(chosen, pick)
		from[s.section]++
		words += s.length
		for i, other := range d.sentences {
			nearest[i] = max(nearest[i], d.alike(other, s))
		}
		pick = next()
	}
	slices.Sort(chosen)
	return chosen
}
