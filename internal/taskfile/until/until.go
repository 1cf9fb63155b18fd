// Package until does what may take long until a context ends.
package until

import (
	"context"
	"io"
	"math/rand/v2"
)

// reader is the result of [Reader].
type reader struct {
	ctx context.Context
	r   io.Reader
}

// Reader reads from r until ctx has ended; then a read returns its cause. A read that waits is not interrupted.
func Reader(ctx context.Context, r io.Reader) io.Reader { return reader{ctx, r} }

// Read implements [io.Reader].
func (u reader) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}

// Perm is [rand.Rand.Perm], which takes seconds for some ten million numbers.
func Perm(ctx context.Context, n int, random *rand.Rand) ([]int, error) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		j := random.Uint64N(uint64(i + 1))
		order[i], order[j] = order[j], order[i]
	}
	return order, nil
}
