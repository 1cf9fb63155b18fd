package models

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
	"qq/internal/standin"
	"qq/pkg/llm"
)

// rawServer answers each chat with what write writes.
func rawServer(t *testing.T, write func(w http.ResponseWriter)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { write(w) }))
	t.Cleanup(s.Close)
	return s
}

// endless writes line until nobody reads any more.
func endless(line string) func(w http.ResponseWriter) {
	many := strings.Repeat(line+"\n", 1+64<<10/len(line))
	return func(w http.ResponseWriter) {
		for {
			if _, err := io.WriteString(w, many); err != nil {
				return
			}
		}
	}
}

func chatAt(t *testing.T, s *httptest.Server, yield func(llm.Chunk)) (llm.Response, error) {
	t.Helper()
	return clientAt(t, s.URL).Backend(standIn, Options{}).Chat(t.Context(), ask("x"), yield)
}

// An answer without end is cut at its bound, whatever it consists of.
func TestAnswerIsBounded(t *testing.T) {
	long := strings.Repeat("größe ", 10_000)
	for name, line := range map[string]string{
		"text":        `{"message":{"content":"` + long + `"}}`,
		"thinking":    `{"message":{"thinking":"` + long + `"}}`,
		"leaked":      `{"message":{"content":"<think>` + long + `"}}`,
		"white space": `{"message":{"content":"` + strings.Repeat(" ", 60_000) + `"}}`,
		"calls":       `{"message":{"tool_calls":[{"function":{"name":"x","arguments":{"a":"` + long + `"}}}]}}`,
		"many calls": `{"message":{"tool_calls":[` + strings.Repeat(`{"function":{"name":"x"}},`, 1000) +
			`{"function":{"name":"x"}}]}}`,
		"no text at all": `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			var got chunks
			resp, err := chatAt(t, rawServer(t, endless(line)), got.add)
			e := failure(t, err, llm.TooLong)
			assert.Equal(t, "answer of stand-in did not end: it was cut after 8 MiB", e.Problem)
			assert.False(t, e.Passing(), "it is not asked again")
			text, thinking := got.text()
			assert.Equal(t, resp.Message.Content, text)
			assert.Equal(t, resp.Message.Thinking, thinking)
			assert.True(t, utf8.ValidString(text+thinking), "cut between characters")
			assert.Empty(t, resp.Stop)
			size := len(text) + len(thinking)
			for _, c := range resp.Message.Calls {
				size += len(c.Name) + len(c.Arguments)
			}
			assert.LessOrEqual(t, size, minAnswer)
			switch name {
			case "text", "thinking", "leaked", "white space":
				assert.Greater(t, size, minAnswer-10_000, "what fits is kept")
			}
		})
	}
}

// The bound grows with the context of the model.
func TestBoundFollowsTheContext(t *testing.T) {
	const context = 1 << 20
	part := strings.Repeat("x", 1<<20)
	s := rawServer(t, func(w http.ResponseWriter) {
		for range 12 {
			fmt.Fprintf(w, `{"message":{"content":"%s"}}`+"\n", part)
		}
		fmt.Fprintln(w, `{"done":true}`)
	})
	b := clientAt(t, s.URL).Backend(Model{Name: "m", Context: context}, Options{})
	resp, err := b.Chat(t.Context(), ask("x"), ignore)
	require.NoError(t, err)
	assert.Len(t, resp.Message.Content, 12<<20)
}

// What follows the last line is no part of the answer, and is not waited for.
func TestNothingFollowsTheLastLine(t *testing.T) {
	const last = `{"message":{"content":"whole"},"done":true,"done_reason":"stop"}`
	for name, after := range map[string]func(w http.ResponseWriter){
		"more text":       func(w http.ResponseWriter) { fmt.Fprintln(w, `{"message":{"content":" and more"}}`) },
		"an error":        func(w http.ResponseWriter) { fmt.Fprintln(w, `{"error":"it died"}`) },
		"another end":     func(w http.ResponseWriter) { fmt.Fprintln(w, `{"done":true,"done_reason":"length"}`) },
		"no JSON":         func(w http.ResponseWriter) { fmt.Fprintln(w, `<html>`) },
		"without end":     endless(`{"message":{"content":" and more"}}`),
		"one broken line": func(w http.ResponseWriter) { fmt.Fprint(w, `{"message":{"content":" and`) },
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := chatAt(t, rawServer(t, func(w http.ResponseWriter) {
				fmt.Fprintln(w, last)
				after(w)
			}), ignore)
			require.NoError(t, err)
			assert.Equal(t, "whole", resp.Message.Content)
			assert.Equal(t, llm.StopEnd, resp.Stop)
		})
	}
	t.Run("silence", func(t *testing.T) {
		answered := make(chan struct{})
		s := rawServer(t, func(w http.ResponseWriter) {
			fmt.Fprintln(w, last)
			_ = http.NewResponseController(w).Flush()
			<-answered // the connection stays open until then
		})
		defer close(answered)
		resp, err := chatAt(t, s, ignore)
		require.NoError(t, err)
		assert.Equal(t, "whole", resp.Message.Content)
	})
}

