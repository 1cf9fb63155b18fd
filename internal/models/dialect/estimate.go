package dialect

import (
	"qq/internal/models/tokens"
	"qq/pkg/llm"
)

// ImageTokens is the estimate for an image. Ollama reckons with 768 where it cuts a prompt, and OpenAI counts 765 for
// 1024 x 1024 pixels. What servers count goes from 85 to about 1,600, by model and size.
const ImageTokens = 768

// PromptTokens estimates how many tokens a server will count for r.
func PromptTokens(r llm.Request) int {
	const perMessage, perCall, perTool = 5, 12, 20 // what templates add
	n := tokens.Estimate(r.System) + perMessage
	for i := range r.Messages {
		m := &r.Messages[i]
		n += perMessage + tokens.Estimate(m.Content) + tokens.Estimate(m.Thinking) + ImageTokens*len(m.Images)
		for _, c := range m.Calls {
			n += perCall + tokens.Estimate(c.Name) + tokens.Estimate(c.Arguments)
		}
	}
	for _, t := range r.Tools {
		n += perTool + tokens.Estimate(t.Name) + tokens.Estimate(t.Description) + tokens.Estimate(t.Parameters)
	}
	return n
}
