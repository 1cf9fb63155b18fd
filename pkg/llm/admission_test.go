package llm

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/task"
)

func TestReportOf(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r := Response{Usage: task.Usage{InputTokens: 3}}
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want Report
	}{
		{"an answer", ended, nil, Report{}},
		{"cancelled", ended, &Error{Kind: Unreachable}, Report{Cancelled: true}},
		{"a failure of the server", t.Context(), fmt.Errorf("ask: %w", &Error{Kind: Busy, RetryAfter: time.Second}),
			Report{Kind: Busy, RetryAfter: time.Second}},
		{"a time limit of who has sent it", t.Context(), context.DeadlineExceeded, Report{Cancelled: true}},
		{"cancelled for itself", t.Context(), context.Canceled, Report{Cancelled: true}},
		{"something else", t.Context(), errors.New("boom"), Report{Kind: Rejected}},
	} {
		c.want.Usage = r.Usage
		assert.Equal(t, c.want, ReportOf(c.ctx, r, c.err), c.name)
	}
}
