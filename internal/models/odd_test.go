package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
	"qq/internal/standin"
	"qq/pkg/llm"
	"qq/pkg/tool"
)

// speakers are the servers of a stand-in, by what they speak.
func speakers(s *standin.Server) []servers.Server {
	return []servers.Server{
		{Name: "ollama", Kind: servers.Ollama, URL: s.URL},
		{Name: "openai", Kind: servers.OpenAI, URL: s.URL + "/v1"},
		{Name: "anthropic", Kind: servers.Anthropic, URL: s.URL + "/v1"},
		{Name: "gemini", Kind: servers.Gemini, URL: s.URL + "/v1beta"},
	}
}

// meant is what a server means to say.
type meant struct {
	thinking, text string
	calls          []tool.Call // without ids
}

// random returns the source of the randomness of a seed. Each purpose has its own.
func random(seed int, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), purpose)) }

// meaning returns a random answer.
func meaning(seed int) meant {
	r := random(seed, 1)
	var m meant
	if r.IntN(3) == 0 {
		m.thinking = strings.ReplaceAll(prose(r, 1+r.IntN(8)), "</think>", "")
	}
	calls := max(r.IntN(6)-2, 0)
	if calls == 0 || r.IntN(2) == 0 {
		m.text = prose(r, 1+r.IntN(15))
	}
	for range calls {
		c := tool.Call{Name: []string{"read", "now"}[r.IntN(2)], Arguments: json.RawMessage("{}")}
		if r.IntN(4) > 0 {
			var err error
			arguments := map[string]any{"path": prose(r, 1+r.IntN(4)), "n": r.IntN(1000)}
			if r.IntN(3) == 0 {
				arguments["deep"] = map[string]any{"list": []any{nil, true, "}", prose(r, 2)}}
			}
			if c.Arguments, err = json.Marshal(arguments); err != nil {
				panic(err)
			}
		}
		m.calls = append(m.calls, c)
	}
	return m
}

// prose returns n words, some of which look like parts of a stream. It neither begins nor ends with white space.
func prose(r *rand.Rand, n int) string {
	words := []string{"a", "Größe", "你好", "🙂", `"quoted"`, `back\slash`, "{", "}", `{"error":"x"}`, "data:", "[DONE]",
		"two\n\nlines", "event: error\r\n", "\t", "<b>&amp;", "</think>", "<think>", "\u2028", "finish_reason", "null"}
	list := []string{"So"}
	for range n {
		list = append(list, words[r.IntN(len(words))])
	}
	return strings.Join(append(list, "end"), " ")
}

// said writes m as a script of the stand-in.
func (m meant) said() string {
	var b strings.Builder
	if m.thinking != "" {
		b.WriteString("<think>" + m.thinking + "</think>")
	}
	b.WriteString(m.text)
	for _, c := range m.calls {
		fmt.Fprintf(&b, `<tool_call>{"name":%q,"arguments":%s}</tool_call>`, c.Name, c.Arguments)
	}
	return b.String()
}

// heard is what a client makes of an answer.
type heard struct {
	resp llm.Response
	err  error
}

