package dialect

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// Ollama is the dialect of Ollama's own interface, /api/chat. Its streams consist of lines.
type Ollama struct{}

var _ Dialect = Ollama{}

// chatRequest is the body of a request to /api/chat. Fields that are equal for all tasks of an
// agent come first: equal beginnings let the server use its cache.
type chatRequest struct {
	Model    string          `json:"model"`
	Options  chatOptions     `json:"options"`
	Tools    []chatTool      `json:"tools,omitempty"`
	Messages []chatMessage   `json:"messages"`
	Format   json.RawMessage `json:"format,omitempty"`
	Think    *bool           `json:"think,omitempty"`
	// Truncate and Shift are always false. Either would lose part of the prompt silently:
	// Truncate before the answer begins, Shift when the answer fills the context.
	Truncate bool `json:"truncate"`
	Shift    bool `json:"shift"`
}

type chatOptions struct {
	NumCtx      int      `json:"num_ctx"`
	NumPredict  int      `json:"num_predict,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	Images     [][]byte   `json:"images,omitempty"` // in base64; also of the result of a tool
}

// chatCall is a tool call in requests and answers.
type chatCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// Authorize implements [Dialect].
func (Ollama) Authorize(h http.Header, key string) { bearer(h, key) }

// Encode implements [Dialect].
func (Ollama) Encode(ask *Ask) (path string, body []byte, err error) {
	req := &chatRequest{
		Model:    ask.Model,
		Options:  chatOptions{NumCtx: ask.Context, NumPredict: ask.Limit, Temperature: ask.Temperature},
		Messages: make([]chatMessage, 0, len(ask.Messages)+1),
	}
	if err := checkSchema(ask); err != nil {
		return "", nil, err
	}
	switch {
	case ask.Schema != nil:
		// Thinking is switched off: Ollama does not apply a format to a model that may think first.
		req.Format, req.Think = ask.Schema, new(bool)
	case ask.Thinking:
		think := true
		req.Think = &think
	}
	if ask.System != "" {
		req.Messages = append(req.Messages, chatMessage{Role: "system", Content: ask.System})
	}
	for i := range ask.Messages {
		message, err := newChatMessage(&ask.Messages[i])
		if err != nil {
			return "", nil, err
		}
		req.Messages = append(req.Messages, message)
	}
	if req.Tools, err = chatTools(ask.Tools); err != nil {
		return "", nil, err
	}
	body, err = encode(req)
	return "api/chat", body, err
}

// encode returns v as JSON, without escapes that are for HTML: they are more bytes and say nothing.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// chunk is one line of the stream that answers a chat: a piece of the answer, or an error. The
// last line has Done set.
type chunk struct {
	Message struct {
		Role      string     `json:"role"` // assistant; some servers leave it out
		Content   string     `json:"content"`
		Thinking  string     `json:"thinking"`
		ToolCalls []chatCall `json:"tool_calls"`
	} `json:"message"`
	Done       bool   `json:"done"`
	DoneReason string `json:"done_reason"`
	Error      string `json:"error"`
	// The counts are in tokens, the durations in nanoseconds. Servers send whole numbers; as
	// float64, a number in another form does not fail the answer.
	PromptEvalCount float64 `json:"prompt_eval_count"`
	EvalCount       float64 `json:"eval_count"`

	Total      float64 `json:"total_duration"`
	Load       float64 `json:"load_duration"`
	PromptEval float64 `json:"prompt_eval_duration"`
	Eval       float64 `json:"eval_duration"`
}

// Decode implements [Dialect].
func (Ollama) Decode(data []byte, a *Answer) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return noAnswer(data)
	}
	if c.Error != "" {
		return &Failure{Kind: llm.BrokenStream, Text: llm.OneLine(c.Error)}
	}
	if role := c.Message.Role; role != "" && role != string(llm.Assistant) {
		c.Message.Content, c.Message.Thinking, c.Message.ToolCalls = "", "", nil // it is no part of the answer
	}
	a.add(c.Message.Thinking, c.Message.Content)
	for _, tc := range c.Message.ToolCalls {
		if err := a.call(tool.Call{ID: tc.ID, Name: tc.Function.Name, Arguments: tc.Function.Arguments}); err != nil {
			return err
		}
	}
	if a.full() || !c.Done {
		return nil
	}
	a.count(c.PromptEvalCount, c.EvalCount, 0)
	a.timing = c.timing(a.began.Sub(a.asked))
	stop := llm.StopEnd
	if c.DoneReason == "length" {
		stop = llm.StopLength
	}
	err := a.end(stop)
	a.close()
	return err
}

// timing returns how long the request waited at the server and how long it was served. Both are 0 if the server
// reports no durations or implausible ones. begun is the time until the first line. The wait is what loading the
// model and reading the prompt do not explain of that time, or of the total without generating, whichever is
// shorter. Time after the first line is no wait: servers spend some of it on work that they do not report (sampling,
// turns of other requests).
func (c *chunk) timing(begun time.Duration) llm.Timing {
	const most = float64(24 * time.Hour)
	for _, d := range [...]float64{c.Total, c.Load, c.PromptEval, c.Eval} {
		if d < 0 || d > most {
			return llm.Timing{}
		}
	}
	if c.Total == 0 || c.PromptEval+c.Eval == 0 {
		return llm.Timing{} // the server reports no durations
	}
	queued := max(min(c.Total-c.Eval, float64(begun))-c.Load-c.PromptEval, 0)
	return llm.Timing{Queued: time.Duration(queued), Served: time.Duration(max(c.Total-c.Load-queued, 0))}
}

// chatTools returns the tools as Ollama and the servers of chat completions want them.
func chatTools(specs []tool.Spec) ([]chatTool, error) {
	var tools []chatTool
	for _, spec := range specs {
		parameters, err := toolParameters(spec)
		if err != nil {
			return nil, err
		}
		tools = append(tools, chatTool{"function", chatFunction{spec.Name, spec.Description, parameters}})
	}
	return tools, nil
}

func newChatMessage(m *llm.Message) (chatMessage, error) {
	out := chatMessage{
		Role: string(m.Role), Content: m.Content, Thinking: m.Thinking, ToolName: m.Tool, ToolCallID: m.CallID,
	}
	for i := range m.Images {
		out.Images = append(out.Images, m.Images[i].Data)
	}
	for i, c := range m.Calls {
		arguments, err := argumentsOf(c)
		if err != nil {
			return out, err
		}
		call := chatCall{ID: c.ID}
		call.Function.Index, call.Function.Name, call.Function.Arguments = i, c.Name, arguments
		out.ToolCalls = append(out.ToolCalls, call)
	}
	return out, nil
}

// argumentsOf returns the arguments of a call, which must be a JSON object or empty.
func argumentsOf(c tool.Call) (json.RawMessage, error) {
	if len(c.Arguments) == 0 {
		return json.RawMessage("{}"), nil
	}
	var object *struct{}
	if err := json.Unmarshal(c.Arguments, &object); err != nil || object == nil {
		return nil, rejected("arguments of a call of "+c.Name+" are not a JSON object", err)
	}
	return c.Arguments, nil
}

// toolParameters returns the parameters of a tool as servers accept them: an object whose
// properties are an object too.
func toolParameters(spec tool.Spec) (json.RawMessage, error) {
	var known *struct{ Properties *struct{} }
	err := json.Unmarshal(spec.Parameters, &known)
	switch {
	case err != nil, known == nil:
		return nil, rejected("parameters of tool "+spec.Name+" are not a schema that a model server takes", err)
	case known.Properties != nil:
		return spec.Parameters, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(spec.Parameters, &all); err != nil {
		return nil, err
	}
	all["properties"] = json.RawMessage("{}") // chat templates fail on null
	return json.Marshal(all)
}
