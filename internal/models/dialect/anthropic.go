package dialect

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"qq/internal/models/dialect/callid"
	"qq/internal/models/dialect/schema"
	"qq/pkg/llm"
	"qq/pkg/tool"
)

// Anthropic is the dialect of Anthropic's messages, which Ollama speaks too. Source: its API reference, version
// 2023-06-01.
type Anthropic struct {
	// Own says that the server is one of Anthropic's own: it holds answers to a schema, lets no tool be forced for its
	// newest models, and refuses calls of tools that the request does not describe.
	Own bool
}

var _ Dialect = Anthropic{}

// anthropicLimit is the limit of an answer if nobody sets one, in tokens. The server demands a limit, and refuses one
// that is higher than that of the model; this is what its older models have.
const anthropicLimit = 8192

// messagesRequest is the body of a request. Fields that are equal for all tasks of an agent come first.
type messagesRequest struct {
	Model      string          `json:"model"`
	Tools      []messagesTool  `json:"tools,omitempty"`
	System     []messagesBlock `json:"system,omitempty"`
	Messages   []messagesTurn  `json:"messages"`
	MaxTokens  int             `json:"max_tokens"`
	Stream     bool            `json:"stream"`
	ToolChoice *toolChoice     `json:"tool_choice,omitempty"`
	Output     *outputConfig   `json:"output_config,omitempty"`
}

type outputConfig struct {
	Format outputFormat `json:"format"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type messagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema"`
}

type toolChoice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

// messagesTurn is what one side says before the other does.
type messagesTurn struct {
	Role    string          `json:"role"`
	Content []messagesBlock `json:"content"`
}

// messagesBlock is a part of a turn: text, an image, a call, or the result of one.
type messagesBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   any             `json:"content,omitempty"` // a text or, with images, blocks; nil if it is empty
	Source    *imageSource    `json:"source,omitempty"`
	Cache     *cacheControl   `json:"cache_control,omitempty"`
	// Of thinking and redacted_thinking. Either is only sent back, as it came.
	Thinking  *string `json:"thinking,omitempty"`
	Signature string  `json:"signature,omitempty"`
	Data      string  `json:"data,omitempty"`
}

type imageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"` // in base64
}

type cacheControl struct {
	Type string `json:"type"`
}

// answerTool is the tool by which the model gives an answer that a schema describes, where the server does not hold the
// answer itself to it. No other tool has that name.
const answerTool = "give_answer"

// Authorize implements [Dialect].
func (Anthropic) Authorize(h http.Header, key string) { h.Set("X-Api-Key", key) }

// Encode implements [Dialect]. A temperature is not sent: newer models refuse it.
func (d Anthropic) Encode(ask *Ask) (path string, body []byte, err error) {
	if err := checkSchema(ask); err != nil {
		return "", nil, err
	}
	if ask.Schema != nil && !schema.IsObject(ask.Schema) { // no tool can give another answer
		ask = ask.InWords()
	}
	req := messagesRequest{Model: ask.Model, MaxTokens: ask.Limit, Stream: true}
	if req.MaxTokens <= 0 {
		req.MaxTokens = anthropicLimit
	}
	if ask.System != "" {
		// What comes before the mark, tools included, stays in the cache of the server for the next request.
		req.System = []messagesBlock{{Type: "text", Text: ask.System, Cache: &cacheControl{"ephemeral"}}}
	}
	turn := lastTurn(ask)
	for i := range ask.Messages {
		blocks, err := messagesBlocks(&ask.Messages[i], i >= turn)
		if err != nil {
			return "", nil, err
		}
		role := "user" // results of tools are said by the user
		if ask.Messages[i].Role == llm.Assistant {
			role = "assistant"
		}
		if last := len(req.Messages) - 1; last >= 0 && req.Messages[last].Role == role {
			req.Messages[last].Content = append(req.Messages[last].Content, blocks...)
		} else if len(blocks) > 0 {
			req.Messages = append(req.Messages, messagesTurn{role, blocks})
		}
	}
	if last := len(req.Messages) - 1; last >= 0 && len(ask.Tools) > 0 { // the next request repeats all of this
		blocks := req.Messages[last].Content
		blocks[len(blocks)-1].Cache = &cacheControl{"ephemeral"}
	}
	tools := ask.Tools
	if used := usedTools(ask); d.Own && len(used) > 0 {
		tools, req.ToolChoice = used, &toolChoice{Type: "none"}
	}
	for _, spec := range tools {
		parameters, err := toolParameters(spec)
		if err != nil {
			return "", nil, err
		}
		req.Tools = append(req.Tools, messagesTool{spec.Name, spec.Description, parameters})
	}
	switch {
	case ask.Schema == nil:
	case d.Own:
		req.Output = &outputConfig{outputFormat{"json_schema", schema.Closed(ask.Schema)}}
	default:
		req.Tools = append(req.Tools, messagesTool{answerTool, "Gives the answer.", ask.Schema})
		req.ToolChoice = &toolChoice{"tool", answerTool}
	}
	body, err = encode(req)
	return "messages", body, err
}

