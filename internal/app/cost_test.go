package app

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/task"
)

// keen is a model of which 20 tokens of each prompt are cached. With the prices of newPricedWorld, that costs 0.02 for
// each request, and 0.001 for each token of the answer.
func keen() standin.Option { return standin.Models(standin.Model{Name: "keen", Cached: 20}) }

const keenPrice = "=0/1000/1000"

// newPricedWorld is a world with that model behind three dialects.
func newPricedWorld(t *testing.T, options ...standin.Option) (*world, *standin.Server) {
	t.Helper()
	w, server := newServedWorld(t, append(options, keen())...)
	w.set("QQ_SERVER_oa=openai "+server.URL+"/v1", "QQ_SERVER_an=anthropic "+server.URL+"/v1",
		"QQ_SERVER_ge=gemini "+server.URL+"/v1beta", "QQ_MODEL=oa:keen",
		"QQ_PRICES=oa:*"+keenPrice+" an:*"+keenPrice+" ge:*"+keenPrice)
	return w, server
}

// result is the JSON result of a run.
func (e ended) result(t *testing.T) (res task.Result) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(e.out), &res), "%s%s", e.out, e.errors)
	return res
}

// TestPaidTries: a try that broke off after the server had said what it used was paid, with whichever model it was.
// Children count as the agent of the run does.
func TestPaidTries(t *testing.T) {
	long(t)
	w, server := newPricedWorld(t)
	w.set("QQ_RETRIES=2", "QQ_SERVER_spare=openai "+server.URL+"/v1")
	const messages = "/v1/messages"
	cut := standin.Fault{Break: standin.Cut, After: 1, Times: 1}
	for name, c := range map[string]struct {
		rules []standin.Rule
		args  []string
		cost  string
		model string
	}{
		// The beginning of an answer of Anthropic says what the prompt was, and that the answer has a token.
		"a retry": {[]standin.Rule{{Fault: cut}}, []string{"--model", "an:keen"}, "0.043", "an:keen"},
		// That of chat completions does not: the token is estimated.
		"an estimate": {[]standin.Rule{{Fault: cut}}, nil, "0.023", "oa:keen"},
		// Then the server is busy, for good.
		"a fallback": {
			[]standin.Rule{{Path: messages, Fault: cut}, {Path: messages, Fault: standin.Fault{Status: 503}}},
			[]string{"--model", "an:keen", "--fallback", "oa:keen"}, "0.043", "oa:keen",
		},
		"to one that has no price": {
			[]standin.Rule{{Path: messages, Fault: cut}, {Path: messages, Fault: standin.Fault{Status: 503}}},
			[]string{"--model", "an:keen", "--fallback", "spare:keen"}, "0.021", "spare:keen",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, how := range [][]string{{"--json"}, {"batch", "--output-format", "jsonl"}} {
				server.Heal()
				for _, r := range c.rules {
					server.Strike(r)
				}
				args := append(how, c.args...)
				if how[0] == "batch" {
					args = append(args, ":::")
				}
				res := w.run(append(args, "so be")...).result(t)
				assert.Equal(t, task.Completed, res.Status, res.Err())
				assert.Equal(t, c.model, res.Model)
				assert.Equal(t, c.cost, res.Usage.Cost.String(), "%v", args)
				if c.model == "spare:keen" {
					assert.Less(t, res.Usage.PricedTokens, res.Usage.Tokens())
					assert.Regexp(t, `\ncost +at least 0\.021 \(\d+ tokens without a price\)\n`,
						w.run("runs", "show", res.ExecutionID).out)
					assert.Contains(t, w.run("runs").out, " ≥0.021 ")
				} else {
					assert.Equal(t, res.Usage.Tokens(), res.Usage.PricedTokens)
				}
			}
		})
	}
}

// delegating are scripts of a lead, an agent in the middle and a last one.
func delegating() standin.Option {
	ask := func(agent, task string) string {
		return `<tool_call>{"name":"delegate_task","arguments":{"agent":"` + agent + `","task":"` + task +
			`"}}</tool_call>`
	}
	return standin.Scripts(
		standin.Script{Start: "[[top]]", Text: ask("middle", "[[mid]]")},
		standin.Script{Start: "[[mid]]", Text: ask("last", "[[leaf]]")},
		standin.Script{Start: "[[leaf]]", Text: "[[said]]"},
		standin.Script{Start: "[[said]]", Text: "[[said]]"},
	)
}

