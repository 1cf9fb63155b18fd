package digest

import (
	"cmp"
	"context"
	"slices"

	"qq/internal/models/extract/prose"
)

const (
	// most is how many sentences are compared with each other; of a longer text
	// the best of each stretch come to the last round.
	most = 512
	// stretch is how many sentences of a longer text are compared at first.
	stretch = 384
)

// matrix holds how alike the sentences of a pool are, 0 to 1.
type matrix struct {
	size int
	cell []float32
}

func (m matrix) row(i int) []float32 { return m.cell[i*m.size : (i+1)*m.size] }

// ranking is a pool of sentences, how central each is, and how alike they are.
type ranking struct {
	pool  []int // indices into document.sentences, rising
	score []float64
	near  matrix // how alike they are
}

// rank finds the central sentences among those that can be quoted.
func (d *Document) rank(ctx context.Context) (ranking, error) {
	if d.ranked != nil {
		return *d.ranked, nil
	}
	var pool []int
	for i, s := range d.sentences {
		if s.weight > 0 {
			pool = append(pool, i)
		}
	}
	for len(pool) > most {
		var kept []int
		for part := range slices.Chunk(pool, stretch) {
			if err := ctx.Err(); err != nil {
				return ranking{}, err
			}
			kept = append(kept, d.rankPool(part).top(1+len(part)*(most/2)/len(pool))...)
		}
		pool = kept
	}
	if err := ctx.Err(); err != nil {
		return ranking{}, err
	}
	r := d.rankPool(pool)
	d.ranked = &r
	return r, nil
}

// top returns the n best sentences of the pool in the order of the text.
func (r ranking) top(n int) []int {
	order := make([]int, len(r.pool))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.score[b], r.score[a]) })
	order = order[:min(n, len(order))]
	slices.Sort(order)
	for i, o := range order {
		order[i] = r.pool[o]
	}
	return order
}

// rankPool scores the sentences of a pool by a random walk between those that
// are alike, which starts over at the places where a text says what it is about.
func (d *Document) rankPool(pool []int) ranking {
	r := ranking{pool: pool, near: d.alike(pool)}
	n := len(pool)
	prior, sum := make([]float64, n), 0.0
	for i, p := range pool {
		prior[i] = d.prior(p)
		sum += prior[i]
	}
	degree := make([]float64, n)
	for i := range n {
		for _, a := range r.near.row(i) {
			degree[i] += float64(a)
		}
		prior[i] /= sum
	}
	const damping = 0.85
	r.score = slices.Clone(prior)
	next := make([]float64, n)
	for range 50 {
		for i := range n {
			next[i] = (1 - damping) * prior[i]
		}
		for i := range n {
			if degree[i] == 0 {
				next[i] += damping * r.score[i]
				continue
			}
			flow := damping * r.score[i] / degree[i]
			for j, a := range r.near.row(i) {
				next[j] += flow * float64(a)
			}
		}
		change := 0.0
		for i := range n {
			change += max(next[i]-r.score[i], r.score[i]-next[i])
		}
		r.score, next = next, r.score
		if change < 1e-6 {
			break
		}
	}
	for i, p := range pool {
		r.score[i] *= d.sentences[p].weight * d.place(p)
		if d.sentences[p].length < 8 {
			r.score[i] *= 0.8
		}
	}
	return r
}

// alike compares all sentences of a pool: the cosine of their vectors.
func (d *Document) alike(pool []int) matrix {
	m := matrix{size: len(pool), cell: make([]float32, len(pool)*len(pool))}
	type posting struct {
		row    int
		weight float32
	}
	postings := map[int32][]posting{}
	for i, p := range pool {
		row := m.row(i)
		for _, c := range d.sentences[p].vector {
			for _, other := range postings[c.term] {
				row[other.row] += c.weight * other.weight
			}
			postings[c.term] = append(postings[c.term], posting{i, c.weight})
		}
		for j, a := range row[:i] {
			m.cell[j*m.size+i] = a
		}
	}
	return m
}

