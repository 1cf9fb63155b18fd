package standin

import (
	"math/rand/v2"
	"net/http"
	"strings"

	"qq/internal/standin/form"
)

// Oddities are what is odd about one answer, in its form and on its way.
type Oddities struct {
	form.Oddities
	Splits int // it is sent in so many pieces more, split at any byte
	// Break breaks it off when about After bytes of it were sent.
	Break Break
	After int

	random *rand.Rand
}

// Odd makes the server odd: choose returns what is odd about the answer to a prompt. The answer is sent when it is
// whole, so faults make no pauses between words.
func Odd(choose func(Prompt) *Oddities) Option { return func(s *Server) { s.odd = choose } }

// AnyOddities returns random ones that a client can understand. A third of the answers break off.
func AnyOddities(r *rand.Rand) *Oddities {
	odd := &Oddities{Oddities: form.AnyOddities(r), Splits: r.IntN(4), random: r}
	if !odd.StopEach && r.IntN(3) == 0 { // with a finish reason in each event nobody can tell that it broke off
		odd.Break, odd.After = [...]Break{End, Cut, Reset, ErrorLine}[r.IntN(4)], 1+r.IntN(1500)
	}
	return odd
}

// sendOddly sends the whole answer that o holds, as odd as it shall be. whole reports whether its end mark was sent.
func (s *Server) sendOddly(w http.ResponseWriter, r *http.Request, odd *Oddities, o *form.Output,
	f form.Form) (whole bool) {
	text := o.Buf
	breaks := odd.Break != "" && odd.After < len(text)
	if breaks {
		text = text[:odd.After]
		if odd.Break == ErrorLine { // which begins a line
			text = text[:lastEvent(text)]
		}
	}
	whole = o.Mark > 0 && len(text) >= o.Mark
	for range odd.Splits {
		if len(text) > 1 {
			n := 1 + odd.random.IntN(len(text)-1)
			if _, err := w.Write(text[:n]); err != nil || http.NewResponseController(w).Flush() != nil {
				return false
			}
			text = text[n:]
		}
	}
	_, err := w.Write(text)
	if breaks {
		_ = http.NewResponseController(w).Flush() // else nothing of it is sent
		s.breakOff(w, r, &Fault{Break: odd.Break, Error: "the model died"}, f, true)
	}
	return whole && err == nil
}

// lastEvent returns where the last whole event or line in text ends.
func lastEvent(text []byte) int {
	end := 0
	for _, mark := range []string{"}\n", "}\r\n", "\n\n", "\n\r\n"} {
		if i := strings.LastIndex(string(text), mark); i >= 0 {
			end = max(end, i+len(mark))
		}
	}
	return end
}
