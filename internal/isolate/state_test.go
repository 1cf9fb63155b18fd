package isolate

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestHistory: each copy finds the first version of each file after it was made, whatever was forgotten. Beside one
// slow copy, fast ones leave one version of a file.
func TestHistory(t *testing.T) {
	join := func(h *history, path string) {
		h.joins++
		h.versions[path] = append(h.versions[path], version{join: h.joins, data: []byte{byte(h.joins)}})
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := &history{versions: map[string][]version{}}
		copies, first := map[*Copy]struct{}{}, map[*Copy]map[string]int{}
		for range 100 {
			switch r.IntN(3) {
			case 0:
				c := &Copy{joins: h.joins}
				copies[c], first[c] = struct{}{}, map[string]int{}
			case 1:
				if len(copies) == 0 {
					continue // a join is that of a copy
				}
				path := string(rune('a' + r.IntN(4)))
				join(h, path)
				for c := range copies {
					if _, ok := first[c][path]; !ok {
						first[c][path] = h.joins
					}
				}
			default:
				for c := range copies {
					delete(copies, c)
					h.forget(c, copies)
					break
				}
			}
			for c := range copies {
				for path, want := range first[c] {
					v, ok := h.version(c.joins, path)
					assert.True(t, ok)
					assert.Equal(t, want, v.join)
				}
			}
		}
		for c := range copies {
			delete(copies, c)
			h.forget(c, copies)
		}
		assert.Empty(t, h.versions)
	}
	h := &history{versions: map[string][]version{}}
	copies := map[*Copy]struct{}{{}: {}}
	for range 1000 {
		c := &Copy{joins: h.joins}
		copies[c] = struct{}{}
		join(h, "a")
		delete(copies, c)
		h.forget(c, copies)
	}
	assert.Len(t, h.versions["a"], 1)
}
