package digest

import (
	"strings"
	"sync"
)

// IsStop reports whether an English word, in small letters, carries no topic.
func IsStop(word string) bool { return english().stop[word] }

// set makes a set of the words in a text.
func set(text string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		m[w] = true
	}
	return m
}

// lexicon is what the package knows about words of English.
type lexicon struct {
	stop      map[string]bool // carry no topic
	weak      map[string]bool // no stop words, but no keywords either
	nounAhead map[string]bool // a noun phrase follows
	verbAhead map[string]bool // a verb follows
	dangling  map[string]bool // begin a sentence that leans on the one before
	linking   []string        // the same, of several words
	itself    map[string]bool // what "this" means when a text speaks of itself
	common    map[string]bool // nouns of every technical text: keywords only as a part of a phrase
	side      map[string]bool // headings of sections that are not about the matter
}

var english = sync.OnceValue(func() *lexicon {
	return &lexicon{
		stop: set(`a about above across after again against all almost along already also although always am among an and
			another any anyone anything are aren't around as at away back be became because become been before behind being
			below between both but by came can can't cannot could couldn't did didn't do does doesn't doing don't done down
			during each either else enough etc even ever every everything except few for from further get gets getting given
			gives go goes going gone got had has hasn't have haven't having he hence her here him his how however i i'm if in
			indeed instead into is isn't it it's its itself just keep kept last later least less let let's like likely made
			make makes making many may maybe me might more most mostly much must my need needs neither never next no nobody nor not
			nothing now of off often on once one only onto or other others otherwise our out over own per perhaps please put
			quite rather really s same see seem seems several shall she should shouldn't since so some something sometimes
			soon still such t take taken takes than that that's the their them then there there's therefore these they
			thing things this those though through thus to together too toward under unless until up upon us use used useful
			uses using usually various very via want wants was wasn't way we we'll we're well went were what whatever when
			whenever where whether which while who whole whom whose why will with within without won't would wouldn't yes
			yet allow allowed allows apply applies contain contains defined describe described describes ensure ensures expected include included includes including introduced provide provided provides providing require required requires return returned returns remain removed shows shown show specified written generates generated minimize minimizes means works work you you'll you're your yours yourself e.g i.e vs
			使用 可以 一个 我们 你们 他们 这个 那个 如果 以及 进行 可能 没有 因为 所以 但是 或者 并且 需要 不会 这些 那些 通过 由于 对于 为了`),
		weak: set(`sent found chosen held built seen asking seeing leaves grows faster slower unsure able add added adds fix fixes fixed bugfix bugfixes thanks func struct quick learn allow allowed allows apply available based better big bit call called calls case cases
			certain change changed changes check come comes common consider contain contains create created creates current
			currently default defined describe described describes different directly easily easy ensure example examples
			existing expected explicit fact false find first following follows full general good great hand hard help helps
			high important include included includes including introduced kind know known large left long look looks lot
			low main mean means multiple new nil note null number old open original part particular pass passed
			place point possible present prevent provide provided provides read really recommended refer reference
			related remain remove removed require required requires respectively return returned returns right run running
			runs said say says second separate set sets show shown shows similar simple simply single small special specific
			specified specify start started starts stop stops support supported supports sure tell third time times todo
			true try turn turned two three four five type types typically understand usual want whichever work works write
			written wrong year years day days today people person ones end ends http https www com org html md`),
		nounAhead: set(`a an the this these those each every no any its your our their another of other some many`),
		verbAhead: set(`to can can't cannot could will would won't may might must should shall not don't doesn't didn't we
			you they i it which that who let's please and`),
		dangling: set(`this that these those it its it's they their them he she his her here there's such then thus hence
			therefore however but and or so also otherwise instead moreover furthermore additionally nevertheless nonetheless
			consequently meanwhile similarly likewise conversely finally besides again both neither either former latter
			another others secondly thirdly next afterwards accordingly alternatively yet nor still which because one`),
		linking: strings.Split(`for example|for instance|in addition|as a result|in other words|in this case|in that case|in these cases|`+
			`in contrast|on the other hand|on the contrary|after that|the same|if so|if not|at this point|for this|for these|for that|`+
			`because of this|to do so|to do this|with this|with that|in such|in both|that said|as such|as mentioned|as above|as described|`+
			`as noted|by doing so|of course|in fact|even so|the latter|the former|the first|the second|the third|the last|the above|the following|in particular|`+
			`all of these|all of this|all this|each of these|most of these|some of these|none of these|from this|from there|until then|`+
			`what follows|the other|in other cases|rather,|in general,|use the links|last but not least|as an aside|also,|if it |when it |if they |when they |if you do|when you do`, "|"),
		itself: set(`package library project repository repo module document documentation guide tool program page file directory folder
			article paper site readme app application crate plugin book chapter tutorial specification report text proposal
			repository's website framework code command service`),
		common: set(`code package packages function functions file files value values name names list lists string strings line lines result
			results option options method methods object objects data text word words user users application applications program
			programs project projects version versions tool tools page pages element elements field fields parameter parameters
			argument arguments library libraries feature features behavior behaviour information content section sections message
			messages key keys class classes library variable variables setting settings test tests build error errors input output`),
		side: set(`acknowledgements acknowledgments acknowledgement author authors badges bibliography changelog
			citation code-of-conduct community contact contribute contributing contribution contributions contributors copyright
			credits donate donations faq feedback funding help installation install installing issues licence license
			licensing maintainers references related sponsors support thanks toc todo`),
	}
})