// A connection whose answer was read to its end is used again.
func TestConnectionIsUsedAgain(t *testing.T) {
	s := standin.Start(t)
	b := clientOf(t, s).Backend(standIn, Options{})
	from := map[string]bool{}
	for range 3 {
		_, err := b.Chat(t.Context(), ask("x"), ignore)
		require.NoError(t, err)
	}
	for _, c := range s.Chats() {
		from[c.From] = true
	}
	assert.Len(t, from, 1)
}

// Counts that cannot be true are replaced by estimates.
func TestImplausibleCounts(t *testing.T) {
	for counts, want := range map[string][2]int{
		`"prompt_eval_count":7,"eval_count":3`:             {7, 3},
		`"prompt_eval_count":0`:                            {0, 0},
		`"prompt_eval_count":-7,"eval_count":-3`:           {11, 3},
		`"prompt_eval_count":1e15,"eval_count":9999999999`: {11, 3},
		`"prompt_eval_count":1e300,"eval_count":1e300`:     {11, 3},
		`"prompt_eval_count":8000,"eval_count":8000`:       {8000, 8000}, // nobody can know
	} {
		resp, err := chatAt(t, rawServer(t, func(w http.ResponseWriter) {
			fmt.Fprintln(w, `{"message":{"content":"one two three"},"done":true,`+counts+`}`)
		}), ignore)
		require.NoError(t, err, counts)
		assert.Equal(t, want, [2]int{resp.Usage.InputTokens, resp.Usage.OutputTokens}, counts)
	}
}

// A request asks for no more than the room in the context, and for what its caller asks.
func TestRoomIsAskedFor(t *testing.T) {
	m := Model{Name: "stand-in", Context: 16384}
	for _, tt := range []struct {
		words, most, context, want int
	}{
		{10, 0, 8192, 7168}, {3000, 0, 8192, 5120}, {9000, 0, 16384, 8192}, {14_000, 0, 16384, 4096},
		{10, 50, 8192, 50},
	} {
		s := standin.Start(t, standin.Models(standin.Model{Name: "stand-in", Context: m.Context}))
		r := ask(strings.Repeat("abc ", tt.words))
		r.MaxTokens = tt.most
		_, err := clientOf(t, s).Backend(m, Options{}).Chat(t.Context(), r, ignore)
		require.NoError(t, err)
		options := sentTo(t, s)[0].Options
		assert.EqualValues(t, tt.context, options["num_ctx"], tt)
		assert.EqualValues(t, tt.want, options["num_predict"], tt)
	}
	for _, tt := range [][3]int{
		{2048, 100, 1024}, {8192, 8192, 1024}, {8192, 8500, 755}, {8192, 12_000, 512}, {300, 9, 300},
	} {
		assert.Equal(t, tt[2], answerLimit(tt[0], tt[1]), tt)
	}
}

// A line without an end breaks the answer off, and is said in plain words.
func TestLineWithoutEnd(t *testing.T) {
	s := rawServer(t, func(w http.ResponseWriter) {
		many := strings.Repeat("x", 1<<20)
		for {
			if _, err := io.WriteString(w, many); err != nil {
				return
			}
		}
	})
	_, err := chatAt(t, s, ignore)
	e := failure(t, err, llm.BrokenStream)
	assert.Equal(t, "answer of stand-in has a line of more than 16 MiB", e.Problem)
	assert.NotEmpty(t, e.Hint)
	assert.True(t, e.Passing())
}

// What a server sends as the words of a person or of a tool is no part of the answer.
func TestOtherRolesAreNoAnswer(t *testing.T) {
	s := rawServer(t, func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"message":{"role":"user","content":"u"}}
{"message":{"role":"tool","content":"t","thinking":"h","tool_calls":[{"function":{"name":"x"}}]}}
{"message":{"role":"assistant","content":"yes"}}
{"message":{"content":"."}}
{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}
`)
	})
	resp, err := chatAt(t, s, ignore)
	require.NoError(t, err)
	assert.Equal(t, "yes.", resp.Message.Content)
	assert.Empty(t, resp.Message.Thinking)
	assert.Empty(t, resp.Message.Calls)
}

// TestImplausibleCountsOfABrokenAnswer: what a server counted before its answer broke off is not believed either.
func TestImplausibleCountsOfABrokenAnswer(t *testing.T) {
	s := serverOf(t, servers.OpenAI, map[string]string{"/v1/chat/completions": `data: {"choices":[{"delta":` +
		`{"content":"one two three"}}],"usage":{"prompt_tokens":1e18,"completion_tokens":1e18}}` + "\n\n"})
	c, err := Open(s, "")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b := c.Backend(Model{Kind: s.Kind, Name: "m", Context: 8192}, Options{})
	resp, err := b.Chat(t.Context(), ask("hi"), ignore)
	require.Error(t, err)
	assert.Equal(t, "one two three", resp.Message.Content)
	assert.Less(t, resp.Usage.InputTokens, 100)
	assert.Equal(t, 3, resp.Usage.OutputTokens)
}
