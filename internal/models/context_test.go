package models

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
)

func TestAnswerTokens(t *testing.T) {
	assert.Equal(t, 4096, answerTokens(Model{}, llm.Request{MaxTokens: 10}))
	assert.Equal(t, 10_000, answerTokens(Model{}, llm.Request{MaxTokens: 10_000}))
	assert.Equal(t, 8192, answerTokens(Model{Thinking: true}, llm.Request{Schema: json.RawMessage("{}")}))
}

func TestRoundContext(t *testing.T) {
	for n, want := range map[int]int{0: 8192, 8192: 8192, 8193: 16384, 32768: 32768, 32769: 65536, 70000: 98304} {
		assert.Equal(t, want, roundContext(n), n)
	}
}

func TestWindow(t *testing.T) {
	w := &window{limit: 40960}
	fit := func(estimate int) int {
		size, _, err := w.fit(estimate, 1000)
		require.NoError(t, err)
		return size
	}
	assert.Equal(t, 8192, fit(100))
	assert.Equal(t, 16384, fit(8000))
	assert.Equal(t, 16384, fit(100), "a size is kept: the server would load the model again")
	assert.Equal(t, 40960, fit(33000), "no more than the model has")
	_, _, err := w.fit(70000, 0)
	require.ErrorContains(t, err, "context overflow: about 70000 tokens, and the model has 40960")

	w = &window{limit: 40960}
	w.learn(100, 400)
	_, corrected, err := w.fit(5000, 0)
	require.NoError(t, err)
	assert.Equal(t, 20000, corrected)
	w.learn(0, 5)
	w.learn(5, 0)
	_, corrected, err = w.fit(5000, 0)
	require.NoError(t, err)
	assert.Equal(t, 20000, corrected, "a count that is left out teaches nothing")

	w = &window{limit: 20000}
	assert.Equal(t, 8192, fit(1))
	next, ok := w.grow(8192)
	assert.True(t, ok)
	assert.Equal(t, 16384, next)
	next, ok = w.grow(next)
	assert.True(t, ok)
	assert.Equal(t, 20000, next)
	_, ok = w.grow(next)
	assert.False(t, ok)

	w = &window{}
	assert.Equal(t, 983040, fit(800_000), "without a known limit the prompt decides")
}

func TestWasCut(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		counted, size, estimate int
		want                    bool
	}{
		{"fits", 900, 4096, 1000, false},
		{"fills the context", 4096, 4096, 1000, true},
		{"near the limit, counted in full", 4000, 4096, 4300, false},
		{"messages were dropped", 1200, 4096, 4300, true},
		{"not counted", 0, 4096, 4300, false},
	} {
		assert.Equal(t, tt.want, wasCut(tt.counted, tt.size, tt.estimate), tt.name)
	}
}
