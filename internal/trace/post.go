package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"qq/pkg/llm"
)

const (
	maxAnswer = 64 << 10    // bytes of an answer that are read
	pause     = time.Second // before a repetition, when the collector does not say
)

// post sends one request. Without a problem the collector has taken all spans;
// with some that it rejected, the others.
func (x *Exporter) post(body []byte) (rejected int, why *problem) {
	within := x.cfg.Timeout
	if within == 0 {
		within = requestTimeout
	}
	ctx, cancel := context.WithTimeout(x.ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, unreachable(err)
	}
	for k, v := range x.cfg.Headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "qq/"+x.cfg.Version)
	resp, err := x.client.Do(req)
	if err != nil {
		return 0, unreachable(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return partial(answer) // an answer that broke off said that they were taken
	}
	if err != nil {
		return 0, unreachable(err)
	}
	why = refused(resp.StatusCode)
	if why.passing {
		now := time.Now()
		after, said := llm.RetryAfter(resp.Header.Get("Retry-After"), now)
		if !said {
			after = pause
		}
		x.held = now.Add(after)
	}
	return 0, why
}

// partial reads how many spans the collector rejected of a request that it took.
func partial(answer []byte) (rejected int, why *problem) {
	var said struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"` // a number or, as 64-bit numbers are, a text
			ErrorMessage  string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &said) != nil {
		return 0, nil // many collectors answer with nothing, or with what they like
	}
	n, err := strconv.Atoi(string(said.PartialSuccess.RejectedSpans))
	if err != nil || n <= 0 {
		return 0, nil
	}
	return min(n, maxBatch), &problem{
		what: "the collector rejected them: " + printable(said.PartialSuccess.ErrorMessage, 200), hint: "its log may say more",
	}
}

// refused says what an HTTP status means.
func refused(code int) *problem {
	p := &problem{what: fmt.Sprintf("the collector answered %d %s", code, http.StatusText(code))}
	switch {
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway,
		code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		p.passing, p.hint = true, "it is busy or starting; the run itself lost nothing"
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		p.hint = "OTEL_EXPORTER_OTLP_HEADERS has to say who you are, such as authorization=Bearer%20TOKEN"
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code/100 == 3:
		p.hint = "/v1/traces is added to OTEL_EXPORTER_OTLP_ENDPOINT; OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is used as it is"
	case code == http.StatusBadRequest, code == http.StatusUnsupportedMediaType:
		p.hint = "the collector must accept OTLP as JSON over HTTP (http/json)"
	default:
		p.hint = "its log may say more"
	}
	return p
}

// unreachable says why there was no answer. The URL is left out: it may hold a
// password.
func unreachable(err error) *problem {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return late()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &problem{
		what: "send to the collector: " + printable(err.Error(), 200),
		hint: "is it running, and is OTEL_EXPORTER_OTLP_ENDPOINT its address for HTTP (usually port 4318; 4317 is gRPC)?",
	}
}
