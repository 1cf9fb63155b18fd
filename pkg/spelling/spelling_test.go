package spelling

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"runs", "runz", 1}, {"runs", "RUNS", 0}, {"agnet", "agent", 1},
		{"docter", "doctor", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"abc", "", 3}, {"man", "nam", 2},
	} {
		assert.Equal(t, c.want, Distance(c.a, c.b), c.a+" "+c.b)
		assert.Equal(t, c.want, Distance(c.b, c.a), c.b+" "+c.a)
	}
	assert.Less(t, Distance(strings.Repeat("x", 1<<20), "x"), 1<<10, "a long word is bounded")
}

func TestNearest(t *testing.T) {
	flags := []string{"model", "message", "message-file", "output-format", "json", "jobs", "agent", "allow", "all"}
	for word, want := range map[string]string{
		"modle": "model", "mesage": "message", "messages-file": "message-file", "outputformat": "output-format",
		"jsno": "json", "al": "all", "frobnicate": "", "x": "", "": "", "k": "", "Agnet": "agent", "jsnoo": "",
	} {
		assert.Equal(t, want, Nearest(word, flags), word)
	}
	for word, want := range map[string]string{"no": "", "of": "off", "ON": "on", "onn": "on"} {
		assert.Equal(t, want, Nearest(word, []string{"on", "off"}), word)
	}
}

func FuzzDistance(f *testing.F) {
	f.Add("agnet", "agent")
	f.Add("\xff\u212a", "k")
	f.Fuzz(func(t *testing.T, a, b string) {
		if d := Distance(a, b); d < 0 || d > 3*max(len(a), len(b)) || d != Distance(b, a) {
			t.Errorf("%q and %q: %d", a, b, d)
		}
	})
}
