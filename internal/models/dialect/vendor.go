package dialect

import (
	"cmp"
	"encoding/json"
	"strings"

	"qq/internal/models/dialect/callid"
	"qq/internal/models/dialect/schema"
	"qq/pkg/llm"
)

// Vendor is one of those who speak the dialect of OpenAI and refuse what the others take, or need what the others
// refuse.
type Vendor string

// The vendors.
const (
	OpenAIOwn  Vendor = "openai"
	DeepSeek   Vendor = "deepseek"
	Mistral    Vendor = "mistral"
	OpenRouter Vendor = "openrouter"
)

// VendorAt returns the vendor whose servers have that host name; empty if it is none of them.
func VendorAt(host string) Vendor {
	host = "." + strings.ToLower(host)
	for _, at := range [...]struct {
		suffix string
		vendor Vendor
	}{
		{".api.openai.com", OpenAIOwn}, {".openai.azure.com", OpenAIOwn}, {".api.deepseek.com", DeepSeek},
		{".mistral.ai", Mistral}, {".openrouter.ai", OpenRouter},
	} {
		if strings.HasSuffix(host, at.suffix) {
			return at.vendor
		}
	}
	return ""
}

// adapt changes req to what the vendor takes, and returns the request to write into it.
func (v Vendor) adapt(ask *Ask, req *completionRequest) *Ask {
	switch v {
	case OpenAIOwn: // its models that think take no temperature
		req.MaxTokens, req.MaxCompletionTokens, req.Temperature = 0, ask.Limit, nil
	case Mistral: // it reports the usage unasked, and refuses to be asked
		req.Options = nil
	case DeepSeek: // it has no schemas
		if ask.Schema != nil {
			req.Format = nil
			if schema.IsObject(ask.Schema) {
				req.Format = &responseFormat{Type: "json_object"}
			}
			return ask.InWords()
		}
	case OpenRouter: // some of those behind it refuse calls of tools that the request does not describe
		if used := usedTools(ask); len(used) > 0 && ask.Schema == nil {
			with := *ask
			with.Tools, req.ToolChoice = used, "none"
			return &with
		}
	}
	return ask
}

// add appends m, which is written as out, to the messages of a request.
func (v Vendor) add(messages []completionMessage, out completionMessage, m *llm.Message) []completionMessage {
	switch v {
	case DeepSeek: // when it thinks, it refuses its own messages without the thinking
		if m.Role == llm.Assistant {
			out.Thinking = &m.Thinking
		}
	case OpenRouter: // some of those behind it refuse calls without the thinking that led to them
		if len(m.Calls) > 0 && strings.HasPrefix(m.Calls[0].Signature, detailsBegin) {
			out.Details = json.RawMessage(m.Calls[0].Signature)
		}
	case Mistral:
		if n := len(messages); m.Role == llm.User && n > 0 && messages[n-1].Role == string(llm.ToolRole) {
			// It wants an answer to results before the user says something else.
			seen := "I have seen the results."
			messages = append(messages, completionMessage{Role: string(llm.Assistant), Content: &seen})
		}
		for i := range out.Calls {
			out.Calls[i].ID = callid.Mistral(out.Calls[i].ID)
		}
		if out.CallID != "" {
			out.CallID = callid.Mistral(out.CallID)
		}
	}
	return append(messages, out)
}

// reasoningDetail is thinking as OpenRouter writes it: a text, a summary, or data that only the model can read.
type reasoningDetail struct {
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	Summary   string `json:"summary,omitempty"`
	Data      string `json:"data,omitempty"`
	Signature string `json:"signature,omitempty"`
	ID        string `json:"id,omitempty"`
	Format    string `json:"format,omitempty"`
	Index     *int   `json:"index,omitempty"`
}

// detailsBegin is how the signature of a call begins that has such details.
const detailsBegin = `[{"type":"reasoning.`

// reasoningDetails are those of an answer. They come in pieces.
type reasoningDetails struct {
	whole []reasoningDetail
	texts []string // of the last one, whose text or summary may go on
}

// add adds pieces, whose size counts in a. A piece with the type and the index of the one before it continues that.
func (d *reasoningDetails) add(a *Answer, pieces []reasoningDetail) {
	for _, p := range pieces {
		a.size += len(p.Data) + len(p.Signature) + callBytes
		n := len(d.whole)
		if n == 0 || p.Data != "" || d.whole[n-1].Type != p.Type || indexOf(d.whole[n-1].Index) != indexOf(p.Index) {
			d.join()
			d.whole, d.texts = append(d.whole, p), []string{p.Text + p.Summary}
			continue
		}
		last := &d.whole[n-1]
		last.Signature, last.ID = cmp.Or(p.Signature, last.Signature), cmp.Or(last.ID, p.ID)
		d.texts = append(d.texts, p.Text+p.Summary)
	}
}

// join makes the last detail whole.
func (d *reasoningDetails) join() {
	if len(d.texts) < 2 {
		return
	}
	last, text := &d.whole[len(d.whole)-1], strings.Join(d.texts, "")
	if d.texts = nil; last.Type == "reasoning.summary" {
		last.Summary = text
	} else {
		last.Text = text
	}
}

// endWithDetails ends the answer. Its details become the signature of its first call.
func (a *Answer) endWithDetails(stop llm.Stop) error {
	if err := a.end(stop); err != nil || len(a.calls) == 0 || len(a.details.whole) == 0 {
		return err
	}
	a.details.join()
	text, _ := json.Marshal(a.details.whole) // texts only
	a.calls[0].Signature = string(text)
	return nil
}
