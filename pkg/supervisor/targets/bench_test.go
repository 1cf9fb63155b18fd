package targets

import (
	"fmt"
	"testing"
)

func BenchmarkOverlap(b *testing.B) {
	for _, p := range [][2]string{
		{"src/app/a.go", "src/app/b.go"}, {"src/app/*.go", "src/app/a.md"}, {"src/app/*.go", "src/app/a.go"},
		{"src/**/a*.go", "src/app/x/abc.go"}, {"src/{a,b}/[a-z]*.go", "src/*/ab?.go"},
	} {
		x, y := Parse(p[0], false), Parse(p[1], false)
		b.Run(fmt.Sprintf("%v,%v", x, y), func(b *testing.B) {
			for b.Loop() {
				Overlap(x, y)
			}
		})
	}
}
