package trace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"qq/pkg/task"
)

// The JSON of OTLP: ids in hex, enums as numbers, 64-bit numbers as texts, names
// in camel case. Of its messages there is what a span here can have.

// envelope is what all requests have in common.
type envelope struct {
	resource json.RawMessage
	scope    json.RawMessage
}

func newEnvelope(cfg Config) envelope {
	all := maps.Clone(cfg.Attributes)
	if all == nil {
		all = map[string]string{}
	}
	if cfg.ServiceName != "" {
		all["service.name"] = cfg.ServiceName
	}
	if all["service.name"] == "" {
		all["service.name"] = "qq"
	}
	all["service.version"] = cfg.Version
	var attributes []attribute
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if all[k] != "" {
			attributes = append(attributes, attribute{Key: k, Value: value{String: all[k]}})
		}
	}
	resource, _ := json.Marshal(struct { // texts only: it cannot fail
		Attributes []attribute `json:"attributes"`
	}{attributes})
	scope, _ := json.Marshal(struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}{"qq", cfg.Version})
	return envelope{resource, scope}
}

// encode is an ExportTraceServiceRequest.
func (w envelope) encode(spans []*span) ([]byte, error) {
	list, err := json.Marshal(spans)
	if err != nil {
		return nil, fmt.Errorf("encode spans: %w", err)
	}
	return fmt.Appendf(nil, `{"resourceSpans":[{"resource":%s,"scopeSpans":[{"scope":%s,"spans":%s}]}]}`, w.resource, w.scope, list), nil
}

const (
	kindInternal = 1
	statusError  = 2
)

type span struct {
	TraceID       string      `json:"traceId"`
	SpanID        string      `json:"spanId"`
	ParentSpanID  string      `json:"parentSpanId,omitempty"`
	Name          string      `json:"name"`
	Kind          int         `json:"kind"`
	Start         int64       `json:"startTimeUnixNano,string"`
	End           int64       `json:"endTimeUnixNano,string"`
	Attributes    []attribute `json:"attributes,omitempty"`
	Events        []moment    `json:"events,omitempty"`
	DroppedEvents int         `json:"droppedEventsCount,omitempty"`
	Status        status      `json:"status,omitzero"`
}

type moment struct {
	Time       int64       `json:"timeUnixNano,string"`
	Name       string      `json:"name"`
	Attributes []attribute `json:"attributes,omitempty"`
}

type status struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code,omitempty"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

// value is one of its fields.
type value struct {
	String string `json:"stringValue,omitempty"`
	Int    string `json:"intValue,omitempty"`
	Bool   bool   `json:"boolValue,omitempty"`
}

func text(key, s string) attribute { return attribute{Key: key, Value: value{String: name(s)}} }

func number(key string, n int) attribute {
	return attribute{Key: key, Value: value{Int: strconv.Itoa(n)}}
}

// begin opens a span.
func (t *tree) begin(id, parent, name string, at time.Time) *span {
	return &span{TraceID: t.id, SpanID: id, ParentSpanID: parent, Name: name, Kind: kindInternal, Start: at.UnixNano()}
}

// set gives s an attribute, in the place of one with the same key.
func (s *span) set(a attribute) {
	if i := slices.IndexFunc(s.Attributes, func(b attribute) bool { return a.Key == b.Key }); i >= 0 {
		s.Attributes[i] = a
		return
	}
	s.Attributes = append(s.Attributes, a)
}

// text sets an attribute unless it is empty.
func (s *span) text(key, v string) {
	if v != "" {
		s.set(text(key, v))
	}
}

func (s *span) number(key string, n int) { s.set(number(key, n)) }

// end sets the end, which is not before the start: the clock may have been set.
func (s *span) end(at time.Time) { s.End = max(at.UnixNano(), s.Start) }

// fail marks s as failed, in one word.
func (s *span) fail(kind string) {
	s.Status = status{Message: kind, Code: statusError}
	s.text("error.type", kind)
}

// moment notes an event of s.
func (s *span) moment(at time.Time, name string, about ...attribute) {
	if len(s.Events) == maxMoments {
		s.DroppedEvents++
		return
	}
	s.Events = append(s.Events, moment{at.UnixNano(), name, about})
}

// name is a name that came from elsewhere, within bounds.
func name(s string) string { return printable(s, maxName) }

// printable is at most n characters of s, without a look at the rest of a long one.
func printable(s string, n int) string {
	if most := 8 * n; len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return task.Shorten(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s), n)
}
