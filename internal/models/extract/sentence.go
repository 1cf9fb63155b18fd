package extract

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"qq/internal/models/extract/markdown"
)

var sentenceEnd = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("[.!?…]+[\"'”’)\\]*_`]*\\s+|[。！？]")
})

// splitSentences splits a paragraph on one line into sentences. An abbreviation, brackets or a
// code span do not end a sentence.
func splitSentences(text string) (out []string) {
	start := 0
	for _, at := range sentenceEnd().FindAllStringIndex(text, -1) {
		if end := at[1]; !goesOn(strings.TrimSpace(text[start:end]), text[end:]) {
			out = append(out, strings.TrimSpace(text[start:end]))
			start = end
		}
	}
	if rest := strings.TrimSpace(text[start:]); rest != "" {
		out = append(out, rest)
	}
	return out
}

const (
	// longestSentence is the length in bytes after which any full stop ends a sentence.
	longestSentence = 1000
	// shortened lists abbreviations whose full stop does not end a sentence.
	shortened = " e.g i.e eg ie vs cf viz resp approx dr mr mrs ms prof st jr sr ltd corp dept incl ca eds "
	// beforeNumber lists abbreviations whose full stop before a number does not end a sentence.
	beforeNumber = " no nr fig figs sec eq ch vol pp p ed max min "
)

// goesOn reports whether rest continues the sentence in done.
func goesOn(done, rest string) bool {
	if rest == "" || len(done) > longestSentence {
		return false
	}
	next, _ := utf8.DecodeRuneInString(rest)
	open := strings.Count(done, "`")%2 == 1 || strings.Count(done, "(") > strings.Count(done, ")")
	if open || unicode.IsLower(next) {
		return true
	}
	word, dotted := strings.CutSuffix(strings.TrimLeft(done[strings.LastIndexByte(done, ' ')+1:], "([\"'`"), ".")
	if !dotted || word == "" {
		return false
	}
	low := " " + strings.ToLower(word) + " "
	initial := len(word) == 1 && unicode.IsUpper(rune(word[0])) && word != "I"
	return initial || strings.Contains(shortened, low) || unicode.IsDigit(next) && strings.Contains(beforeNumber, low)
}

// splitWords returns the words of s: letters, digits and underscores, with apostrophes, dots and
// hyphens inside.
func splitWords(s string) []string {
	words := strings.FieldsFunc(s, func(r rune) bool {
		inside := r == '_' || r == '\'' || r == '’' || r == '.' || r == '-'
		return !inside && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	kept := words[:0]
	for _, w := range words {
		if w = strings.Trim(w, "'’.-"); w != "" {
			kept = append(kept, w)
		}
	}
	return kept
}

// sign lowers the weight of sentences that contain one of its phrases.
type sign struct {
	by      float64
	phrases []string // in small letters; one with a leading > stands at the beginning
}

var weakSigns = sync.OnceValue(func() []sign {
	return []sign{
		{0.15, []string{"copyright", "©", "(c) ", "all rights reserved", "licensed under", "public licen", "warrant",
			"author:", "authors:", "written by", "maintained by", "redistribut", "permission to", "permission is"}},
		{0.3, []string{">how to ", ">what to ", ">where to ", ">when to ", ">why to ", "as follows"}},
		{0.5, []string{">see ", ">check ", ">please ", ">click ", ">read ", ">refer ", ">note ", ">thank ", ">let's ",
			">(", ">we'll ", ">i ", ">be sure ", ">do ", ">feel free ", ">make sure ", ">there is no ",
			">there are no "}},
		{0.6, []string{"://", " following", " below", " above", "see also", "for more ", "for details", "this section",
			"please", "(see ", " this ", " these ", " those ", " such "}},
	}
})

// remark reports whether a sentence is a remark below a title, such as "How it is built, and
// why."
func remark(low string) bool {
	words := append(strings.Fields(low), "", "")
	isShort := len(low) < 60 || !strings.Contains(low, ", ")
	return isShort && (has(" how why what where who whether ", words[0]) || len(words[0]) > 4 &&
		strings.HasSuffix(words[0], "ed") && has(" on in with by from for at as against ", words[1]))
}

// fitness returns how well a sentence can be understood alone, whatever its topic: 1 for a whole
// sentence of usual length, 0 for a sentence that must not be quoted.
func fitness(s sentence) float64 {
	inCode := 0
	for i, part := range strings.Split(s.text, "`") {
		if i%2 == 1 {
			inCode += len(part) + 2
		}
	}
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(s.text, "\"'”’»*_)]`"))
	if len(s.text) > mostBytes || markdown.Letters(s.text) < 0.6 || inCode*2 > len(s.text) || last == ':' ||
		strings.Count(s.text, "(") != strings.Count(s.text, ")") || strings.Count(s.text, "`")%2 == 1 {
		return 0
	}
	w := 1.0
	if s.kind == markdown.Item {
		w *= 0.7
	}
	if s.length < 4 {
		w *= 0.3
	}
	if s.length < 7 || s.length > 40 || strings.Count(s.text, ",") > 5 {
		w *= 0.6
	}
	if last == '?' || !unicode.Is(unicode.STerm, last) {
		w *= 0.5
	}
	if first, _ := utf8.DecodeRuneInString(s.text); unicode.IsLower(first) {
		w *= 0.8
	}
	low := ">" + strings.ToLower(s.text)
	if remark(low[1:]) {
		w *= 0.3
	}
	for _, sign := range weakSigns() {
		if slices.ContainsFunc(sign.phrases, func(phrase string) bool { return strings.Contains(low, phrase) }) {
			w *= sign.by
		}
	}
	return w
}
