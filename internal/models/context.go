package models

import (
	"fmt"
	"sync"

	"qq/pkg/llm"
)

const (
	// answerRoom and thinkRoom are how many tokens are reserved for an answer and for the
	// thinking before it.
	answerRoom = 4096
	thinkRoom  = 4096
	// minContext is the smallest context size requested, in tokens. Short conversations share it, because the
	// server reloads the model for each new size.
	minContext = 8192
	// coarse is the context size, in tokens, above which sizes are multiples of coarse instead of powers of two:
	// doubling a large context would waste memory.
	coarse = 32768
	// margin is the factor by which the estimate of a prompt is multiplied before a context size is chosen: the
	// estimate may be too low, and a chat template adds text.
	margin = 1.2
	// hopeless decides when a prompt is rejected without asking the server: when its estimate is more than hopeless
	// times the context of the model. A smaller estimate may be wrong, so the server decides.
	hopeless = 1.5
)

// window chooses the context size (num_ctx) to request for one model. The size never shrinks within a process. The
// estimates of prompts are corrected by the token counts of the server.
type window struct {
	limit int // context of the model in tokens; 0 means unknown
	mu    sync.Mutex
	size  int     // the largest requested so far
	scale float64 // tokens counted by the server per estimated token; 0 means unknown
}

// fit returns the context size to request for a prompt of estimate tokens and an answer of answer tokens. corrected
// is the estimate, corrected by earlier counts of the server. The error is a context overflow if the prompt is much
// too long for the model.
func (w *window) fit(estimate, answer int) (size, corrected int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	corrected = estimate
	if w.scale > 0 {
		corrected = int(float64(estimate) * w.scale)
	}
	if w.limit > 0 && float64(corrected) > hopeless*float64(w.limit) {
		return 0, corrected, overflow(fmt.Sprintf("about %d tokens, and the model has %d", corrected, w.limit), nil)
	}
	w.raise(roundContext(int(float64(corrected)*margin) + answer))
	return w.size, corrected, nil
}

// grow returns a context size larger than tried, at most the limit of the model. It returns false if there is none,
// or if the limit is unknown.
func (w *window) grow(tried int) (int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit == 0 || tried >= w.limit {
		return 0, false
	}
	w.raise(2 * tried)
	return w.size, true
}

// raise makes size at least n, up to the limit of the model. The caller holds w.mu.
func (w *window) raise(n int) {
	if w.limit > 0 {
		n = min(n, w.limit)
	}
	w.size = max(w.size, n)
}

// learn corrects scale: the server counted counted tokens for a prompt of estimate tokens. A count of 0 is unknown
// and changes nothing.
func (w *window) learn(estimate, counted int) {
	if estimate <= 0 || counted <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scale = min(max(float64(counted)/float64(estimate), 0.8), 8)
}

// wasCut reports whether the server shortened the prompt before it answered. counted is the number of prompt tokens
// that the server reports, size the context size, estimate the corrected estimate. Signs are a prompt that fills
// the whole context, or a count far below the estimate of a prompt that nearly overflows (old servers drop whole
// messages).
func wasCut(counted, size, estimate int) bool {
	return counted >= size || counted > 0 && estimate > size && counted < estimate*3/4
}

// roundContext rounds n up to one of few sizes: powers of two, and multiples of coarse above it.
func roundContext(n int) int {
	if n > coarse {
		return (n + coarse - 1) / coarse * coarse
	}
	size := minContext
	for size < n {
		size *= 2
	}
	return size
}

// answerLimit returns the limit of tokens for an answer: the room in the context beside the prompt. prompt is an
// estimate that may be an eighth too high; the server counts exactly. The limit is rounded, so that the requests of
// similar tasks stay equal.
func answerLimit(context, prompt int) int {
	const step, least = 1024, 512
	room := context - prompt*7/8
	if room > step {
		room = room / step * step
	}
	return max(room, min(least, context))
}

// answerTokens returns how many tokens are reserved for the answer to r. It ignores that r may
// want a short answer or no thinking: another size would make the server reload the model.
func answerTokens(m Model, r llm.Request) int {
	room := answerRoom
	if m.Thinking {
		room += thinkRoom
	}
	return max(room, r.MaxTokens)
}