// lastTurn returns the number of the first message whose thinking goes back to the server. Within a turn of the model,
// which begins behind what the user says and has calls of tools and their results, the server wants the thinking back.
// Before that it only checks that nothing has changed since, and refuses the request if something has: tools count too.
func lastTurn(ask *Ask) int {
	n := len(ask.Messages)
	if len(ask.Tools) == 0 {
		return n
	}
	for n > 0 && ask.Messages[n-1].Role != llm.User {
		n--
	}
	return n
}

// keptThinking returns the blocks that are in the signature of a call. That of another server has none.
func keptThinking(signature string) (blocks []messagesBlock) {
	if !strings.HasPrefix(signature, "[") || json.Unmarshal([]byte(signature), &blocks) != nil {
		return nil
	}
	return slices.DeleteFunc(blocks, func(b messagesBlock) bool { return !strings.HasSuffix(b.Type, "thinking") })
}

// messagesBlocks returns the blocks of m. The server refuses empty texts.
func messagesBlocks(m *llm.Message, withThinking bool) (blocks []messagesBlock, err error) {
	if withThinking && len(m.Calls) > 0 {
		blocks = keptThinking(m.Calls[0].Signature)
	}
	for _, image := range m.Images {
		source := &imageSource{"base64", image.Type, image.Data}
		blocks = append(blocks, messagesBlock{Type: "image", Source: source})
	}
	isResult := m.Role == llm.ToolRole
	if strings.TrimSpace(m.Content) != "" && (!isResult || len(blocks) > 0) {
		blocks = append(blocks, messagesBlock{Type: "text", Text: m.Content})
	}
	if isResult {
		result := messagesBlock{Type: "tool_result", ToolUseID: callid.Anthropic(m.CallID)}
		switch {
		case len(blocks) > 0:
			result.Content = blocks
		case m.Content != "":
			result.Content = m.Content
		}
		return []messagesBlock{result}, nil
	}
	for i, c := range m.Calls {
		arguments, err := argumentsOf(c)
		if err != nil {
			return nil, err
		}
		if withThinking && i > 0 {
			blocks = append(blocks, keptThinking(c.Signature)...)
		}
		id := callid.Anthropic(c.ID)
		blocks = append(blocks, messagesBlock{Type: "tool_use", ID: id, Name: c.Name, Input: arguments})
	}
	return blocks, nil
}

