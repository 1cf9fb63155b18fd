package extract

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
)

// spelled writes a request down so that a table can hold it.
func spelled(r request) string {
	out := []string{[...]string{"summary", "points", "keywords", "outline"}[r.product]}
	if r.count > 0 {
		out[0] += "=" + strconv.Itoa(r.count)
	}
	if r.words > 0 {
		out[0] += "/" + strconv.Itoa(r.words)
	}
	for _, t := range r.targets {
		name := t.path
		if t.pattern != "" {
			name += ":" + t.pattern
		}
		if t.bare {
			name += "?"
		}
		out = append(out, name)
	}
	if r.text != "" {
		out = append(out, "<"+r.text+">")
	}
	return strings.Join(out, " ")
}

func TestParseRequest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Summarize README.md":                                        "summary README.md",
		"summarise readme.md.":                                       "summary readme.md",
		"SUMMARIZE `docs/a.md`!":                                     "summary docs/a.md",
		"Summarize the documents in docs/ and README.md.":            "summary docs:** README.md",
		"Summarize the documents in docs and README.md":              "summary docs:**? README.md",
		"Key points of README.md, notes and a.md":                    "points README.md notes:**? a.md",
		"Summarize docs":                                             "summary docs:**?",
		"Summarize the docs folder":                                  "summary docs:**?",
		"Summarize ./docs/":                                          "summary docs:**",
		"Summarize .":                                                "summary .:**",
		"Summarize ../..":                                            "summary ../..:**",
		"Summarize docs/*.md":                                        "summary docs:*.md",
		"Summarize docs/**/*.md in one sentence":                     "summary=1 docs:**/*.md",
		"Summarize *.md":                                             "summary .:*.md",
		"Summarize src/{a,b}/x?.txt":                                 "summary src:{a,b}/x?.txt",
		"Summarize /etc/motd.d/*":                                    "summary /etc/motd.d:*",
		"Summarize a.md, b.md and c/d.md":                            "summary a.md b.md c/d.md",
		"Summarize a.md,b.md":                                        "summary a.md b.md",
		"Summarize the file LICENSE":                                 "summary LICENSE:**?",
		`Summarize the file "my notes.md"`:                           "summary my notes.md",
		"Please give me a 3-sentence summary of README.md":           "summary=3 README.md",
		"Can you summarize README.md in three sentences?":            "summary=3 README.md",
		"I want a short summary of README.md":                        "summary=3 README.md",
		"Summarize README.md in at most 50 words":                    "summary/50 README.md",
		"tl;dr of CHANGELOG.md":                                      "summary CHANGELOG.md",
		"TL;DR: docs/a.md":                                           "summary docs/a.md",
		"What are the key points of docs/a.md?":                      "points docs/a.md",
		"5 key points: a.md":                                         "points=5 a.md",
		"Summarize a.md as bullet points":                            "points a.md",
		"top 10 keywords of docs/":                                   "keywords=10 docs:**",
		"Extract the keywords from a.md":                             "keywords a.md",
		"Outline README.md":                                          "outline README.md",
		"Show me an outline of the file a.md":                        "outline a.md",
		"Table of contents of a.md":                                  "outline a.md",
		"Read README.md and summarize it":                            "summary README.md",
		"For each file in docs/, summarize it":                       "summary docs:**",
		"Summarize: Bees fly far.":                                   "summary <Bees fly far.>",
		"Summarize the following text:\n\nBees fly far.\nThey rest.": "summary <Bees fly far.\nThey rest.>",
		"Summarize this text\n\nBees fly far.":                       "summary <Bees fly far.>",
		"Summarize it instead":                                       "summary",
		"summary":                                                    "summary",
		"now the keywords":                                           "keywords",
	} {
		got, problem := parseRequest(text, "")
		if assert.Empty(t, problem, text) {
			assert.Equal(t, want, spelled(got), text)
		}
	}
}

// What is no request of the grammar is refused, or has an unknown word, which
// would have to be the name of a file.
func TestParseRequestRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "hello", "Write a function that summarizes text", "Fix the bug in summary.go", "Explain keywords in Go",
		"Summarize a.md and write the summary to b.md", "Summarize a.md in German", "Summarize a.md as a haiku",
		"Compare a.md and b.md", "Write a summary of docs/ to out.md",
		"Summarize the differences between a.md and b.md", "Translate a.md",
		"Summarize https://example.com/page", "Delete the outline", "Summarize a.md.\nThen write it to b.md.",
		"Implement a keyword index", "Rename summary.md to outline.md", "Summarize a.md and list the keywords",
		"Summarize a.md: Bees fly.",
	} {
		req, problem := parseRequest(text, "")
		assert.NotEmpty(t, problem+req.bareWord(), text)
	}
}

func TestParseRequestContext(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Summarize":                          "summary <Bees fly.>",
		"summarize the text in 2 sentences.": "summary=2 <Bees fly.>",
		"Key points":                         "points <Bees fly.>",
		"Summarize a.md":                     "summary a.md <Bees fly.>",
	} {
		got, problem := parseRequest(text, "Bees fly.")
		if assert.Empty(t, problem, text) {
			assert.Equal(t, want, spelled(got), text)
		}
	}
	_, problem := parseRequest("Summarize it frankly", "Bees fly.")
	assert.Contains(t, problem, `"frankly" is neither a word it knows nor a file or folder`)
	_, problem = parseRequest("Summarize: as JSON", "Bees fly.")
	assert.Contains(t, problem, "there is another one on stdin")
}

