package gate

import (
	"cmp"
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

// Policy says how many times a failed request is sent again, and who is told of each retry.
type Policy struct {
	Retries int     // attempts after the first
	Repeats Repeats // hears about each retry; nil means nobody listens
	// Hasty says that another model can answer: nothing waits for an open circuit breaker, nor long for a server that
	// wants no requests.
	Hasty bool
}

// Repeats is told about retries.
type Repeats interface {
	// Repeated is called before the n-th retry, which starts after wait because the previous
	// attempt failed with err. The text that the failed attempt yielded is not taken back; the
	// text of the retry follows it.
	Repeated(n int, wait time.Duration, err error)
}

// Backend sends the requests of one model. Each request first waits until an admission, such as
// [Gate], lets it pass. A request that fails for a temporary reason is sent again.
type Backend struct {
	next      llm.Backend
	model     string
	admission llm.Admission
	retry     retrypolicy.RetryPolicy[any]
	hasty     bool
	repeats   atomic.Int64
}

var _ llm.Backend = (*Backend)(nil)

// Retrying returns a Backend that sends requests to next and retries them as p says. model is the name of the model
// behind next. Each attempt enters a and leaves it. After a Retry-After or an open breaker, a makes the retry wait,
// not the retry delay. A nil a admits everything.
func Retrying(next llm.Backend, model string, a llm.Admission, p Policy) *Backend {
	b := &Backend{next: next, model: model, admission: a, hasty: p.Hasty}
	delay := wait
	if a == nil {
		b.admission = unlimited{}
	} else {
		delay = func(n int, err error) time.Duration {
			if heldBack(err) {
				return 0
			}
			return wait(n, err)
		}
	}
	b.retry = policy(p, delay, func() { b.repeats.Add(1) })
	return b
}

// heldBack reports whether the admission, not the retry delay, makes a retry wait after err.
func heldBack(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && (e.Kind == llm.Open || e.RetryAfter >= firstWait) // shorter: no reason to wait in a queue
}

// policy converts p to a retry policy of package failsafe. delay returns the wait before each retry. counted is
// called for each retry; nil means that nobody counts.
func policy(p Policy, delay func(n int, err error) time.Duration, counted func()) retrypolicy.RetryPolicy[any] {
	return retrypolicy.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool { return repeatable(err, p.Hasty) }).
		WithMaxRetries(max(p.Retries, 0)).
		WithDelayFunc(func(e failsafe.ExecutionAttempt[any]) time.Duration {
			return delay(e.Retries(), e.LastError())
		}).
		OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[any]) {
			if counted != nil {
				counted()
			}
			if p.Repeats != nil {
				p.Repeats.Repeated(e.Retries()+1, max(e.Delay, asked(e.LastError())), e.LastError())
			}
		}).
		ReturnLastFailure().Build()
}

// Repeats returns the number of retries so far, of all requests together.
func (b *Backend) Repeats() int { return int(b.repeats.Load()) }

// Chat implements [llm.Backend]. It returns the response of the last attempt that yielded text,
// with the usage of all attempts.
func (b *Backend) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	var (
		resp     llm.Response
		err      error
		used     task.Usage
		waited   time.Duration
		attempts int
	)
	// The library's own result is ignored: it hides the cause of ctx, and drops an
	// answer that came together with the end of ctx.
	_ = failsafe.With[any](b.retry).WithContext(ctx).Run(func() error {
		attempts++
		for round := 1; ; round++ {
			came := time.Now()
			permit, refused := b.enter(ctx, err)
			waited += time.Since(came)
			if refused != nil {
				if !isQuota(err) || !isQuota(refused) {
					err = refused // else what the server said says more
				}
				return err // resp keeps the text of the previous attempt
			}
			before := resp.Message
			resp, err = b.attempt(ctx, permit, r, yield)
			used = used.Add(resp.Usage)
			if err != nil && resp.Message.Content == "" {
				resp.Message = before // keep the text of an earlier attempt
			}
			if !isQuota(err) || b.admission == (unlimited{}) || round == mostRounds {
				return err
			}
		}
	})
	resp.Usage, resp.Waited = used, waited
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

// mostRounds is how often the reset of a quota is waited for in one attempt. Whether it is waited for at all, the
// admission decides.
const mostRounds = 20

func isQuota(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && e.Kind == llm.Quota
}

// enter waits until the admission lets an attempt pass. last is the error of the previous attempt, or nil. Only if
// last says that a breaker is open does the attempt wait for its trial request.
func (b *Backend) enter(ctx context.Context, last error) (llm.Permit, error) {
	e, ok := errors.AsType[*llm.Error](last)
	if b.hasty {
		ctx = llm.Hurried(ctx)
	}
	return b.admission.Enter(ctx, b.model, ok && e.Kind == llm.Open)
}

func (b *Backend) attempt(
	ctx context.Context, permit llm.Permit, r llm.Request, yield func(llm.Chunk),
) (llm.Response, error) {
	report := llm.Report{Cancelled: true} // the report if Chat panics
	defer func() { permit.Leave(report) }()
	began, first := time.Now(), time.Duration(0)
	resp, err := b.next.Chat(ctx, r, func(c llm.Chunk) {
		if c.Allowed != nil {
			permit.Allowed(*c.Allowed)
			return
		}
		if first == 0 {
			first = time.Since(began)
		}
		permit.Active()
		if yield != nil {
			yield(c)
		}
	})
	report = llm.ReportOf(ctx, resp, err)
	if err == nil {
		resp.Took = time.Since(began)
		resp.First = cmp.Or(first, resp.Took) // an answer in one piece
	}
	return resp, err
}

// repeatable reports whether a retry makes sense after err. hasty says that it must not wait for a circuit breaker, nor
// longer than the longest delay between two attempts.
func repeatable(err error, hasty bool) bool {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || hasty && (e.Kind == llm.Open || e.RetryAfter > longestWait) {
		return false
	}
	return e.Passing() || e.Kind == llm.Open && e.RetryAfter > 0
}

// wait returns the delay before the retry that follows attempt n (from 0), which failed with err. The delay grows
// exponentially, with jitter, and is at least what err asks for; the jitter of package failsafe could make it
// shorter.
func wait(n int, err error) time.Duration {
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Kind == llm.Open {
		return e.RetryAfter
	}
	d := min(firstWait<<min(n, 10), longestWait)
	d = time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
	return max(d, asked(err))
}

// asked returns the delay that err asks for (Retry-After), or 0.
func asked(err error) time.Duration {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// unlimited is an admission that admits every request at once.
type unlimited struct{}

func (unlimited) Enter(context.Context, string, bool) (llm.Permit, error) { return unlimited{}, nil }
func (unlimited) Active()                                                 {}
func (unlimited) Allowed(llm.Allowance)                                   {}
func (unlimited) Leave(llm.Report)                                        {}
