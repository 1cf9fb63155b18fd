package staffing

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/llm"
	"qq/pkg/money"
	"qq/pkg/task"
)

// broken is a backend whose answer broke off.
type broken struct{ llm.Response }

func (b broken) Chat(context.Context, llm.Request, func(llm.Chunk)) (llm.Response, error) {
	return b.Response, errors.New("broken off")
}

// TestBrokenAnswerIsPaid: Anthropic counts the prompt and one token at the beginning of an answer, and the whole answer
// at its end. What came before it broke off is paid.
func TestBrokenAnswerIsPaid(t *testing.T) {
	said := llm.Message{Content: strings.Repeat("So it goes. ", 500)}
	p := priced{broken{llm.Response{Message: said, Usage: task.Usage{InputTokens: 7, OutputTokens: 1}}},
		money.Price{Out: 1_000_000}}
	resp, err := p.Chat(t.Context(), llm.Request{}, nil)
	assert.Error(t, err)
	assert.Equal(t, 7, resp.Usage.InputTokens)
	assert.Greater(t, resp.Usage.OutputTokens, 1000)
	assert.Equal(t, resp.Usage.Tokens(), resp.Usage.PricedTokens)
	assert.Equal(t, money.Amount(1000*resp.Usage.OutputTokens), resp.Usage.Cost)
	p = priced{broken{llm.Response{Message: said}}, money.Price{In: 1_000_000}} // it counts nothing at all
	resp, err = p.Chat(t.Context(), llm.Request{Messages: []llm.Message{said}}, nil)
	assert.Error(t, err)
	assert.Greater(t, resp.Usage.Cost, money.Amount(1000*1000), "the prompt is paid")
}
