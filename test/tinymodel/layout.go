package tinymodel

import (
	"math"
	"math/bits"
)

const (
	headDim  = 64
	ownValue = 8 // what a Start token holds at its own dimension
)

// layout says what each dimension of the hidden state means: the state, which Start token the
// token is (one-hot), which Start token attention found, and a few flags.
type layout struct {
	codeLen int // dimensions 0 … codeLen-1 hold the state
	heads   int

	own   int // first of the Start token that the token is
	found int // first of the Start token that attention found
	one   int // 1 for every token
	start int // 1 for a Start token
	reply int // 1 for the token Reply
	begin int // 1 for the begin token
	fill  int // makes every embedding as long as RMSNorm would
	dim   int
}

// newLayout returns a layout for so many states and Start tokens.
func newLayout(states, starts int) layout {
	l := layout{codeLen: 64, heads: max(1, (starts+headDim-1)/headDim)}
	for l.codeLen < states {
		l.codeLen *= 2
	}
	l.own = l.codeLen
	l.found = l.own + l.heads*headDim
	l.one = l.found + l.heads*headDim
	l.start, l.reply, l.begin, l.fill = l.one+1, l.one+2, l.one+3, l.one+4
	l.dim = l.one + 64
	return l
}

// code returns element j of the vector of a state: row state-1 of a Hadamard matrix.
func code(state, j int) float32 {
	if state == none {
		return 0
	}
	return float32(1 - 2*(bits.OnesCount(uint(state-1)&uint(j))&1))
}

// embeddings returns the embedding vectors of all tokens.
func (l layout) embeddings(t *table) []float32 {
	x := make([]float32, len(t.vocab.text)*l.dim)
	row := func(token int) []float32 { return x[token*l.dim : (token+1)*l.dim] }
	for i, token := range t.starts {
		row(token)[l.own+i] = ownValue
		row(token)[l.start] = 1
	}
	row(t.begin)[l.begin] = 1
	if t.reply >= 0 {
		row(t.reply)[l.reply] = 1
	}
	for token := range t.vocab.text {
		e := row(token)
		for j := range l.codeLen {
			e[j] = code(t.state[token], j)
		}
		e[l.one] = 1
		var sum float64
		for _, v := range e {
			sum += float64(v) * float64(v)
		}
		e[l.fill] = float32(math.Sqrt(float64(l.dim) - sum))
	}
	return x
}

// fallback lists the characters that the model emits where nothing else should follow, the most
// likely first, after the end of turn.
const fallback = "\"}]:,1abcdefghijklmnopqrstuvwxyz023456789ABCDEFGHIJKLMNOPQRSTUVWXYZ{[-. "

// output returns the matrix that maps the hidden state to a logit for each token.
func (l layout) output(t *table) []float32 {
	x := make([]float32, len(t.vocab.text)*l.dim)
	for i, token := range t.starts {
		x[t.first[token]*l.dim+l.found+i] = 2 * chainLogit / ownValue
	}
	for token := range t.spoken {
		x[token*l.dim+l.one] = -chainLogit / 4
	}
	for state, ws := range t.wants {
		for _, w := range ws {
			for j := range l.codeLen {
				x[w.token*l.dim+j] += w.logit / float32(l.codeLen) * code(state, j)
			}
		}
	}
	x[t.end*l.dim+l.one] = 1000
	for i, b := range []byte(fallback) {
		x[int(b)*l.dim+l.one] = float32(980 - 12*i)
	}
	return x
}

// The first dimension of the pairs in which a head compares a query with keys.
// Of its 32 pairs, pair 8 turns by 1.5 rad over the context (see ropeBase), and
// pairs 30 and 31 stand still.
const (
	pairNear  = 2 * 8  // the nearer, the better
	pairSink  = 2 * 30 // everybody to the begin token
	pairMatch = 2 * 31 // Reply to Start tokens
)

// ropeBase returns the RoPE base at which pair 8 turns by 1.5 rad over the context.
func ropeBase(context int) float32 { return float32(math.Pow(float64(context)/1.5, 4)) }

// attention returns the attention matrix of that name; the matrices of the feed-forward part are
// zero.
func (l layout) attention(name string, in, out int) []float32 {
	x := make([]float32, in*out)
	set := func(to, from int, weight float32) { x[to*in+from] = weight }
	for h := range l.heads {
		at := h * headDim
		switch name {
		case "attn_q":
			set(at+pairNear+1, l.reply, 186)
			set(at+pairMatch, l.reply, 186)
			set(at+pairSink, l.one, 18)
		case "attn_k":
			set(at+pairNear, l.start, 186)
			set(at+pairMatch, l.start, 192)
			set(at+pairSink, l.begin, 18)
		case "attn_v":
			for i := range headDim {
				set(at+i, l.own+at+i, 1)
			}
		case "attn_output":
			for i := range headDim {
				set(l.found+at+i, at+i, 1)
			}
		}
	}
	return x
}
