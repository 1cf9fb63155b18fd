// Package spelling finds the word that a person, or a model, meant by a word that is not known: the name of a flag, a
// command, an agent, a setting.
package spelling

import "strings"

// maxWord is how many bytes of a word are looked at. No known word is longer.
const maxWord = 64

// Nearest returns the one of known that word probably means: the one that differs from it in the fewest letters, if
// these are one, or at most about a third of its letters and three. It returns "" if there is none, for a word of
// one letter, and where both have two: "no" does not mean "on". Case does not count.
func Nearest(word string, known []string) string {
	best, least := "", 4
	for _, k := range known {
		short := min(len(word), len(k))
		d := Distance(word, k)
		if d > 0 && (short < 2 || len(word)+len(k) <= 4) {
			continue
		}
		if d < least && d <= max(1, (short+1)/3) {
			best, least = k, d
		}
	}
	return best
}

// Distance returns how many letters must be added, removed or replaced, or swapped with the next one, to turn a into
// b. Case does not count. Of a long word it looks at the beginning.
func Distance(a, b string) int {
	a, b = strings.ToLower(a[:min(len(a), maxWord)]), strings.ToLower(b[:min(len(b), maxWord)])
	// Rows of the table of distances between the beginnings of a and b.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// DidYouMean returns the question whether the word near was meant, and a space, to begin a hint with. It returns "" if
// near is empty.
func DidYouMean(near string) string {
	if near == "" {
		return ""
	}
	return "did you mean " + near + "? "
}
