// Package tinymodel makes very small GGUF models, by computing their weights:
// nothing is trained and nothing is downloaded.
//
// A [Scripted] model makes a real server say chosen text: after the last Start
// token that stands anywhere in the prompt (user text, system prompt, tool
// result) it says the [Script] of that token. A test so writes its scenario
// into prompts. A [Random] model says anything at all, valid UTF-8 or not.
//
// The vocabulary is one token for each byte and one for each chunk of a script,
// so a prompt has about as many tokens as bytes. Not promised: that a model
// understands anything, or that two Start tokens closer than a few tokens in a
// context of many thousands are told apart.
package tinymodel

import (
	"fmt"
	"io"
	"math/rand/v2"
)

// Script says what the model emits after the control token Start: Text, cut
// into tokens before its spaces (or as Tokens says), and then the end of turn.
type Script struct {
	Start  string
	Text   string
	Tokens []string
	Loop   bool // the text starts again, without end
}

// Spec describes a model.
type Spec struct {
	Arch    string   // "llama" (default); Random also knows "qwen3"
	Context int      // default 8192
	Control []string // the template's control tokens
	Reply   string   // the control token at which the model looks for a script
	Default string   // Start of the script when the prompt names none
	Scripts []Script
	Seed    uint64 // of Random
}

func (s Spec) withDefaults() Spec {
	if s.Arch == "" {
		s.Arch = "llama"
	}
	if s.Context == 0 {
		s.Context = 8192
	}
	return s
}

// Scripted writes a model whose weights are a table: which token follows which.
//
// Each token that a script emits has a state, a vector of ±1, and all states are
// orthogonal (rows of a Hadamard matrix). The token's embedding holds its state,
// and row u of the output matrix holds the states that u follows, so the wanted
// successor gets a logit thousands above all others and sampling has no choice at
// any temperature in use. Feed-forward outputs are zero.
//
// Attention does one thing: at the token Reply it finds the last Start token
// anywhere in the prompt, and copies which one it is to the hidden state, so that
// this script's first token follows. All other tokens attend to the begin token,
// which has nothing to copy. "Last" comes from RoPE: in a pair of dimensions that
// turns by less than a quarter over the whole context, a query a quarter turn
// ahead of the key scores -sin(distance).
//
// Where nothing else is wanted (after a prompt without a Start token, or where a
// grammar forbids the wanted token) the model wants the end of turn, then to close
// strings and brackets, then a digit or a letter. Under the grammar of a JSON
// schema that is the shortest document it can end on, with a word in each string.
func Scripted(w io.Writer, s Spec) error {
	s = s.withDefaults()
	if s.Arch != "llama" {
		return fmt.Errorf("scripted model: architecture %q is not llama", s.Arch)
	}
	t, err := newTable(s)
	if err != nil {
		return fmt.Errorf("scripted model: %w", err)
	}
	l := newLayout(len(t.wants), len(t.starts))
	m := model{
		Spec: s, vocab: t.vocab, begin: t.begin, end: t.end,
		dim: l.dim, heads: l.heads, ropeBase: ropeBase(s.Context),
		embeddings: l.embeddings(t), output: l.output(t), weights: l.attention,
	}
	return m.write(w)
}

// Random writes a one-layer model with normally distributed weights.
func Random(w io.Writer, s Spec) error {
	s = s.withDefaults()
	v, begin, end := s.vocabulary()
	const dim = 64
	rng := rand.New(rand.NewPCG(s.Seed, 2))
	noise := func(_ string, in, out int) []float32 {
		x := make([]float32, in*out)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * 0.3)
		}
		return x
	}
	m := model{Spec: s, vocab: v, begin: begin, end: end, dim: dim, heads: 1, ropeBase: 10000, weights: noise}
	m.embeddings, m.output = noise("", dim, len(v.text)), noise("", dim, len(v.text))
	return m.write(w)
}

// vocabulary returns a vocabulary with the bytes and the control tokens of s.
func (s Spec) vocabulary() (v *vocab, begin, end int) {
	v = newVocab()
	end = v.add("<|end|>", typeControl)
	begin = v.add("<|begin|>", typeControl)
	for _, c := range s.Control {
		v.add(c, typeControl)
	}
	return v, begin, end
}