// messagesEvent is one event of a stream.
type messagesEvent struct {
	Type    string `json:"type"`
	Index   *int   `json:"index"`
	Message struct {
		Usage *messagesUsage `json:"usage"`
	} `json:"message"`
	Block struct {
		Type      string          `json:"type"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
	} `json:"content_block"`
	Delta struct {
		Text       string `json:"text"`
		Thinking   string `json:"thinking"`
		Signature  string `json:"signature"`
		Input      string `json:"partial_json"`
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage *messagesUsage  `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// messagesUsage is the usage so far. The three parts of the input exclude each other.
type messagesUsage struct {
	Input   float64 `json:"input_tokens"`
	Written float64 `json:"cache_creation_input_tokens"`
	Cached  float64 `json:"cache_read_input_tokens"`
	Output  float64 `json:"output_tokens"`
}

// Decode implements [Dialect]. The end mark is message_stop, and the stop reason comes before it.
func (Anthropic) Decode(data []byte, a *Answer) error {
	var e messagesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return noAnswer(data)
	}
	if present(e.Error) || e.Type == "error" {
		return failure(e.Error)
	}
	for _, u := range [...]*messagesUsage{e.Message.Usage, e.Usage} {
		if u != nil {
			a.count(max(a.prompt, u.Input+u.Written+u.Cached), u.Output, max(a.cached, u.Cached))
			a.written = max(a.written, u.Written)
		}
	}
	switch e.Type {
	case "content_block_start":
		if strings.HasSuffix(e.Block.Type, "thinking") {
			a.kept = append(a.kept, messagesBlock{Type: e.Block.Type, Data: e.Block.Data})
			a.keptFrom, a.size = a.thinking.Len(), a.size+len(e.Block.Data)
		}
		a.add(e.Block.Thinking, e.Block.Text)
		a.keep(e.Block.Signature)
		if e.Block.Type != "tool_use" {
			return nil
		}
		p := piece{index: indexOf(e.Index), begins: true, id: e.Block.ID, name: e.Block.Name, signature: a.handOver()}
		if input := string(e.Block.Input); input != "{}" && input != "null" {
			p.arguments = input // Ollama sends them whole
		}
		return a.part(p)
	case "content_block_delta":
		a.add(e.Delta.Thinking, e.Delta.Text)
		a.keep(e.Delta.Signature)
		if e.Delta.Input != "" {
			return a.part(piece{index: indexOf(e.Index), arguments: e.Delta.Input})
		}
	case "message_delta":
		a.reason = cmp.Or(e.Delta.StopReason, a.reason) // it may only have the usage
	case "message_stop":
		return a.stopped()
	}
	return nil
}

// keep notes the signature of the last block of thinking, behind its text.
func (a *Answer) keep(signature string) {
	if len(a.kept) == 0 || signature == "" {
		return
	}
	a.size += len(signature)
	last, text := &a.kept[len(a.kept)-1], a.thinking.String()[a.keptFrom:]
	last.Thinking, last.Signature = &text, last.Signature+signature
}

// handOver returns the thinking since the last call as the signature of the next one. Servers that do not sign it do
// not want it back.
func (a *Answer) handOver() string {
	signed := slices.DeleteFunc(a.kept, func(b messagesBlock) bool { return b.Signature+b.Data == "" })
	if a.kept = nil; len(signed) == 0 {
		return ""
	}
	text, _ := json.Marshal(signed) // texts only
	return string(text)
}

// stopped ends the answer of a server that said why it stops.
func (a *Answer) stopped() error {
	stop := llm.StopEnd
	switch a.reason {
	case "end_turn", "tool_use", "stop_sequence":
	case "max_tokens", "model_context_window_exceeded":
		stop = llm.StopLength
	case "refusal":
		return filtered(a.reason)
	case "":
		return ended("no reason")
	default:
		return ended(a.reason)
	}
	if err := a.end(stop); err != nil {
		return err
	}
	if n := len(a.calls); n > 0 && a.calls[n-1].Name == answerTool {
		a.emit("", string(a.calls[n-1].Arguments))
		a.calls = append([]tool.Call(nil), a.calls[:n-1]...)
	}
	a.close()
	return nil
}
