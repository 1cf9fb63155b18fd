// Package acp is the dialect of agent programs that speak the Agent Client Protocol, version 1
// (https://agentclientprotocol.com): JSON-RPC 2.0, one message a line, on stdin and stdout.
//
// Flow: initialize, session/new, perhaps session/set_model, then session/prompt with the text of the task. While the
// program works it sends session/update, and asks with session/request_permission. The response to session/prompt ends
// the turn. qq offers the program neither files nor terminals: it uses those of its sandbox.
package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"

	"qq/internal/foreign/wire"
	"qq/pkg/agents/program"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// version is that of the protocol.
const version = 1

// Dialect is that of programs that speak the protocol.
type Dialect struct{}

var _ wire.Dialect = Dialect{}

// Command implements wire.Dialect.
func (Dialect) Command(job wire.Job) (wire.Command, error) {
	c := wire.Command{Args: job.Program.Words, Lodgings: []wire.Lodging{
		{Variable: "XDG_STATE_HOME", Default: ".local/state"}, {Variable: "XDG_CACHE_HOME", Default: ".cache"},
	}}
	switch {
	case job.Program.Name == program.OpenCode:
		c.Args = []string{program.OpenCode, "acp"}
		c.Add = []string{"OPENCODE_DISABLE_AUTOUPDATE=1"}
		c.Drop = []string{"OPENCODE", "OPENCODE_*", "AGENT"}
		c.Keep = []string{"OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY",
			"OPENROUTER_API_KEY"}
		c.Lodgings = append(c.Lodgings, wire.Lodging{Variable: "XDG_DATA_HOME", Default: ".local/share",
			Files: []string{"opencode/auth.json"}}, wire.Lodging{Variable: "XDG_CONFIG_HOME", Default: ".config",
			Files: []string{"opencode/opencode.json", "opencode/opencode.jsonc", "opencode/AGENTS.md"}})
	case job.Program.Name != program.ACP || len(job.Program.Words) == 0:
		return wire.Command{}, errors.New("acp needs the command line of a program")
	}
	return c, nil
}

// The requests of qq, in their order. Their ids are their numbers.
const (
	initialize = 1 + iota
	newSession
	setModel
	prompt
)

const (
	maxAsked  = 32      // questions that may be open at once
	maxQueued = 256     // lines that wait for the program to read them
	maxAnswer = 4 << 20 // bytes of the answer
)

// conversation is one turn.
type conversation struct {
	job   wire.Job
	to    wire.Reporter
	ctx   context.Context
	lines chan []byte // to the program
	open  sync.WaitGroup
	slots chan struct{}
	at    int    // the request of qq that is under way
	id    string // of the session
	text  strings.Builder
	last  string // the last text that a call has followed
	cut   bool   // text is not whole
	calls calls
	out   wire.Outcome
}

// Converse implements wire.Dialect.
func (Dialect) Converse(ctx context.Context, job wire.Job, s wire.Stream, to wire.Reporter) (wire.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &conversation{job: job, to: to, ctx: ctx, lines: make(chan []byte, maxQueued),
		slots: make(chan struct{}, maxAsked), calls: calls{}}
	var writing sync.WaitGroup
	writing.Go(func() { c.write(s.In) })
	defer func() { // ends what waits to write, and what waits for a person
		cancel()
		s.In.Close()
		c.open.Wait()
		writing.Wait()
	}()
	c.ask(initialize, "initialize", map[string]any{
		"protocolVersion": version, "clientInfo": map[string]any{"name": "qq", "version": "1"},
		"clientCapabilities": map[string]any{"terminal": false,
			"fs": map[string]any{"readTextFile": false, "writeTextFile": false}},
	})
	for !c.out.Ended {
		line, err := s.Out.Next()
		switch {
		case err == nil || errors.Is(err, wire.ErrHalf) && json.Valid(line):
			c.take(line)
		case errors.Is(err, wire.ErrTooLong) || errors.Is(err, wire.ErrHalf):
		case errors.Is(err, io.EOF):
			c.out.Answer = c.answer()
			return c.out, nil
		default:
			return c.out, err
		}
	}
	return c.out, nil
}

// write writes lines to the program. A program that does not read must not keep qq from reading.
func (c *conversation) write(in io.Writer) {
	for {
		select {
		case line := <-c.lines:
			_, _ = in.Write(line) // if that fails, the stream tells why
		case <-c.ctx.Done():
			return
		}
	}
}

// send sends a message to the program. One that reads nothing of many is not sent more, and its clock ends it.
func (c *conversation) send(v map[string]any) {
	v["jsonrpc"] = "2.0"
	line, err := json.Marshal(v)
	if err != nil {
		return // only texts and numbers are sent
	}
	select {
	case c.lines <- append(line, '\n'):
	case <-c.ctx.Done():
	}
}

// ask sends a request of qq.
func (c *conversation) ask(id int, method string, params map[string]any) {
	c.at = id
	c.send(map[string]any{"id": id, "method": method, "params": params})
}

// message is any message of the program.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *failure        `json:"error"`
}

// failure is why a request failed.
type failure struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// needsLogin is the code of a program that wants a login first.
const needsLogin = -32000

