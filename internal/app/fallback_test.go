package app

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/task"
)

// TestFallback: another model answers if the server of the first is away when the run starts, is busy, or goes away
// meanwhile. The result, the ledger and stderr say which one answered.
func TestFallback(t *testing.T) {
	w, spare := newServedWorld(t)
	w.set("QQ_SERVER_spare=ollama "+spare.URL, "QQ_SERVER_away=ollama 127.0.0.1:1", "QQ_FALLBACK=away:x,spare:stand-in")
	busy := standin.Start(t)
	busy.Strike(standin.Rule{Fault: standin.Fault{Status: 503}})
	long := standin.Start(t)
	long.Strike(standin.Rule{Fault: standin.Fault{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}})
	for name, host := range map[string]string{"away": "127.0.0.1:1", "busy": busy.URL, "busy for long": long.URL} {
		t.Run(name, func(t *testing.T) {
			w := w.with("OLLAMA_HOST=" + host)
			e := w.run("--output-format", "json", "hello")
			require.Equal(t, 0, e.code, e.errors)
			var res task.Result
			require.NoError(t, json.Unmarshal([]byte(e.out), &res))
			assert.Equal(t, "spare:stand-in", res.Model)
			assert.Contains(t, e.errors, "going on with spare:stand-in")
			e = w.run("batch", "--output-format", "jsonl", "-m", "say {}", ":::", "a", "b", "c")
			require.Equal(t, 0, e.code, e.errors)
			for _, l := range jsonLines(t, e.out) {
				assert.Equal(t, "spare:stand-in", l["model"])
			}
			assert.Contains(t, e.errors, "spare:stand-in")
			assert.NotContains(t, e.errors, "a model that cannot be had", "it has a name")
			assert.LessOrEqual(t, strings.Count(e.errors, "\n"), 6, "not for each task: %s", e.errors)
			assert.Contains(t, w.run("runs", "list", "--json").out, `"spare:stand-in"`)
		})
	}
}

// TestNoFallbackAfterEffects: a model that has begun to change something is not replaced; one that has only read is.
func TestNoFallbackAfterEffects(t *testing.T) {
	call := func(tool, path string) string {
		return `<tool_call>{"name":"` + tool + `","arguments":{"path":"` + path + `","content":"b"}}</tool_call>`
	}
	scripts := standin.Scripts(standin.Script{Start: "[[write]]", Text: call("write_file", "new.txt")},
		standin.Script{Start: "[[read]]", Text: call("read_file", "a.txt")})
	w, spare := newServedWorld(t)
	first := standin.Start(t, scripts)
	first.Strike(standin.Rule{Role: "tool", Fault: standin.Fault{Status: 503}})
	w.set("OLLAMA_HOST="+first.URL, "QQ_SERVER_spare=ollama "+spare.URL)
	w.file("a.txt", "text\n")
	for task, goesOn := range map[string]bool{"[[write]]": false, "[[read]]": true} {
		for _, how := range [][]string{{}, {"batch"}} {
			args := append(how, "--fallback", "spare:stand-in", "--auto-approve", "-a", "worker")
			if len(how) > 0 {
				args = append(args, ":::")
			}
			made := filepath.Join(w.dir, "new.txt")
			_ = os.Remove(made)
			e := w.run(append(args, task)...)
			assert.Equal(t, goesOn, e.code == 0, "%v: %s%s", args, e.out, e.errors)
			assert.Equal(t, goesOn, strings.Contains(e.errors, "spare:stand-in"), "%v: %s", args, e.errors)
			_, err := os.Stat(made)
			assert.Equal(t, goesOn, err != nil)
		}
	}
}

// TestFallbackOfAnAgent: the definition of an agent may name its own, and the flag counts more.
func TestFallbackOfAnAgent(t *testing.T) {
	w, spare := newServedWorld(t)
	other := standin.Start(t)
	w.set("OLLAMA_HOST=127.0.0.1:1", "QQ_SERVER_spare=ollama "+spare.URL, "QQ_SERVER_other=ollama "+other.URL)
	w.definition("mine", "---\nname: mine\ndescription: d\nfallback: spare:stand-in\n---\nAnswer.\n")
	e := w.run("-a", "mine", "hello")
	require.Equal(t, 0, e.code, e.errors)
	assert.Contains(t, e.errors, "going on with spare:stand-in")
	e = w.run("--fallback", "other:stand-in", "-a", "mine", "hello")
	require.Equal(t, 0, e.code, e.errors)
	assert.Contains(t, e.errors, "going on with other:stand-in")
	e = w.run("--model", "spare:missing", "--fallback", "other:stand-in", "hello")
	assert.Equal(t, 2, e.code, "a misspelt name is no reason")
	assert.Contains(t, e.errors, `has no model "missing"`)
	e = w.run("--fallback", "nobody:x", "hello")
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.errors, "nobody:x")
}

