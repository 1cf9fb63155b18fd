// Package trace tells a collector of OpenTelemetry what a run did, as spans: one
// for the root, one for each batch, each execution of an agent and each call of
// a tool. What happened on the way (an approval, a repeated request) is an event
// of the span of the execution that it concerns.
//
// It is an event sink that makes spans of events, a bounded queue, and one
// goroutine that posts what is in the queue, OTLP as JSON over HTTP. The sink
// never waits: a span that finds the queue full is counted and gone. A request
// that the collector turns away for the moment is repeated once, after the time
// that it asks for. At the end there are two seconds for what is left. [Exporter.Close]
// says how many spans were lost and why; no run fails for it.
//
// A span has names, numbers and ids: agent, tool, model, status, exit code, tokens.
// It never has the text of a task, arguments, output or an error text, which may
// hold secrets. The attributes are those of the conventions for generative AI where
// they have one, else begin with "qq.".
//
// The variables are OpenTelemetry's: see [FromEnv]. Where no endpoint is set nothing
// is made and nothing runs. A trace that its parent does not sample is not exported.
// Not promised: gRPC, protocol buffers, compression, certificates of one's own,
// samplers, metrics and logs; that a span of a call holds the children which that
// call started (they are beside it); spans of a process that was killed.
package trace

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"qq/pkg/event"
)

const (
	maxBatch = 512         // spans in one request
	interval = time.Second // the longest that a span waits for others
	maxQueue = 4096        // spans that wait to be sent
)

// What a collector gets where nobody says otherwise.
const (
	requestTimeout = 10 * time.Second // for one request
	closeTimeout   = 2 * time.Second  // for all that is left at the end
)

// Config says where spans go, and about what.
type Config struct {
	Endpoint    string            // the URL that spans are posted to
	Headers     map[string]string // of each request
	Timeout     time.Duration     // of one request, and of Close; 0 is 10 s and 2 s
	ServiceName string            // empty is "qq"
	Version     string            // of the program
	Attributes  map[string]string // of the resource, beyond its name and version
	Trace       event.Trace
	Began       time.Time // when the root began; zero is now
}

// Exporter makes spans of events and sends them. Its methods may be called by
// several goroutines. A nil Exporter drops everything.
type Exporter struct {
	cfg    Config
	client *http.Client
	wrap   envelope
	ctx    context.Context // of requests
	cancel context.CancelFunc
	queue  chan *span
	done   chan struct{} // closed when everything was sent or lost

	closing chan struct{} // closed when the end has come
	until   time.Time     // set before that: when the end is over
	rest    []*span       // set before that: what was still open

	// held is until when the collector does not want to hear from us. Only the
	// goroutine that sends looks at it.
	held time.Time

	mu     sync.Mutex
	closed bool
	tree   tree
	lost   int
	reason *problem // the first
}

// problem says why spans were lost, and what to do about it.
type problem struct {
	what, hint string
	passing    bool // it may work later
}

// Start starts an exporter. It is nil for a trace that is not sampled. The root's
// span begins here; an end of an agent with an empty execution id, handed to
// [Exporter.Sink], says what became of it.
func Start(cfg Config) *Exporter {
	return start(cfg, &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1})
}