// TestMaxCost: the limit holds for the whole tree, at any depth and at several servers, and the run says how to get
// further. What was done counts.
func TestMaxCost(t *testing.T) {
	w, server := newPricedWorld(t, delegating())
	w.definition("middle", "---\nname: middle\ndescription: d\nmodel: an:keen\ntools: delegate_task\n---\nGo on.\n")
	w.definition("last", "---\nname: last\ndescription: d\nmodel: ge:keen\n---\nAnswer.\n")
	chats := func() int {
		return len(server.Requests("/v1/chat/completions")) + len(server.Requests("/v1/messages")) +
			len(server.Requests("/v1beta/models/keen:streamGenerateContent"))
	}
	// Each request costs 0.02 for its prompt, and 0.001 for its answer of one token.
	for limit, want := range map[string]struct {
		requests, code int
		cost           string
	}{
		"1": {5, 0, "0.105"}, "0.105": {5, 0, "0.105"}, "0.0631": {4, 5, "0.084"}, "0.063": {3, 5, "0.063"},
		"0.0421": {3, 5, "0.063"}, "0.042": {2, 5, "0.042"}, "0.000000001": {1, 5, "0.021"},
	} {
		t.Run(limit, func(t *testing.T) {
			before := chats()
			e := w.run("-v", "--json", "--max-cost", limit, "[[top]]")
			assert.Equal(t, want.code, e.code, e.errors)
			assert.Equal(t, want.requests, chats()-before)
			assert.Contains(t, e.errors, "; cost: "+want.cost+"\n")
			var list []struct {
				ID    string     `json:"id"`
				Usage task.Usage `json:"total_usage"`
			}
			require.NoError(t, json.Unmarshal([]byte(w.run("runs", "list", "--json").out), &list))
			assert.Equal(t, want.cost, list[0].Usage.Cost.String(), "the record says the same")
			assert.Equal(t, list[0].Usage.Tokens(), list[0].Usage.PricedTokens)
			if want.code == 0 {
				shown := w.run("runs", "show", list[0].ID).out
				for _, line := range []string{"default  1 run", "middle   1 run", "last     1 run", "0  1 run",
					"1  1 run", "2  1 run"} {
					assert.Contains(t, shown, "\n"+line)
				}
				assert.Equal(t, 4, strings.Count(shown, "  0.042\n"), shown)
				assert.Equal(t, 2, strings.Count(shown, "  0.021\n"), shown)
				return
			}
			res := e.result(t)
			assert.Equal(t, task.Limit, res.Status)
			assert.Contains(t, res.Err(), "Cost budget exhausted: "+want.cost+" of "+limit+" used")
			assert.Contains(t, e.errors, "hint: raise QQ_MAX_COST or --max-cost")
		})
	}
}

// TestMaxCostOfABatch: tasks that a limit stopped are done by who resumes it, and sums stay exact.
func TestMaxCostOfABatch(t *testing.T) {
	w, server := newPricedWorld(t)
	w.set("QQ_MAX_COST=0.05")
	tasks := []string{":::", "a", "b", "c", "d", "e"}
	args := []string{"batch", "-j", "1", "-v", "--output-format", "jsonl"}
	e := w.run(append(args, tasks...)...)
	assert.Equal(t, 5, e.code, e.errors)
	assert.Contains(t, e.errors, "; cost: 0.063\n")
	assert.Contains(t, e.errors, "3 completed, 2 limit")
	e = w.run(append(append(args, "--resume-failed"), tasks...)...)
	assert.Equal(t, 0, e.code, e.errors)
	assert.Contains(t, e.errors, "; cost: 0.042\n", "what was done before costs nothing again")
	assert.Len(t, server.Requests("/v1/chat/completions"), 5)
	var list []struct {
		ID    string
		Usage task.Usage
	}
	require.NoError(t, json.Unmarshal([]byte(w.run("runs", "list", "--json").out), &list))
	require.Len(t, list, 1)
	assert.Equal(t, "0.105", list[0].Usage.Cost.String())
	var shown struct {
		Runs   []struct{ Usage task.Usage }
		Shares []struct{ Usage task.Usage }
	}
	require.NoError(t, json.Unmarshal([]byte(w.run("runs", "show", "--json", list[0].ID).out), &shown))
	var sum task.Usage
	for _, r := range shown.Runs {
		sum = sum.Add(r.Usage)
	}
	assert.Equal(t, list[0].Usage, sum, "the tasks are the whole")
	require.Len(t, shown.Shares, 1)
	assert.Equal(t, sum, shown.Shares[0].Usage)
}

// TestNoPriceNoLimit: with a limit of cost, no model without a price is asked: not that of the run, not one instead,
// and not that of an agent.
func TestNoPriceNoLimit(t *testing.T) {
	w, server := newPricedWorld(t, delegating())
	w.set("QQ_SERVER_spare=openai "+server.URL+"/v1", "QQ_MAX_COST=1", "QQ_ALIAS_quick=spare:keen")
	w.definition("middle", "---\nname: middle\ndescription: d\nmodel: spare:keen\n---\nGo on.\n")
	for _, args := range [][]string{{"--model", "spare:keen"}, {"--model", "quick"},
		{"--fallback", "an:keen,spare:keen"}, {"--agent", "middle"}} {
		e := w.run(append(args, "hello")...)
		assert.Equal(t, 2, e.code, "%v: %s", args, e.out)
		assert.Contains(t, e.errors, "qq: spare:keen has no price, so the limit of cost (environment) cannot hold\n"+
			"  hint: add spare:keen=IN/OUT to QQ_PRICES")
		e = w.run(append(append([]string{"batch"}, args...), ":::", "hello")...)
		assert.Equal(t, 2, e.code, "%v: %s", args, e.out)
		assert.Contains(t, e.errors, "qq: spare:keen has no price")
	}
	e := w.run("--model", "auto", "hello")
	assert.Equal(t, 2, e.code, e.out)
	assert.Contains(t, e.errors, "has no price", "what auto chose")
	assert.Empty(t, server.Chats())
	assert.Empty(t, server.Requests("/v1/chat/completions"))
	w.run("[[top]]")
	assert.Empty(t, server.Requests("/v1/messages"))
	assert.Contains(t, strings.Join(w.toolResults(), "\n"), "spare:keen has no price")
	assert.Zero(t, w.run("--model", "extract", "Summarize: One sentence. Another one.").code, "it costs nothing")
}

// TestUncountedIsPaid: a server that does not count tokens does not make a limit of cost void.
func TestUncountedIsPaid(t *testing.T) {
	quiet := standin.Odd(func(standin.Prompt) *standin.Oddities {
		o := standin.Oddities{}
		o.NoUsage = true
		return &o
	})
	w, _ := newPricedWorld(t, quiet)
	e := w.run("batch", "-j", "1", "--max-cost", "0.001", ":::", "one", "two")
	assert.Equal(t, 5, e.code, e.errors)
	assert.Contains(t, e.errors, "1 completed, 1 limit")
}
