package digest

import (
	"fmt"
	"strings"

	"qq/internal/models/extract/prose"
)

// outline is the headings of a text, nested, at most limit of them (0 is the
// usual number): the deepest go first. A short one says in a sentence what stands under each.
func (d *Document) outline(limit int) string {
	if limit == 0 {
		limit = 60
	}
	deepest := 6
	count := func() (n int) {
		for _, s := range d.sections[1:] {
			if s.level <= deepest {
				n++
			}
		}
		return n
	}
	for deepest > 1 && count() > limit {
		deepest--
	}
	explain := count() <= 25
	var b strings.Builder
	var open []int // levels of the headings around this one
	written := 0
	for i, s := range d.sections {
		if i == 0 || s.level > deepest {
			continue
		}
		if written == limit {
			fmt.Fprintf(&b, "- [%d more headings]\n", count()-written)
			break
		}
		for len(open) > 0 && open[len(open)-1] >= s.level {
			open = open[:len(open)-1]
		}
		b.WriteString(strings.Repeat("  ", len(open)) + "- " + s.heading)
		if about := d.about(i); explain && about != "" {
			b.WriteString(": " + about)
		}
		b.WriteByte('\n')
		open = append(open, s.level)
		written++
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// about is the first sentence of a section if it is short and stands alone.
func (d *Document) about(section int) string {
	for _, s := range d.sentences {
		if s.section != section {
			continue
		}
		if s.weight > 0.5 && !s.leans && s.kind == prose.Paragraph && s.length <= 25 {
			return s.text
		}
		break
	}
	return ""
}
