package tinymodel

import "io"

const feedForward = 32

// model is the content of a GGUF file: the metadata and one transformer block.
type model struct {
	Spec
	vocab      *vocab
	begin, end int
	dim, heads int
	ropeBase   float32

	embeddings, output []float32
	weights            func(name string, in, out int) []float32 // of the block
}

func (m *model) write(w io.Writer) error { return writeGGUF(w, m.metadata(), m.tensors()) }

func (m *model) metadata() []kv {
	arch, n := m.Arch, len(m.vocab.text)
	return []kv{
		{"general.architecture", arch},
		{"general.name", "tiny"},
		{"general.file_type", uint32(0)},
		{"general.alignment", uint32(alignment)},
		{arch + ".context_length", uint32(m.Context)},
		{arch + ".embedding_length", uint32(m.dim)},
		{arch + ".block_count", uint32(1)},
		{arch + ".feed_forward_length", uint32(feedForward)},
		{arch + ".attention.head_count", uint32(m.heads)},
		{arch + ".attention.head_count_kv", uint32(m.heads)},
		{arch + ".attention.key_length", uint32(headDim)},
		{arch + ".attention.value_length", uint32(headDim)},
		{arch + ".attention.layer_norm_rms_epsilon", float32(1e-6)},
		{arch + ".rope.dimension_count", uint32(headDim)},
		{arch + ".rope.freq_base", m.ropeBase},
		{arch + ".vocab_size", uint32(n)},
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.pre", "default"},
		{"tokenizer.ggml.tokens", m.vocab.text},
		{"tokenizer.ggml.token_type", m.vocab.typ},
		{"tokenizer.ggml.scores", make([]float32, n)},
		{"tokenizer.ggml.merges", []string{"t h"}},
		{"tokenizer.ggml.bos_token_id", uint32(m.begin)},
		{"tokenizer.ggml.eos_token_id", uint32(m.end)},
		{"tokenizer.ggml.add_bos_token", true},
		{"tokenizer.ggml.add_eos_token", false},
	}
}

func (m *model) tensors() []tensor {
	n, attention := len(m.vocab.text), m.heads*headDim
	ts := []tensor{
		matrix("token_embd", m.dim, n, m.embeddings),
		ones("output_norm", m.dim),
		matrix("output", m.dim, n, m.output),
		ones("blk.0.attn_norm", m.dim),
		m.block("attn_q", m.dim, attention),
		m.block("attn_k", m.dim, attention),
		m.block("attn_v", m.dim, attention),
		m.block("attn_output", attention, m.dim),
		ones("blk.0.ffn_norm", m.dim),
		m.block("ffn_gate", m.dim, feedForward),
		m.block("ffn_up", m.dim, feedForward),
		m.block("ffn_down", feedForward, m.dim),
	}
	if m.Arch == "qwen3" {
		ts = append(ts, ones("blk.0.attn_q_norm", headDim), ones("blk.0.attn_k_norm", headDim))
	}
	return ts
}

// block returns a matrix of the transformer block that maps in values to out values.
func (m *model) block(name string, in, out int) tensor {
	return matrix("blk.0."+name, in, out, m.weights(name, in, out))
}

func matrix(name string, in, out int, data []float32) tensor {
	return tensor{name + ".weight", []uint64{uint64(in), uint64(out)}, data}
}

// ones returns a norm's weights that are all 1, so that it changes only the length of its input.
func ones(name string, n int) tensor {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return tensor{name + ".weight", []uint64{uint64(n)}, x}
}
