package reference

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFind(t *testing.T) {
	for text, want := range map[string][]Reference{
		"Fix {{find.output}} now":            {{4, 19, "find", ""}},
		"{{ a.output }}{{b.structured.x.y}}": {{0, 14, "a", ""}, {14, 34, "b", "x.y"}},
		"{{v1.2.output}}":                    {{0, 15, "v1.2", ""}},
		"{{{a.output}}}":                     {{1, 13, "a", ""}},
		"{{x}} {{.Name}} {{a.output}}":       {{16, 28, "a", ""}},
		"{{a.output":                         nil,
		"a.output}} {{":                      nil,
		"{{.output}} {{.structured.x}}":      nil,
		"{{a.structured}} {{a.b}} {}":        nil,
	} {
		assert.Equal(t, want, Find(text), text)
	}
}

func FuzzFind(f *testing.F) {
	f.Add("{{a.output}} {{b.structured.c}}")
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for _, r := range Find(text) {
			if r.Start < last || r.End > len(text) || text[r.Start:r.Start+2] != "{{" || text[r.End-2:r.End] != "}}" {
				t.Errorf("%q: %+v", text, r)
			}
			last = r.End
		}
	})
}
