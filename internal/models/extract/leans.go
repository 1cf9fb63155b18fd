package extract

import "strings"

const (
	// backward lists words that refer to the previous sentence if no noun stands before them.
	backward = " it its itself they them their theirs he him his she her hers this that these those such same one " +
		"ones each both either neither another other others former latter first second third fourth last next " +
		"rest none then thus hence therefore however but and or nor so yet also otherwise instead moreover " +
		"furthermore additionally nevertheless nonetheless consequently meanwhile similarly likewise conversely " +
		"finally besides again accordingly alternatively afterwards secondly thirdly still which because above " +
		"further even "
	// amounts lists words that refer back if no noun follows, as in "Some are cut".
	amounts = " some many most several few all more any less much two three four "
	// ownNames lists nouns by which a text means itself: "this package" does not refer back.
	ownNames = " package library project repository module document documentation guide tool program page file " +
		"directory folder article paper readme application crate plugin book chapter tutorial specification report " +
		"framework command service "
	// pronounFollowers lists words that follow "one" or "ones" where these replace a noun.
	pronounFollowers = " that which who whom whose is was are were has for in of with to at by and or but if when "
)

// linkingPhrases lists beginnings of sentences that refer to the previous sentence, made of words
// that elsewhere do not.
var linkingPhrases = [...]string{
	"for example", "for instance", "in addition", "as a result", "in contrast", "by contrast", "in particular",
	"in fact", "of course", "on the other hand", "on the contrary", "as mentioned", "as described", "as noted",
	"as before", "rather,", "in general,", "the following", "if not,", "if you do", "when you do", "here ", "now ",
}

// leans reports whether a sentence is unclear without the previous one: it begins with a word
// that refers back, or has a pronoun without a noun before it.
func leans(text string) bool {
	low := strings.ToLower(strings.ReplaceAll(text, "’", "'"))
	for _, phrase := range linkingPhrases {
		if strings.HasPrefix(low, phrase) {
			return true
		}
	}
	words := splitWords(low)
	if n := len(words); n > 0 && words[n-1] == "so" {
		return true
	}
	topic, single, several := false, false, false // what has been named so far
	for i, w := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		word, _, contracted := strings.Cut(w, "'")
		switch {
		case !topic && has(backward, word) && (word != "this" && word != "these" || !has(ownNames, next)):
			return true
		case i == 0 && has(amounts, word) && stopSet()[next] && next != "of" && next != "the":
			return true
		case has(" it its ", word) && !single, has(" they them their ", word) && !single && !several:
			return true
		case word == "one" && (next == "" || has(pronounFollowers, next)):
			return true
		}
		if stopSet()[w] || contracted && stopSet()[word] {
			continue
		}
		plural := strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss")
		topic, single, several = true, single || !plural, several || plural
	}
	return false
}