func start(cfg Config, transport http.RoundTripper) *Exporter {
	if !cfg.Trace.Sampled() {
		return nil
	}
	if cfg.Began.IsZero() {
		cfg.Began = time.Now()
	}
	x := &Exporter{
		cfg: cfg, wrap: newEnvelope(cfg), tree: newTree(cfg.Trace, cfg.Began),
		client: &http.Client{
			Transport: transport,
			// The headers are secrets of one collector and no other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		queue: make(chan *span, maxQueue), done: make(chan struct{}), closing: make(chan struct{}),
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	go x.run()
	return x
}

// Sink is an [event.Sink].
func (x *Exporter) Sink(e event.Event) {
	if x == nil || e.Type == event.Token {
		return
	}
	if dropped := x.take(e); dropped > 0 {
		x.lose(dropped, &problem{what: "they came faster than the collector took them", hint: "the collector is slow or hangs; the run itself lost nothing"})
	}
}

// take puts the spans that are whole with e into the queue, and counts those that
// do not fit.
func (x *Exporter) take(e event.Event) (dropped int) {
	if e.TS.IsZero() {
		e.TS = time.Now()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return 0
	}
	spans, dropped := x.tree.take(e)
	for _, s := range spans {
		select {
		case x.queue <- s:
		default:
			dropped++
		}
	}
	return dropped
}

// Close ends the spans that are open as interrupted, but for that of a root whose
// end was told, and sends what is left for as long as the timeout and ctx allow.
// Its error is a warning to a person: how many spans were lost and why.
func (x *Exporter) Close(ctx context.Context) error {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	first := !x.closed
	x.closed = true
	x.mu.Unlock()
	if first {
		x.end(ctx)
	}
	<-x.done
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost == 0 {
		return nil
	}
	return lostError(x.lost, *x.reason)
}

// end lets the sender finish, until its time is over.
func (x *Exporter) end(ctx context.Context) {
	now, within := time.Now(), x.cfg.Timeout
	if within == 0 {
		within = closeTimeout
	}
	x.until = now.Add(within)
	if t, ok := ctx.Deadline(); ok && t.Before(x.until) {
		x.until = t
	}
	x.rest = x.tree.close(now)
	close(x.closing)
	close(x.queue)
	defer context.AfterFunc(ctx, x.cancel)()
	defer time.AfterFunc(within, x.cancel).Stop()
	<-x.done
	x.cancel()
	x.client.CloseIdleConnections()
}

// run sends what is in the queue, until that is closed.
func (x *Exporter) run() {
	defer close(x.done)
	batch := make([]*span, 0, maxBatch)
	var due <-chan time.Time
	for {
		select {
		case s, ok := <-x.queue:
			if !ok {
				for rest := range slices.Chunk(append(batch, x.rest...), maxBatch) {
					x.send(rest)
				}
				return
			}
			if batch = append(batch, s); len(batch) == 1 {
				due = time.After(interval)
			}
			if len(batch) < maxBatch {
				continue
			}
		case <-due:
		}
		x.send(batch)
		clear(batch)
		batch, due = batch[:0], nil
	}
}

// send posts spans, twice if the collector says that it may work later.
func (x *Exporter) send(spans []*span) {
	why := late()
	var body []byte
	for range 2 {
		if !x.wait() {
			break
		}
		if body == nil {
			var err error
			if body, err = x.wrap.encode(spans); err != nil {
				why = &problem{what: err.Error(), hint: "this is a fault of qq"}
				break
			}
		}
		var rejected int
		if rejected, why = x.post(body); why == nil || rejected > 0 {
			x.lose(rejected, why)
			return
		}
		if !why.passing {
			break
		}
	}
	x.lose(len(spans), why)
}

// lose counts spans that are gone.
func (x *Exporter) lose(n int, why *problem) {
	if n == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost += n; x.reason == nil {
		x.reason = why
	}
}

// wait lets the time pass for which the collector wants to be left alone. It
// reports false when there is not that much time any more.
func (x *Exporter) wait() bool {
	timer := time.NewTimer(time.Until(x.held))
	defer timer.Stop()
	for closing := x.closing; ; {
		select {
		case <-timer.C:
			return x.ctx.Err() == nil
		case <-x.ctx.Done():
			return false
		case <-closing:
			if x.held.After(x.until) {
				return false
			}
			closing = nil
		}
	}
}

// late is the reason for which there is no more time.
func late() *problem {
	return &problem{what: "the collector did not take them in time", hint: "the collector is slow or hangs; OTEL_EXPORTER_OTLP_TIMEOUT allows more, in milliseconds"}
}

// lostError is the one line with its hint.
func lostError(n int, p problem) error {
	spans := "spans were"
	if n == 1 {
		spans = "span was"
	}
	return errors.New("trace: " + strconv.Itoa(n) + " " + spans + " not exported: " + p.what + "\nhint: " + p.hint)
}