// What asks for a form that cannot be answered is refused, also where a file or folder has that name. The problem
// names it.
func TestFormsAreRefused(t *testing.T) {
	t.Parallel()
	for text, named := range map[string]string{
		"Summarize a.md as JSON":                     "as JSON",
		"Summarize a.md in JSON format":              "in JSON",
		"Give me the keywords of a.md as a list.txt": "as a list.txt",
		"Summarize a.md in the style of a pirate":    "in the style",
		"Summarize a.md in French":                   "in French",
		"Summarize a.md. Answer in Spanish.":         "in Spanish",
		"Summarize a.md 'in the style of Hemingway'": "in the style of Hemingway",
		"Summarize a.md as a table":                  "as a table",
		"Summarize a.md as `docs`":                   "as docs",
		"Summarize a.md like a child":                "like a child",
		"Summarize a.md into out.md":                 "into out.md",
		"Translate a.md":                             "Translate",
		"Write a detailed summary of a.md":           "detailed",
		"Summarize a.md in 2 paragraph form":         "in 2 paragraph",
	} {
		for _, context := range []string{"", "Bees fly."} {
			_, problem := parseRequest(text, context)
			assert.Equal(t, notOurs+": it cannot write "+strconv.Quote(named), problem, text)
		}
	}
	for text, want := range map[string]string{
		"Summarize a.md in 3 bullet points":              "points=3 a.md",
		"Summarize a.md as bullet points":                "points a.md",
		"Summarize a.md in bullets":                      "points a.md",
		"Summarize a.md as a short outline":              "outline=3 a.md",
		"Summarize a.md in one paragraph":                "summary a.md",
		"Summarize the 3 files in docs":                  "summary docs:**?",
		"Summarize the three documents in docs/":         "summary docs:**",
		"Summarize `french.md` and json/ in 2 sentences": "summary=2 french.md json:**",
		"Summarize table.md":                             "summary table.md",
	} {
		got, problem := parseRequest(text, "")
		if assert.Empty(t, problem, text) {
			assert.Equal(t, want, spelled(got), text)
		}
	}
}

// What a child is asked must be understood by the child.
func TestWishSurvivesHandingOut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Summarize x.md", "Summarize x.md in 3 sentences", "Summarize x.md briefly", "Key points of x.md",
		"5 key points of x.md",
		"Keywords of x.md", "top 7 keywords of x.md", "Outline x.md", "Summarize x.md in 40 words",
	} {
		want, problem := parseRequest(text, "")
		require.Empty(t, problem, text)
		for _, name := range []string{"x.md", "docs/a b.md", "LICENSE", "docs/it's.md", "a,b.md"} {
			got, problem := parseRequest(want.handOn(name), "")
			require.Empty(t, problem, want.handOn(name))
			assert.Equal(t, want.wish, got.wish, want.handOn(name))
			require.Len(t, got.targets, 1, want.handOn(name))
			assert.Equal(t, name, got.targets[0].path)
		}
	}
}

func TestLastRequest(t *testing.T) {
	t.Parallel()
	user := func(s string) llm.Message { return llm.Message{Role: llm.User, Content: s} }
	said := llm.Message{Role: llm.Assistant, Content: "Bees fly."}
	read := llm.Message{Role: llm.ToolRole, CallID: "call_1", Content: "text"}
	for name, c := range map[string]struct {
		messages []llm.Message
		want     string
		since    int
	}{
		"follow-up": {[]llm.Message{user("Summarize a.md"), said, user("And the keywords?")}, "keywords a.md", 0},
		"continue":  {[]llm.Message{user("Summarize a.md"), said, user("Please continue.")}, "summary a.md", 0},
		"unfinished": {[]llm.Message{user("Summarize a.md"), read, user("You are out of turns: answer now.")},
			"summary a.md", 0},
		"new one": {[]llm.Message{user("Summarize a.md"), said, user("Outline b.md")}, "outline b.md", 2},
	} {
		got, since, err := lastRequest(c.messages, false)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, spelled(got), name)
		assert.Equal(t, c.since, since, name)
	}
	for _, messages := range [][]llm.Message{
		nil, {said}, {user("continue")}, {user("Summarize")}, {user("Summarize a.md"), said, user("Now write a poem")},
	} {
		_, _, err := lastRequest(messages, false)
		var problem *llm.Error
		require.ErrorAs(t, err, &problem)
		assert.Equal(t, llm.Unsupported, problem.Kind)
		assert.Contains(t, problem.Hint, "ollama pull")
		assert.NotContains(t, problem.Problem, "\n")
	}
}

func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		"Summarize the file \"a b.md\" in 3 sentences", "tl;dr:\n- a.md\n- b/",
		"key points of {a,b}/*.md, and the outline", "``` ' “ … «", "summarize .",
	} {
		f.Add(seed, "")
		f.Add(seed, "context")
	}
	f.Fuzz(func(t *testing.T, text, context string) {
		req, problem := parseRequest(text, context)
		if problem != "" {
			assert.NotContains(t, problem, "\n")
			return
		}
		for _, target := range req.targets {
			assert.NotEmpty(t, target.path)
		}
		if context != "" {
			assert.NotEmpty(t, req.text)
		}
	})
}
