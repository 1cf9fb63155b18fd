package gate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
)

func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		fails := func(times int, kind llm.Kind) func(context.Context) error {
			calls = 0
			return func(context.Context) error {
				if calls++; calls <= times {
					return kinds(kind)[0]
				}
				return nil
			}
		}
		require.NoError(t, Repeat(t.Context(), Policy{Retries: 2}, fails(2, llm.Unreachable)))
		assert.Equal(t, 3, calls)
		demand(t, Repeat(t.Context(), Policy{Retries: 2}, fails(3, llm.Busy)), llm.Busy)
		assert.Equal(t, 3, calls)
		demand(t, Repeat(t.Context(), Policy{Retries: 2}, fails(1, llm.UnknownModel)), llm.UnknownModel)
		assert.Equal(t, 1, calls)

		ctx, cancel := context.WithCancelCause(t.Context())
		defer time.AfterFunc(100*time.Millisecond, func() { cancel(errStop) }).Stop()
		require.Equal(t, errStop, Repeat(ctx, Policy{Retries: 2}, fails(3, llm.Busy)))
		assert.Equal(t, 1, calls)
	})
}
