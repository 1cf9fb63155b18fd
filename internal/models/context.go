package models

import (
	"fmt"
	"sync"
	"unicode"

	"qq/pkg/llm"
)

const (
	// answerRoom and thinkRoom are the tokens kept free for an answer and for
	// the thinking before it.
	answerRoom = 4096
	thinkRoom  = 4096
	// minContext keeps short and middling conversations on one context size:
	// the server loads the model again for each new one.
	minContext = 8192
	// coarse is where sizes stop doubling: memory gets dear.
	coarse = 32768
	// margin is what the estimate may be too low by, with room for the text
	// that a chat template adds.
	margin = 1.2
	// hopeless is how far beyond the context of a model an estimate must be to
	// be believed without asking the server.
	hopeless = 1.5
)

// window chooses num_ctx for one model. It never shrinks within a process, and
// it learns from the server how many tokens an estimated token is.
type window struct {
	limit int // what the model has; 0 is unknown
	mu    sync.Mutex
	size  int     // the largest in use so far
	scale float64 // tokens counted by the server for one estimated; 0 is unknown
}

// fit returns the context size for a prompt of the estimated tokens, and the
// estimate as corrected by experience.
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

// grow returns the next larger size after one that was too small, or false
// when there is none.
func (w *window) grow(tried int) (int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit == 0 || tried >= w.limit {
		return 0, false
	}
	w.raise(2 * tried)
	return w.size, true
}

// raise makes size at least n, as far as the model goes. w.mu is held.
func (w *window) raise(n int) {
	if w.limit > 0 {
		n = min(n, w.limit)
	}
	w.size = max(w.size, n)
}

// learn notes that a prompt of the estimated tokens had counted ones.
func (w *window) learn(estimate, counted int) {
	if estimate <= 0 || counted <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scale = min(max(float64(counted)/float64(estimate), 0.8), 8)
}

// wasCut reports whether the server answered a shorter prompt than it was
// sent: it filled the whole context, or it counted far less than a prompt that
// was about to overflow must have (old servers drop whole messages).
func wasCut(counted, size, estimate int) bool {
	return counted >= size || counted > 0 && estimate > size && counted < estimate*3/4
}

// roundContext rounds n up to one of few sizes: powers of two, and above
// coarse its multiples.
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

// answerTokens is the room that an answer to r needs. A request for a short
// answer, or for one without thinking, gets the same as others: it would have
// the server load the model again.
func answerTokens(m Model, r llm.Request) int {
	room := answerRoom
	if m.Thinking {
		room += thinkRoom
	}
	return max(room, r.MaxTokens)
}

// promptTokens estimates the prompt that the server will make of r.
func promptTokens(r llm.Request) int {
	const perMessage, perCall, perTool = 5, 12, 20 // what templates add
	n := estimate(r.System) + perMessage
	for i := range r.Messages {
		m := &r.Messages[i]
		n += perMessage + estimate(m.Content) + estimate(m.Thinking)
		for _, c := range m.Calls {
			n += perCall + estimate(c.Name) + estimate(c.Arguments)
		}
	}
	for _, t := range r.Tools {
		n += perTool + estimate(t.Name) + estimate(t.Description) + estimate(t.Parameters)
	}
	return n
}

// runeClass is what the estimate tells apart.
type runeClass int

const (
	classWide runeClass = iota // ideographs, emoji: close to a token each
	classLetter
	classDigit
	classOther
	classSpace
)

func classify(r rune) runeClass {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		return classLetter
	case r == ' ', r == '\n', r == '\t', r == '\r':
		return classSpace
	case '0' <= r && r <= '9':
		return classDigit
	case r < 0x80:
		return classOther
	case r > 0x2E80:
		return classWide
	case unicode.IsLetter(r):
		return classLetter
	case unicode.IsDigit(r):
		return classDigit
	}
	return classOther
}

// estimate is the number of tokens in s, -10 to +13 % of a real vocabulary on
// code, JSON, English and Chinese: a run of letters, digits or signs costs by
// its length, a run of blanks one token.
func estimate[T ~string | ~[]byte](s T) int {
	n, wide, run := 0, 0, 0
	kind := classWide
	flush := func() {
		switch kind {
		case classLetter:
			n += (run + 6) / 7
		case classDigit:
			n += (run + 2) / 3
		case classOther:
			n += (run + 1) / 2
		case classSpace:
			if run > 1 {
				n++
			}
		}
		run = 0
	}
	for _, r := range string(s) {
		k := classify(r)
		if k != kind {
			flush()
			kind = k
		}
		if k == classWide {
			wide++
			continue
		}
		run++
	}
	flush()
	return n + wide*4/5
}