// prior is how likely sentence i says what its part of the text is about: the
// first ones do, and those that repeat the words of their heading.
func (d *Document) prior(i int) float64 {
	s := d.sentences[i]
	w := 1.0
	if i == 0 || d.sentences[i-1].section != s.section {
		w = 2
	} else if s.lead && s.kind == prose.Paragraph {
		w = 1.3
	}
	title := section{}
	if len(d.sections) > 1 {
		title = d.sections[1]
	}
	return w + 0.5*shared(s.vector, d.sections[s.section].terms) + 0.3*shared(s.vector, title.terms)
}

// shared counts the terms that a vector has, up to 3.
func shared(vector []component, terms []int32) float64 {
	n := 0.0
	for _, t := range terms {
		if _, ok := slices.BinarySearchFunc(vector, t, func(c component, t int32) int { return cmp.Compare(c.term, t) }); ok {
			n++
		}
	}
	return min(n, 3)
}

// place is what the place of sentence i in the text is worth.
func (d *Document) place(i int) float64 {
	switch s := d.sentences[i]; {
	case d.sections[s.section].side:
		return 0.4
	case !d.introduces(i):
		return 1
	case i == d.first:
		return 1.6
	}
	return 1.3
}

// introduces reports whether sentence i is one of the first ones, where a text
// says what it is about.
func (d *Document) introduces(i int) bool {
	s := d.sentences[i]
	return !d.joined && i >= d.first && i < d.first+8 && s.kind == prose.Paragraph && s.section == d.sentences[d.first].section
}

// budget bounds a selection; 0 is no bound.
type budget struct {
	sentences int
	words     int
	bytes     int
}

// selection is a growing choice of central sentences.
type selection struct {
	*Document
	ranking
	best    float64   // the highest score
	nearest []float32 // how alike each sentence is to the chosen ones
	taken   []bool
	from    map[int]int // how many of each section
	words   int
	bytes   int
	chosen  []int
}

// choose picks central sentences that do not repeat each other and come from
// different sections, in the order of the text. The one by which the text
// introduces itself comes first.
func (d *Document) choose(r ranking, b budget) []int {
	n := len(r.pool)
	if n == 0 {
		return nil
	}
	s := selection{Document: d, ranking: r, best: slices.Max(r.score), nearest: make([]float32, n), taken: make([]bool, n), from: map[int]int{}}
	pick := s.opening()
	if best := s.next(b); pick < 0 || b.sentences == 1 && (s.score[pick] < 0.4*s.score[best] || s.sentences[s.pool[pick]].length < 8) {
		pick = best
	}
	for pick >= 0 && (b.sentences == 0 || len(s.chosen) < b.sentences) {
		s.take(pick)
		pick = s.next(b)
	}
	slices.Sort(s.chosen)
	return s.chosen
}

// opening is the first sentence of the introduction that stands alone, or -1.
func (s *selection) opening() int {
	return slices.IndexFunc(s.pool, func(p int) bool {
		c := s.sentences[p]
		return s.introduces(p) && c.weight > 0.5 && c.length >= 6 && !c.leans && !s.sections[c.section].side
	})
}

// next is the sentence that adds most to the chosen ones, or -1.
func (s *selection) next(b budget) int {
	pick, value := -1, -1.0
	for i, p := range s.pool {
		c := &s.sentences[p]
		switch {
		case s.taken[i], s.nearest[i] > 0.75, c.leans && (c.lead || !slices.Contains(s.chosen, p-1)),
			b.words > 0 && s.words+c.length > b.words && s.words > 0, b.bytes > 0 && s.bytes+len(c.text) > b.bytes && s.bytes > 0:
			continue
		}
		v := s.score[i]/s.best/(1+0.3*float64(s.from[c.section])) - 0.4*float64(s.nearest[i])
		if v > value {
			pick, value = i, v
		}
	}
	return pick
}

func (s *selection) take(i int) {
	p := s.pool[i]
	s.taken[i] = true
	s.chosen = append(s.chosen, p)
	s.from[s.sentences[p].section]++
	s.words += s.sentences[p].length
	s.bytes += len(s.sentences[p].text) + 1
	for j, a := range s.near.row(i) {
		s.nearest[j] = max(s.nearest[j], a)
	}
}
