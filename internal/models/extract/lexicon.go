package extract

import (
	"strings"
	"sync"
)

// stopSet returns the stopWords as a set, because every word of a text is looked up.
var stopSet = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(stopWords) {
		set[w] = true
	}
	return set
})

const (
	// stopWords lists words that carry no topic.
	stopWords = " a about above across after again against all almost along already also although always am among an " +
		"and another any anything are around as at away back be because become been before behind being below " +
		"between both but by can can't cannot could did didn't do does doesn't doing don't done down during each " +
		"either else enough etc even ever every everything except few for from further get gets given gives go " +
		"going gone got had has have having he hence her here him his how however i i'm if in instead into is isn't " +
		"it it's its itself just keep kept last later least less let let's like made make makes making many may " +
		"maybe me might more most mostly much must my need needs neither never next no nobody nor not nothing now " +
		"of off often on once one only or other others otherwise our out over own per please put quite rather " +
		"really same see several shall she should shouldn't since so some something sometimes soon still such take " +
		"taken takes than that that's the their them then there there's therefore these they this those though " +
		"through thus to together too under unless until up us use used uses using very via want wants was way we " +
		"we'll we're well were what when where whether which while who whole whom whose why will with within " +
		"without won't would yes yet allow allowed allows contain contains expected include included includes " +
		"including provide provided provides providing require required requires return returned returns shows " +
		"shown show means works work you you'll you're your yourself vs first second third fourth former latter " +
		"none besides nevertheless nonetheless consequently meanwhile similarly likewise conversely finally " +
		"moreover furthermore additionally accordingly alternatively afterwards secondly thirdly rest themselves "
	// weakWords lists words that may not begin or end a keyword.
	weakWords = " able ask asks refuses keeps writes add added adds available based better big call called calls " +
		"case cases certain change changed changes check come comes common create created creates current " +
		"currently default different directly easy example examples existing explicit fact find following follows " +
		"full general good great hard help helps high important kind know known large left long look looks low " +
		"main mean multiple new note number old open original part particular pass passed place point possible " +
		"present read reference related remove right run running runs said say says separate set sets similar " +
		"simple simply single small special specific start started starts stop stops support supported supports " +
		"time times try turn turned two three four five type types usual write wrong people person ones end ends "
)
