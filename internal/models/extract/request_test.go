package extract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
)

// spelled writes a request down so that a table can hold it.
func spelled(r request) string {
	var out []string
	for _, p := range r.Products {
		text := p.String()
		if r.Count[p] > 0 {
			text += "=" + string(rune('0'+r.Count[p]/10)) + string(rune('0'+r.Count[p]%10))
		}
		out = append(out, text)
	}
	if r.Words > 0 {
		out = append(out, "words")
	}
	if r.Brief {
		out = append(out, "brief")
	}
	for _, t := range r.targets {
		name := t.path
		if t.pattern != "" {
			name += ":" + t.pattern
		}
		out = append(out, name)
	}
	for _, e := range r.exts {
		out = append(out, "*"+e)
	}
	for _, g := range r.guesses {
		out = append(out, g+"?")
	}
	if r.material != "" {
		out = append(out, "<"+r.material+">")
	}
	return strings.Join(out, " ")
}

func TestParseRequest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Summarize README.md":                                            "Summary README.md",
		"summarise readme.md.":                                           "Summary readme.md",
		"SUMMARIZE `docs/a.md`!":                                         "Summary docs/a.md",
		"Summarize the documents in docs/ and README.md.":                "Summary docs:** README.md",
		"Summarize the documents in docs and README.md":                  "Summary docs:** README.md",
		"Key points of README.md, notes and a.md":                        "Key points README.md notes:** a.md",
		"Summarize README.md and the errors":                             "Summary README.md",
		"Summarize docs":                                                 "Summary docs?",
		"Summarize the docs folder":                                      "Summary docs:**",
		"Summarize all files in the folder notes":                        "Summary notes:**",
		"Summarize ./docs/":                                              "Summary docs:**",
		"Summarize .":                                                    "Summary .:**",
		"Summarize this project in one paragraph":                        "Summary .:**/*.md",
		"Summarize the current directory":                                "Summary .:**",
		"Summarize docs/*.md":                                            "Summary docs:*.md",
		"Summarize docs/**/*.md in one sentence":                         "Summary=01 docs:**/*.md",
		"Summarize *.md":                                                 "Summary .:*.md",
		"Summarize src/{a,b}/x?.txt":                                     "Summary src:{a,b}/x?.txt",
		"Summarize /etc/motd.d/*":                                        "Summary /etc/motd.d:*",
		"Summarize the .go files in pkg/":                                "Summary pkg:** *.go",
		"Summarize the Markdown files in docs/":                          "Summary docs:** *.md *.markdown",
		"Summarize a.md, b.md and c/d.md":                                "Summary a.md b.md c/d.md",
		"Summarize a.md,b.md":                                            "Summary a.md b.md",
		"Summarize these files:\n- a.md\n- docs/b.md":                    "Summary a.md docs/b.md",
		"Summarize the file LICENSE":                                     "Summary LICENSE:**",
		`Summarize the file "my notes.md"`:                               "Summary my notes.md",
		"Please give me a 3-sentence summary of README.md":               "Summary=03 README.md",
		"Can you summarize README.md in three sentences?":                "Summary=03 README.md",
		"I want a short summary of README.md":                            "Summary brief README.md",
		"Summarize README.md in at most 50 words":                        "Summary words README.md",
		"tl;dr of CHANGELOG.md":                                          "Summary CHANGELOG.md",
		"TL;DR: docs/a.md":                                               "Summary docs/a.md",
		"What are the key points of docs/a.md?":                          "Key points docs/a.md",
		"Give me the 5 most important points... no, 5 key points: a.md":  "Key points=05 a.md",
		"List 5 key points of a.md":                                      "Key points=05 a.md",
		"Summarize a.md as bullet points":                                "Key points a.md",
		"Summarize a.md in 4 bullets":                                    "Key points=04 a.md",
		"top 10 keywords of docs/":                                       "Keywords=10 docs:**",
		"Extract the keywords from a.md":                                 "Keywords a.md",
		"Outline README.md":                                              "Outline README.md",
		"Show me an outline of the file a.md":                            "Outline a.md",
		"Table of contents of a.md":                                      "Outline a.md",
		"Summarize a.md and list the keywords":                           "Summary Keywords a.md",
		"Summarize the file a.md in 3 sentences and list the 5 keywords": "Summary=03 Keywords=05 a.md",
		"Read README.md and summarize it":                                "Summary README.md",
		"For each file in docs/, summarize it":                           "Summary docs:**",
		"Summarize: Bees fly far.":                                       "Summary <Bees fly far.>",
		"Summarize the following text:\n\nBees fly far.\nThey rest.":     "Summary <Bees fly far.\nThey rest.>",
		"Summarize this:\n```\nBees fly far.\n```":                       "Summary <Bees fly far.>",
		"Summarize the following part of docs/a.md\nBees fly.":           "Summary <Bees fly.>",
		"Bees fly far.\nThey rest.\n\nSummarize the text above":          "Summary <Bees fly far.\nThey rest.>",
		"Summarize the file a.md.\nUse 2 sentences.":                     "Summary=02 a.md",
		"Summarize README":                                               "Summary README?",
		"summary":                                                        "Summary",
		"now the keywords":                                               "Keywords",
	} {
		got, problem := parseRequest(text, "")
		if assert.Empty(t, problem, text) {
			assert.Equal(t, want, spelled(got), text)
		}
	}
}

func TestParseRequestRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "hello", "Write a function that summarizes text", "Fix the bug in summary.go", "Explain keywords in Go",
		"Summarize a.md and write the summary to b.md", "Summarize a.md in German", "Summarize a.md as a haiku",
		"Compare a.md and b.md", "Write a summary of docs/ to out.md", "Summarize the differences between a.md and b.md", "Translate a.md",
		"Summarize https://example.com/page", "Delete the outline", "Summarize a.md.\nThen write it to b.md.",
		"Implement a keyword index", "Rename summary.md to outline.md",
	} {
		_, problem := parseRequest(text, "")
		assert.NotEmpty(t, problem, text)
	}
}

func TestParseRequestContext(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Summarize":                             "Summary <Bees fly.>",
		"summarize the meeting in 2 sentences.": "Summary=02 <Bees fly.>",
		"Key points":                            "Key points <Bees fly.>",
		"Summarize a.md":                        "Summary a.md <Bees fly.>",
		"Summarize this.\nBe very brief.":       "Summary brief <Bees fly.>",
	} {
		got, problem := parseRequest(text, "Bees fly.")
		if assert.Empty(t, problem, text) {
			assert.Equal(t, want, spelled(got), text)
		}
	}
}

func TestLongTextOnOneLine(t *testing.T) {
	t.Parallel()
	text := strings.TrimSpace(strings.Repeat("The bees fly far in summer/spring. ", 6))
	got, problem := parseRequest("Summarize "+text, "")
	require.Empty(t, problem)
	assert.Equal(t, text, got.material+".")
	assert.Empty(t, got.targets)
}

// What a child is asked must be understood by the child.
func TestWishSurvivesHandingOut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Summarize x.md", "Summarize x.md in 3 sentences", "Summarize x.md briefly", "Key points of x.md", "5 key points of x.md",
		"Keywords of x.md", "top 7 keywords of x.md", "Outline x.md", "Summarize x.md in 40 words",
		"Summarize x.md in 2 sentences and list 4 key points and 5 keywords and the outline",
	} {
		want, problem := parseRequest(text, "")
		require.Empty(t, problem, text)
		for _, name := range []string{"x.md", "docs/a b.md", "LICENSE", "docs/it's.md"} {
			got, problem := parseRequest(handOn(want.Wish, name), "")
			require.Empty(t, problem, handOn(want.Wish, name))
			assert.Equal(t, want.Wish, got.Wish, handOn(want.Wish, name))
			require.Len(t, got.targets, 1, handOn(want.Wish, name))
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
		"follow-up":  {[]llm.Message{user("Summarize a.md"), said, user("And the keywords?")}, "Keywords a.md", 0},
		"continue":   {[]llm.Message{user("Summarize a.md"), said, user("Please continue.")}, "Summary a.md", 0},
		"unfinished": {[]llm.Message{user("Summarize a.md"), read, user("You are out of turns: answer now.")}, "Summary a.md", 0},
		"new one":    {[]llm.Message{user("Summarize a.md"), said, user("Outline b.md")}, "Outline b.md", 2},
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
		"Summarize the file \"a b.md\" in 3 sentences", "tl;dr:\n- a.md\n- b/", "key points of {a,b}/*.md, and the outline", "``` ' “ … «", "summarize .",
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
		assert.NotEmpty(t, req.Products)
		for _, target := range req.targets {
			assert.NotEmpty(t, target.path)
		}
		if context != "" {
			assert.NotEmpty(t, req.material)
		}
	})
}
