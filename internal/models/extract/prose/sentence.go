package prose

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

const (
	// longestParagraph is how much of a paragraph is looked at as one piece.
	longestParagraph = 32 << 10
	// longestSentence is where a sentence is not mended any more.
	longestSentence = 1000
)

// Sentences returns the sentences of a paragraph that stands on one line. Unicode
// says where a sentence may end; where it says so after an abbreviation, inside
// brackets or inside a code span, the sentence goes on.
func Sentences(text string) []string {
	var out []string
	for text != "" {
		piece := text
		if len(piece) > longestParagraph {
			at := strings.LastIndexByte(piece[:longestParagraph], ' ')
			if at < 0 {
				at = runeStart(piece, longestParagraph)
			}
			piece = piece[:at]
		}
		text = text[len(piece):]
		out = splitPiece(out, piece)
		text = strings.TrimLeft(text, " ")
	}
	return out
}

// runeStart is the last index up to i where a character begins.
func runeStart(s string, i int) int {
	for i > 1 && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

func splitPiece(out []string, text string) []string {
	start := 0
	emit := func(end int) {
		if s := strings.TrimSpace(text[start:end]); s != "" {
			out = append(out, s)
		}
		start = end
	}
	it := sentences.FromString(text)
	for it.Next() {
		// A code span with a small letter does not begin a sentence for Unicode.
		for from := it.Start(); from < it.End(); {
			i := strings.Index(text[from:it.End()], ". `")
			if i < 0 {
				break
			}
			from += i + 2
			if from > start && !goesOn(text[start:from], text[from:]) {
				emit(from)
			}
		}
		if !goesOn(text[start:it.End()], text[it.End():]) {
			emit(it.End())
		}
	}
	emit(len(text))
	return out
}

// goesOn reports whether the sentence that ends with done goes on with rest.
func goesOn(done, rest string) bool {
	if rest != "" && rest[0] != ' ' && strings.HasSuffix(done, ".") { // .NET
		return len(done) <= longestSentence
	}
	done = strings.TrimRight(done, " ")
	if rest == "" || len(done) > longestSentence {
		return false
	}
	if strings.Count(done, "`")%2 == 1 || strings.Count(done, "(") > strings.Count(done, ")") {
		return true
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " "))
	if unicode.IsLower(next) {
		return true
	}
	word := strings.TrimLeft(done[strings.LastIndexByte(done, ' ')+1:], "([\"'`")
	word, dotted := strings.CutSuffix(word, ".")
	if !dotted || word == "" {
		return false
	}
	if strings.Trim(word, "0123456789") == "" && len(word) == len(done)-1 { // "1." before its text
		return true
	}
	if len(word) == 1 && unicode.IsUpper(rune(word[0])) && word != "I" { // an initial
		return true
	}
	low := " " + strings.ToLower(word) + " "
	return strings.Contains(shortened, low) || unicode.IsDigit(next) && strings.Contains(beforeNumber, low)
}

const (
	// shortened are words whose full stop does not end a sentence.
	shortened = " e.g i.e eg ie vs cf viz resp approx dr mr mrs ms prof st jr sr ltd corp dept est incl ca eds feb apr aug sep oct nov dec "
	// beforeNumber are those of which that is so before a number.
	beforeNumber = " no nr fig figs sec eq ch vol pp p ed max min mar jan jun jul sept art "
)
