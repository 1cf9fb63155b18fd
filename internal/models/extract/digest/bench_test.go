package digest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"qq/internal/models/extract/prose"
)

// essay writes about size bytes of Markdown, the same each time: sections with
// paragraphs, lists and code, from a small set of words.
func essay(size int) string {
	nouns := strings.Fields("queue worker ledger signal tree budget frame socket parser planet river engine garden window letter market")
	verbs := strings.Fields("keeps moves reads writes opens guards counts sends holds joins")
	var b strings.Builder
	seed := uint32(1)
	pick := func(list []string) string {
		seed = seed*1664525 + 1013904223
		return list[int(seed>>16)%len(list)]
	}
	for i := 0; b.Len() < size; i++ {
		if i%7 == 0 {
			fmt.Fprintf(&b, "## The %s and the %s %d\n\n", pick(nouns), pick(nouns), i)
		}
		for range 4 {
			fmt.Fprintf(&b, "The %s %s the **%s** of [the %s](http://example.com/%d), and every %s %s\na `%s` before the %s ends. ",
				pick(nouns), pick(verbs), pick(nouns), pick(nouns), i, pick(nouns), pick(verbs), pick(nouns), pick(nouns))
		}
		fmt.Fprintf(&b, "\n\n- a %s that %s the %s\n- the %s of a %s\n\n```\ncode %d\n```\n\n", pick(nouns), pick(verbs), pick(nouns), pick(nouns), pick(nouns), i)
	}
	return b.String()
}

func BenchmarkSummary(b *testing.B) {
	for _, size := range []int{5 << 10, 150 << 10, 5 << 20} {
		text := essay(size)
		for p := range products {
			b.Run(fmt.Sprintf("%s/%dK", p.String(), size>>10), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := New(prose.Parse(text, "a.md")).Make(context.Background(), Wish{Products: []Product{p}}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