// TestFallbackThatSeesNothing: a task with an image goes on with a model that sees images, even if another model stands
// before that, and answers a task without one.
func TestFallbackThatSeesNothing(t *testing.T) {
	w, spare := newServedWorld(t)
	sees := standin.Start(t, standin.Models(standin.Model{
		Name: standin.DefaultModel, Capabilities: []string{"completion", "tools", "vision"},
	}))
	w.set("OLLAMA_HOST=127.0.0.1:1", "QQ_SERVER_spare=ollama "+spare.URL, "QQ_SERVER_sees=ollama "+sees.URL,
		"QQ_FALLBACK=spare:stand-in,sees:stand-in")
	w.file("a.png", "\x89PNG\r\n\x1a\n\x00")
	w.file("b.txt", "text\n")
	e := w.run("batch", "--output-format", "jsonl", "-m", "what is this?", "b.txt", "a.png")
	require.Equal(t, 0, e.code, e.out+e.errors)
	lines := jsonLines(t, e.out)
	assert.Equal(t, "spare:stand-in", lines[0]["model"])
	assert.Equal(t, "sees:stand-in", lines[1]["model"])
	spare.Forget()
	busy := standin.Start(t, standin.Models(standin.Model{
		Name: standin.DefaultModel, Capabilities: []string{"completion", "tools", "vision"},
	}))
	busy.Strike(standin.Rule{Fault: standin.Fault{Status: 503}})
	e = w.with("OLLAMA_HOST="+busy.URL).run("--json", "--image", "a.png", "what is this?")
	assert.Equal(t, "sees:stand-in", e.result(t).Model, "also if the first model is busy: %s", e.errors)
	assert.Empty(t, spare.Chats())
}

// TestFallbackByClass: a quota that is used up is a reason to ask another model, whatever is said about quotas. What a
// server answers to a request is none, whatever its words are.
func TestFallbackByClass(t *testing.T) {
	const words = `{"error":{"message":"connection refused: 429, you exceeded your quota","type":"odd"}}`
	w, spare := newServedWorld(t)
	w.set("QQ_SERVER_spare=ollama " + spare.URL)
	for body, c := range map[string]struct {
		status int
		goesOn bool
	}{
		`{"error":{"message":"No.","type":"insufficient_quota"}}`: {429, true}, `{"error":"Pay."}`: {402, true},
		words: {400, false}, words + " ": {500, false},
	} {
		first := standin.Start(t)
		first.Strike(standin.Rule{Fault: standin.Fault{Status: c.status, Body: body}})
		w := w.with("QQ_SERVER_lab=openai "+first.URL+"/v1", "QQ_MODEL=lab:stand-in")
		for _, flags := range [][]string{nil, {"--on-quota", "fallback"}, {"--on-quota", "stop"}} {
			args := append([]string{"--json", "--fallback", "spare:stand-in"}, flags...)
			e := w.run(append(args, "hello")...)
			res := e.result(t)
			if assert.Equal(t, c.goesOn, e.code == 0, "%v: %s", c, e.errors); c.goesOn {
				assert.Equal(t, "spare:stand-in", res.Model)
				assert.Contains(t, e.errors, "going on with spare:stand-in")
				var list []struct{ ID, Model string }
				require.NoError(t, json.Unmarshal([]byte(w.run("runs", "list", "--json").out), &list))
				assert.Equal(t, res.ExecutionID, list[0].ID)
				assert.Equal(t, "spare:stand-in", list[0].Model, "the ledger")
				continue
			}
			assert.Equal(t, "lab:stand-in:latest", res.Model)
			assert.NotContains(t, e.errors, "spare:")
		}
	}
}

// TestFallbackIsNotKept: what another model answered is not taken from the cache as the answer of the first.
func TestFallbackIsNotKept(t *testing.T) {
	w, spare := newServedWorld(t)
	first := standin.Start(t)
	w.set("OLLAMA_HOST="+first.URL, "QQ_SERVER_spare=ollama "+spare.URL)
	first.Strike(standin.Rule{Fault: standin.Fault{Status: 503}})
	args := []string{"batch", "--cache", "--output-format", "jsonl", "--fallback", "spare:stand-in", ":::", "a"}
	assert.Equal(t, "spare:stand-in", w.run(args...).result(t).Model)
	first.Heal()
	for _, cached := range []bool{false, true} {
		res := w.run(args...).result(t)
		assert.Equal(t, "ollama:stand-in", res.Model)
		assert.Equal(t, cached, res.Cached)
	}
}

// TestFallbackOfACheckout: an agent of a folder that is not trusted does not choose the models that are asked instead.
func TestFallbackOfACheckout(t *testing.T) {
	w, spare := newServedWorld(t)
	w.set("OLLAMA_HOST=127.0.0.1:1", "QQ_SERVER_spare=openai "+spare.URL+"/v1")
	w.file(".qq/agents/theirs.md", "---\ndescription: d\ntools: []\nfallback: spare:stand-in\n---\nAnswer.\n")
	e := w.run("-a", "theirs", "hello")
	assert.NotZero(t, e.code)
	assert.Empty(t, spare.Requests("/v1/chat/completions"))
	assert.NotContains(t, e.errors, "going on")
	assert.Contains(t, e.errors, "fallback: the file is not trusted: that of the run is used")
	e = w.run("trust", "--yes")
	require.Zero(t, e.code, e.errors)
	assert.Equal(t, ".qq/agents/theirs.md: agent theirs with the tools: none; model: that of the run; fallback: "+
		"spare:stand-in; may ask: none; prompt of 7 bytes: \"Answer.\" (sends text to another machine)\n", e.out)
	e = w.run("-a", "theirs", "hello")
	assert.Zero(t, e.code, e.errors)
	assert.Contains(t, e.errors, "going on with spare:stand-in")
}