// TestOddServers: however oddly a server speaks and wherever its answer breaks off, it is an answer if and only if its
// end mark was sent; then it is what the server meant.
func TestOddServers(t *testing.T) {
	seeds := 10_000
	if testing.Short() || raceEnabled {
		seeds = 500
	}
	s := standin.Start(t,
		standin.Odd(func(p standin.Prompt) *standin.Oddities { return oddities(seedOf(p.Last("user"))) }),
		standin.Reply(func(p standin.Prompt) string { return meaning(seedOf(p.Last("user"))).said() }),
		standin.Models(standin.Model{Name: "m", Context: 1 << 20,
			Capabilities: []string{"completion", "tools", "thinking"}}))
	for _, server := range speakers(s) {
		t.Run(server.Kind, func(t *testing.T) {
			s.Forget()
			client, err := Open(server, "")
			require.NoError(t, err)
			defer client.Close()
			m := Model{Kind: server.Kind, Name: "m", Context: 1 << 20, Tools: true, Thinking: true}
			b := client.Backend(m, Options{})
			answers := make([]heard, seeds)
			var next atomic.Int64
			var all sync.WaitGroup
			for range 2 * runtime.GOMAXPROCS(0) {
				all.Go(func() {
					for i := int(next.Add(1)) - 1; i < seeds; i = int(next.Add(1)) - 1 {
						r := ask("seed " + strconv.Itoa(i))
						r.Tools = []tool.Spec{{Name: "read", Parameters: json.RawMessage(`{"type":"object"}`)},
							{Name: "now", Parameters: json.RawMessage(`{"type":"object"}`)}}
						answers[i].resp, answers[i].err = b.Chat(t.Context(), r, ignore)
					}
				})
			}
			all.Wait()
			chats := s.Ended(t)
			require.Len(t, chats, seeds)
			wrong, whole := 0, 0
			for _, c := range chats {
				seed := seedOf(c.Task)
				if c.Whole {
					whole++
				}
				if problem := answers[seed].check(seed, server.Kind, c.Whole); problem != "" {
					if wrong++; wrong <= 5 {
						t.Errorf("seed %d: %s\n%+v\nmeant %q", seed, problem, *oddities(seed), meaning(seed).said())
					}
				}
			}
			assert.Zero(t, wrong, "wrong ones of %d", seeds)
			assert.Greater(t, whole, seeds/2)
			assert.Greater(t, seeds-whole, seeds/10)
		})
	}
}

// oddities returns what is odd about the answer to a seed.
func oddities(seed int) *standin.Oddities { return standin.AnyOddities(random(seed, 2)) }

func seedOf(task string) int {
	seed, err := strconv.Atoi(strings.TrimPrefix(task, "seed "))
	if err != nil {
		panic(err)
	}
	return seed
}

// check returns what is wrong about the answer to a seed. whole says whether the server sent the end mark.
func (h heard) check(seed int, kind string, whole bool) string {
	odd, want, got := oddities(seed), meaning(seed), h.resp.Message
	stop := llm.StopEnd
	if odd.HalfCall && want.calls != nil {
		stop = llm.StopLength
		if kind == servers.OpenAI || kind == servers.Anthropic { // only there calls come in pieces
			want.calls = want.calls[:len(want.calls)-1]
		}
	}
	if h.err != nil {
		e, ok := errors.AsType[*llm.Error](h.err)
		switch {
		case whole && odd.Break != standin.Reset: // which may overtake what was sent
			return "an error for a whole answer: " + h.err.Error()
		case !ok || !e.Passing():
			return fmt.Sprintf("the error is not one that passes: %#v", h.err)
		case h.resp.Stop != "":
			return "a broken answer has a reason to stop"
		case !strings.HasPrefix(want.text, got.Content), !strings.HasPrefix(want.thinking, got.Thinking):
			return fmt.Sprintf("what was said of a broken answer is wrong: %q, %q", got.Content, got.Thinking)
		}
		return ""
	}
	switch {
	case !whole:
		return "an answer without an end mark"
	case h.resp.Stop != stop:
		return fmt.Sprintf("it stops for %q, not %q", h.resp.Stop, stop)
	case got.Content != want.text:
		return fmt.Sprintf("the text is %q", got.Content)
	case got.Thinking != want.thinking:
		return fmt.Sprintf("the thinking is %q", got.Thinking)
	case len(got.Calls) != len(want.calls):
		return fmt.Sprintf("%d calls, not %d: %s", len(got.Calls), len(want.calls), got.Calls)
	}
	for i, c := range got.Calls {
		if c.ID == "" || c.Name != want.calls[i].Name || !sameJSON(c.Arguments, want.calls[i].Arguments) {
			return fmt.Sprintf("call %d is %s(%s) with id %q", i, c.Name, c.Arguments, c.ID)
		}
	}
	return ""
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
