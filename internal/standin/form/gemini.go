package form

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// GeminiModels is the path of Gemini's models.
const GeminiModels = "/v1beta/models"

const geminiMethod = ":streamGenerateContent"

// gemini is the form of Google's Gemini. The name of the model is in the path.
type gemini struct{}

type geminiContents struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

// Read implements [Form].
func (*gemini) Read(r *http.Request, body []byte, p *Prompt) error {
	var req struct {
		System   geminiContents `json:"systemInstruction"`
		Contents []geminiContents
		Tools    []struct {
			Functions []struct {
				Name       string
				Parameters json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		}
		Config struct {
			MaxTokens int             `json:"maxOutputTokens"`
			Schema    json.RawMessage `json:"responseJsonSchema"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return err
	}
	if len(req.System.Parts) > 0 {
		if err := p.addParts("system", req.System.Parts); err != nil {
			return err
		}
	}
	for _, c := range req.Contents {
		role := c.Role
		if role == "model" {
			role = "assistant"
		}
		if err := p.addParts(role, c.Parts); err != nil {
			return err
		}
	}
	var tools []offered
	for _, t := range req.Tools {
		for _, f := range t.Functions {
			tools = append(tools, offer(f.Name, f.Parameters))
		}
	}
	p.Model = strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, GeminiModels+"/"), geminiMethod)
	p.Tools, p.Options.NumPredict = encodeAll(tools), req.Config.MaxTokens
	p.holdTo(req.Config.Schema)
	return nil
}

// ContentType implements [Form].
func (*gemini) ContentType() string { return "text/event-stream" }

// Add implements [Form].
func (f *gemini) Add(o *Output, p Piece) {
	o.begin("")
	o.write(`{"candidates":[{"content":{"role":"model","parts":[{`)
	switch {
	case p.Call != nil:
		o.write(`"functionCall":{"name":`)
		o.quote(p.Call.Name)
		if args := string(p.Call.Arguments); args != "{}" || o.Odd.Whole {
			o.write(`,"args":`)
			o.write(args)
		}
		if id := o.Odd.id(p.Call, 0); id != "" {
			o.write(`,"id":`)
			o.quote(id)
		}
		o.write(`}`)
	case p.Thinking != "":
		o.write(`"thought":true,"text":`)
		o.quote(p.Thinking)
	default:
		o.write(`"text":`)
		o.quote(p.Text)
	}
	o.write(`}]},"index":0`)
	if o.Odd.StopEach {
		o.write(`,"finishReason":"STOP"`)
	}
	o.write(`}]`)
	if o.Odd.UsageEach {
		f.count(o)
	}
	o.write(`}`)
	o.end()
}

func (f *gemini) count(o *Output) {
	o.number(`,"usageMetadata":{"promptTokenCount":`, o.Tokens)
	o.number(`,"candidatesTokenCount":`, o.Said)
	if o.Cached > 0 {
		o.number(`,"cachedContentTokenCount":`, o.Cached)
	}
	o.write(`}`)
}

// Last implements [Form].
func (f *gemini) Last(o *Output, reason string) {
	reason = map[string]string{"stop": "STOP", "length": "MAX_TOKENS"}[reason]
	o.begin("")
	o.write(`{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"index":0`)
	if !o.Odd.NoEnd {
		o.write(`,"finishReason":"`)
		o.write(reason)
		o.write(`"`)
	}
	o.write(`}]`)
	if !o.Odd.NoUsage {
		f.count(o)
	}
	o.write(`}`)
	o.end()
	if !o.Odd.NoEnd {
		o.marked()
	}
}

// Failure implements [Form].
func (*gemini) Failure(status int, message string) []byte {
	code := status
	if code == 0 {
		code = http.StatusInternalServerError
	}
	b := strconv.AppendInt([]byte(`{"error":{"code":`), int64(code), 10)
	b = append(AppendString(append(b, `,"message":`...), message), `,"status":"`...)
	b = append(b, strings.ToUpper(strings.ReplaceAll(http.StatusText(code), " ", "_"))...)
	b = append(b, `"}}`...)
	if status == 0 {
		return append(append([]byte("data: "), b...), "\n\n"...)
	}
	return b
}
