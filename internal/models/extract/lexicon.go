package extract

import (
	_ "embed"
	"strings"
	"sync"
)

// The words of a list stand in a file, with white space between them.
var (
	// stopWords carry no topic.
	//
	//go:embed words/stop.txt
	stopWords string
	// weakWords may not begin or end a keyword.
	//
	//go:embed words/weak.txt
	weakWords string
	// formWords name languages, formats and manners of writing, in which this package cannot answer.
	//
	//go:embed words/forms.txt
	formWords string

	stopSet = setOf(&stopWords)
	weakSet = setOf(&weakWords)
	formSet = setOf(&formWords)
)

// setOf returns a function that returns the words of a list as a set, because many words are looked up.
func setOf(list *string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := map[string]bool{}
		for w := range strings.FieldsSeq(*list) {
			set[w] = true
		}
		return set
	})
}
