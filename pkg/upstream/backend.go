package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"qq/pkg/llm"
	"qq/pkg/task"
)

const (
	firstWait   = 500 * time.Millisecond
	longestWait = 30 * time.Second
	jitter      = 0.2 // of a wait, more or less
)

// Policy says how often a request is sent again.
type Policy struct {
	Retries int // attempts after the first
	// Repeated is called before the n-th repeat, which is due after wait because
	// err ended the attempt before it; nil tells nobody. What that attempt has
	// yielded will be followed by what the next one yields.
	Repeated func(n int, wait time.Duration, err error)
}

// Backend is a model whose requests pass an admission and are repeated.
type Backend struct {
	next      llm.Backend
	model     string
	admission llm.Admission
	retry     retrypolicy.RetryPolicy[any]
	repeats   atomic.Int64
}

var _ llm.Backend = (*Backend)(nil)

// Retrying makes a Backend of next, which is the named model. Each attempt
// enters a and leaves it; nil admits everything.
func Retrying(next llm.Backend, model string, a llm.Admission, p Policy) *Backend {
	if a == nil {
		a = everybody{}
	}
	b := &Backend{next: next, model: model, admission: a}
	b.retry = policy(p, func() { b.repeats.Add(1) })
	return b
}

// policy is p in the words of the library; counted, unless nil, is told of each
// repeat.
func policy(p Policy, counted func()) retrypolicy.RetryPolicy[any] {
	return retrypolicy.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool { return repeatable(err) }).
		WithMaxRetries(max(p.Retries, 0)).
		WithDelayFunc(func(e failsafe.ExecutionAttempt[any]) time.Duration { return wait(e.Retries(), e.LastError()) }).
		OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[any]) {
			if counted != nil {
				counted()
			}
			if p.Repeated != nil {
				p.Repeated(e.Retries()+1, e.Delay, e.LastError())
			}
		}).
		ReturnLastFailure().Build()
}

// Repeats is how many attempts of all requests were repeats.
func (b *Backend) Repeats() int { return int(b.repeats.Load()) }

// Chat implements [llm.Backend]. The response is that of the last attempt that
// was sent, its usage that of all.
func (b *Backend) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	var (
		resp     llm.Response
		err      error
		used     task.Usage
		attempts int
	)
	// What the library returns is put aside: it hides the cause of ctx, and takes
	// an answer that came with the end of ctx for none.
	_ = failsafe.With[any](b.retry).WithContext(ctx).Run(func() error {
		attempts++
		var permit llm.Permit
		if permit, err = b.admission.Enter(ctx, b.model); err != nil {
			return err // and the text of the attempt before it is kept
		}
		resp, err = b.attempt(ctx, permit, r, yield)
		used = used.Add(resp.Usage)
		return err
	})
	resp.Usage = used
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return resp, context.Cause(ctx)
	}
	if e, ok := errors.AsType[*llm.Error](err); ok && attempts > 1 {
		last := *e
		last.Problem = fmt.Sprintf("%s (after %d attempts)", e.Problem, attempts)
		err = &last
	}
	return resp, err
}

func (b *Backend) attempt(ctx context.Context, permit llm.Permit, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	report := llm.Report{Cancelled: true} // when Chat panics
	defer func() { permit.Leave(report) }()
	resp, err := b.next.Chat(ctx, r, func(c llm.Chunk) {
		permit.Active()
		if yield != nil {
			yield(c)
		}
	})
	report = llm.ReportOf(ctx, resp, err)
	return resp, err
}

// repeatable reports whether an attempt that ended with err is worth another.
func repeatable(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && (e.Passing() || e.Kind == llm.Open && e.RetryAfter > 0)
}

// wait is how long to wait after the attempt that followed on n repeats and
// ended with err. The jitter is not the library's, which would come back too
// early to a server, or a breaker, that said when.
func wait(n int, err error) time.Duration {
	var asked time.Duration
	if e, ok := errors.AsType[*llm.Error](err); ok {
		asked = e.RetryAfter
		if e.Kind == llm.Open {
			return asked
		}
	}
	d := min(firstWait<<min(n, 10), longestWait)
	d = time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
	return max(d, asked)
}

// everybody is the admission of a server that nobody shares.
type everybody struct{}

func (everybody) Enter(context.Context, string) (llm.Permit, error) { return everybody{}, nil }
func (everybody) Active()                                           {}
func (everybody) Leave(llm.Report)                                  {}
