package trace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"qq/pkg/task"
)

const (
	postTimeout = 5 * time.Second
	maxAnswer   = 64 << 10 // bytes of the collector's answer that are read
)

// The JSON of OTLP has ids in hexadecimal digits, numbers for enums, texts for
// 64-bit numbers, and names in camel case.

const (
	kindInternal = 1
	statusError  = 2
)

type span struct {
	TraceID    string     `json:"traceId"`
	ID         string     `json:"spanId"`
	ParentID   string     `json:"parentSpanId,omitempty"`
	Name       string     `json:"name"`
	Kind       int        `json:"kind"`
	Start      int64      `json:"startTimeUnixNano,string"`
	End        int64      `json:"endTimeUnixNano,string"` // 0 while it is open
	Attributes attributes `json:"attributes,omitempty"`
	Events     []moment   `json:"events,omitempty"`
	LostEvents int        `json:"droppedEventsCount,omitempty"`
	Status     status     `json:"status,omitzero"`
}

type moment struct {
	Time       int64      `json:"timeUnixNano,string"`
	Name       string     `json:"name"`
	Attributes attributes `json:"attributes,omitempty"`
}

type status struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code,omitempty"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

// value is the value of an attribute; exactly one field is set.
type value struct {
	String string `json:"stringValue,omitempty"`
	Int    string `json:"intValue,omitempty"`
	Bool   bool   `json:"boolValue,omitempty"`
}

// attributes is a list of attributes with distinct keys.
type attributes []attribute

func (a *attributes) put(key string, v value) {
	if i := slices.IndexFunc(*a, func(b attribute) bool { return b.Key == key }); i >= 0 {
		(*a)[i].Value = v
		return
	}
	*a = append(*a, attribute{key, v})
}

// text adds a string attribute, unless s is empty.
func (a *attributes) text(key, s string) {
	if s != "" {
		a.put(key, value{String: printable(s, maxName)})
	}
}

func (a *attributes) number(key string, n int) { a.put(key, value{Int: strconv.Itoa(n)}) }

// count adds an integer attribute, unless n is 0.
func (a *attributes) count(key string, n int) {
	if n != 0 {
		a.number(key, n)
	}
}

// body returns the JSON of the request, an ExportTraceServiceRequest.
func (x *Exporter) body() ([]byte, error) {
	var resource attributes
	resource.put("service.name", value{String: cmp.Or(x.cfg.ServiceName, x.cfg.Attributes["service.name"], "qq")})
	resource.text("service.version", cmp.Or(x.cfg.Version, x.cfg.Attributes["service.version"]))
	for _, k := range slices.Sorted(maps.Keys(x.cfg.Attributes)) {
		if v := x.cfg.Attributes[k]; v != "" && k != "service.name" && k != "service.version" {
			resource.put(k, value{String: v})
		}
	}
	type object = map[string]any
	return json.Marshal(object{"resourceSpans": []object{{
		"resource": object{"attributes": resource},
		"scopeSpans": []object{{
			"scope": object{"name": "qq", "version": x.cfg.Version},
			"spans": x.spans,
		}},
	}}})
}

// send posts all spans in one request. It returns how many of them the collector did not accept, and why; 0 and nil
// if it accepted all.
func (x *Exporter) send(ctx context.Context) (lost int, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(x.cfg.Timeout, postTimeout))
	defer cancel()
	body, err := x.body()
	if err != nil {
		return len(x.spans), task.Hinted("this is a fault of qq", "encode spans: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return len(x.spans), unreachable(err)
	}
	for k, v := range x.cfg.Headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "qq/"+x.cfg.Version)
	client := http.Client{
		Transport: x.transport,
		// No redirect is followed, because the headers are secrets for this collector alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return len(x.spans), unreachable(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return rejected(answer) // even if the answer broke off
	}
	if err != nil {
		return len(x.spans), unreachable(err)
	}
	return len(x.spans), refused(resp.StatusCode)
}

// rejected reads from the answer of a collector that accepted the request how many spans it rejected all the same,
// and why. An answer that says nothing of that gives 0 and nil.
func rejected(answer []byte) (lost int, err error) {
	var said struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"` // a number, or a text as 64-bit numbers are
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
	return min(n, maxSpans), task.Hinted("its log may say more",
		"the collector rejected them: %s", printable(said.PartialSuccess.ErrorMessage, 200))
}

// refused returns the error for an HTTP status other than success, with a hint.
func refused(code int) error {
	hint := "its log may say more"
	switch {
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway,
		code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		hint = "it is busy or starting; the run itself lost nothing"
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		hint = "OTEL_EXPORTER_OTLP_HEADERS has to say who you are, such as authorization=Bearer%20TOKEN"
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code/100 == 3:
		hint = "/v1/traces is added to OTEL_EXPORTER_OTLP_ENDPOINT; OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is used as it is"
	case code == http.StatusBadRequest, code == http.StatusUnsupportedMediaType:
		hint = "the collector must accept OTLP as JSON over HTTP (http/json)"
	}
	return task.Hinted(hint, "the collector answered %d %s", code, http.StatusText(code))
}

// unreachable returns the error for a collector that did not answer. It leaves the URL
// out, which may contain a password.
func unreachable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return task.Hinted("the collector is slow or hangs; OTEL_EXPORTER_OTLP_TIMEOUT allows more, in milliseconds",
			"the collector did not take them in time")
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return task.Hinted("is it running, and is OTEL_EXPORTER_OTLP_ENDPOINT its address for HTTP (usually port "+
		"4318; 4317 is gRPC)?",
		"send to the collector: %s", printable(err.Error(), 200))
}

// printable returns at most n characters of s, on one line.
func printable(s string, n int) string {
	return task.Shorten(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s), n)
}