// String returns the failure on one line.
func (f failure) String() string {
	text := cmp.Or(f.Message, "the request failed")
	if len(f.Data) > 0 && string(f.Data) != "null" {
		text += " " + string(f.Data)
	}
	if f.Code == needsLogin {
		text += ": log in with the program itself first"
	}
	return text
}

// take reads a line. What is no message of the protocol is left out.
func (c *conversation) take(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return
	}
	switch {
	case m.Method == "session/update":
		c.update(m.Params)
	case m.Method == "session/request_permission" && len(m.ID) > 0:
		c.permission(m)
	case m.Method != "" && len(m.ID) > 0:
		c.send(map[string]any{"id": m.ID, "error": map[string]any{"code": -32601, "message": "qq does not offer this"}})
	case m.Method == "":
		var id int
		if json.Unmarshal(m.ID, &id) == nil && id == c.at {
			c.response(m)
		}
	}
}

// response reads the response to the request that is under way, and sends the next one.
func (c *conversation) response(m message) {
	if m.Error != nil && c.at == setModel {
		c.to.Warn("the model %s cannot be set: %s", c.job.Model, m.Error)
		c.prompt()
		return
	}
	if m.Error != nil {
		c.fail(m.Error.String(), "")
		return
	}
	if len(m.Result) == 0 {
		c.fail("a response has neither a result nor an error", "")
		return
	}
	switch c.at {
	case initialize:
		var r struct {
			Version int `json:"protocolVersion"`
		}
		if json.Unmarshal(m.Result, &r) != nil || r.Version != version {
			c.fail("it does not speak version 1 of the Agent Client Protocol", "")
			return
		}
		c.ask(newSession, "session/new", map[string]any{"cwd": c.job.Dir, "mcpServers": []any{}})
	case newSession:
		c.begin(m.Result)
	case setModel:
		c.out.Model = c.job.Model
		c.prompt()
	case prompt:
		c.end(m.Result)
	}
}

// begin chooses the model in a new session.
func (c *conversation) begin(result json.RawMessage) {
	var r struct {
		ID     string `json:"sessionId"`
		Models struct {
			Current   string `json:"currentModelId"`
			Available []struct {
				ID string `json:"modelId"`
			} `json:"availableModels"`
		} `json:"models"`
	}
	if json.Unmarshal(result, &r) != nil || r.ID == "" {
		c.fail("it gave the session no id", "")
		return
	}
	c.id, c.out.Model = r.ID, r.Models.Current
	for _, m := range r.Models.Available {
		if c.job.Model != "" && m.ID == c.job.Model {
			c.ask(setModel, "session/set_model", map[string]any{"sessionId": c.id, "modelId": m.ID})
			return
		}
	}
	if c.job.Model != "" {
		c.to.Warn("the program offers no model %s: it uses its own", c.job.Model)
	}
	c.prompt()
}

// prompt gives the program its task.
func (c *conversation) prompt() {
	text := c.job.Text
	if system := strings.TrimSpace(c.job.System); system != "" {
		text = "Your instructions:\n\n" + system + "\n\nYour task:\n\n" + text
	}
	c.to.Turn(1)
	c.ask(prompt, "session/prompt", map[string]any{"sessionId": c.id,
		"prompt": []any{map[string]any{"type": "text", "text": text}}})
}

// end reads the response that ends the turn.
func (c *conversation) end(result json.RawMessage) {
	var r struct {
		Stop  string `json:"stopReason"`
		Usage *struct {
			In   int `json:"inputTokens"`
			Out  int `json:"outputTokens"`
			Read int `json:"cachedReadTokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(result, &r) != nil || r.Stop == "" {
		c.fail("the turn ended without a reason", "")
		return
	}
	if r.Usage != nil {
		c.out.Usage = task.Usage{InputTokens: max(r.Usage.In, 0) + max(r.Usage.Read, 0),
			OutputTokens: max(r.Usage.Out, 0), CachedTokens: max(r.Usage.Read, 0)}.Bounded(1 << 40)
	} else {
		c.to.Warn("the program does not say how many tokens it used: no limit of tokens or cost holds for it")
	}
	if c.cut {
		c.fail("its answer is longer than 4 MiB", "")
		return
	}
	switch r.Stop {
	case "end_turn":
		c.out.Ended, c.out.Answer = true, c.answer()
	case "max_turn_requests":
		c.fail("it used up its turns", task.TurnLimit)
	case "refusal":
		c.fail("its model refused the task", task.Refused)
	case "max_tokens":
		c.fail("its answer was cut at the limit of tokens", "")
	default:
		c.fail("the turn ended with "+r.Stop, "")
	}
}

// fail ends the turn: it failed.
func (c *conversation) fail(problem string, status task.Status) {
	c.out.Ended, c.out.Failed, c.out.Status, c.out.Answer = true, problem, status, c.answer()
}

// answer returns what the model has written since its last call, or else before it.
func (c *conversation) answer() string {
	if text := c.text.String(); strings.TrimSpace(text) != "" {
		return text
	}
	return c.last
}

// spoke adds what the model has written to the transcript.
func (c *conversation) spoke() {
	text := c.text.String()
	if strings.TrimSpace(text) == "" {
		return
	}
	c.to.Message(llm.Entry{Message: llm.Message{Role: llm.Assistant, Content: text}})
	c.last = text
	c.text.Reset()
}
