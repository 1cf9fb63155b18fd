// Package wire carries chat requests to model servers over HTTP, for every
// dialect: it posts them, classifies what goes wrong as a [Fault], and reads
// a [Stream] line by line ([Lines]) or event by event ([Events]).
//
// A dialect writes the request, decodes what the stream contains, and puts a Fault into words for its users.
//
// Promises: a reply with a status other than success is a Fault and never a
// stream; a redirect is not followed, because it could lead a conversation to a
// server that nobody named; a line is read up to a limit. Not promised: that a
// stream is complete. Only the dialect knows what its last line looks like.
package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"qq/pkg/llm"
)

const (
	// maxErrorBody is how many bytes of an error page are read.
	maxErrorBody = 64 << 10
	// MaxReply bounds a reply that is read as a whole (a list, a description), in bytes.
	MaxReply = 32 << 20
)

// Fault says why a request failed, in terms of HTTP.
type Fault struct {
	// Kind is Unreachable when no reply came, BrokenStream when it broke off, and
	// Rejected without a Status when there is no secure connection. Otherwise the
	// Status decides.
	Kind       llm.Kind
	Status     int           // 0 without one
	RetryAfter time.Duration // what the server asked for
	Allowed    llm.Allowance // what it says about further requests
	Text       string        // what the server said, or the innermost error; one line
	Param      string        // the field of the request that is wrong, if the server says it
	BadKey     bool          // the server says that it does not know the key, though not by its status
	Err        error         // the cause, or nil
}

func (f *Fault) Error() string { return f.Text }
func (f *Fault) Unwrap() error { return f.Err }

// Transport sends HTTP/1.1 requests to one server. It is an [http.RoundTripper] for replies of
// bounded length; Post returns a stream.
type Transport struct {
	http *http.Transport
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a transport for the server at base. It uses no proxy for this machine,
// keeps few idle connections, and does not limit how long the server takes to answer, because it
// may be loading a model.
func NewTransport(base *url.URL) *Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		Protocols:              protocols,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		TLSHandshakeTimeout:    10 * time.Second,
		DisableCompression:     true,
		MaxIdleConns:           4,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxErrorBody,
	}
	if !isLoopback(base) {
		t.Proxy = http.ProxyFromEnvironment
	}
	return &Transport{t}
}

// isLoopback reports whether u is an address of this machine.
func isLoopback(u *url.URL) bool {
	host := u.Hostname()
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// CloseIdleConnections closes connections that no request uses.
func (t *Transport) CloseIdleConnections() { t.http.CloseIdleConnections() }

// RoundTrip implements [http.RoundTripper]. A reply with a status other than success is a [Fault]. Reading the body
// fails with a Fault too, also when the body is longer than [MaxReply] bytes.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.send(req, MaxReply)
}

// Stream is RoundTrip for a reply of any length.
func (t *Transport) Stream(req *http.Request) (*http.Response, error) { return t.send(req, -1) }

// Reply is the beginning of a successful reply.
type Reply struct {
	io.ReadCloser
	Allowed llm.Allowance // what the server says about further requests
}

// Post sends body to u and returns the body of the answer as a stream. An error while reading it is a [Fault]. The
// caller must close the stream. When ctx ends, the stream ends too.
func (t *Transport) Post(ctx context.Context, u string, header http.Header, body []byte) (Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u, bytes.NewReader(body))
	if err != nil {
		return Reply{}, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.send(req, -1)
	if err != nil {
		return Reply{}, err
	}
	return Reply{resp.Body, allowanceOf(resp.Header, time.Now())}, nil
}

// send sends req. At most limit bytes of the reply can be read; -1 means no limit.
func (t *Transport) send(req *http.Request, limit int) (*http.Response, error) {
	resp, err := t.http.RoundTrip(req)
	if err != nil {
		return nil, connectFault(err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, statusFault(resp)
	}
	resp.Body = &reply{resp.Body, limit}
	return resp, nil
}

// reply is the body of a successful reply. Its errors other than io.EOF are Faults.
type reply struct {
	io.ReadCloser
	left int // bytes that may still come; -1 means no limit
}

func (r *reply) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.left >= 0 {
		if r.left -= n; r.left < 0 {
			r.left = 0
			err = fmt.Errorf("reply is longer than %d bytes", MaxReply)
		}
	}
	if err != nil && err != io.EOF {
		err = &Fault{Kind: llm.BrokenStream, Text: innermost(err), Err: err}
	}
	return n, err
}

func connectFault(err error) *Fault {
	f := &Fault{Kind: llm.Unreachable, Text: innermost(err), Err: err}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	if _, record := errors.AsType[tls.RecordHeaderError](err); certificate || record {
		f.Kind = llm.Rejected
	}
	return f
}

func statusFault(resp *http.Response) *Fault {
	now := time.Now()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a part of the page is enough
	f := &Fault{Kind: llm.KindOf(resp.StatusCode), Status: resp.StatusCode, Text: errorMessage(body)}
	f.Allowed = allowanceOf(resp.Header, now)
	f.RetryAfter = retryAfter(resp.Header, resp.StatusCode, f.Allowed, now)
	f.describe(body)
	if d := untilReset(resp.Header, now); f.Kind == llm.Busy && d > 0 && f.RetryAfter == 0 {
		if f.RetryAfter = min(d, time.Hour); d > longestPace {
			f.Kind = llm.Quota
		}
	}
	if location := resp.Header.Get("Location"); location != "" && resp.StatusCode < 400 {
		f.Text = "it redirects to " + llm.OneLine(location)
	}
	if f.Text == "" {
		f.Text = strings.ToLower(http.StatusText(resp.StatusCode))
	}
	return f
}

// errorObject is how servers describe an error. All fields are optional.
type errorObject struct {
	Message json.RawMessage `json:"message"` // a text; of Mistral sometimes an object
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"`  // a word or a number
	Param   string          `json:"param"` // the field of the request that is wrong
	Details []struct {      // of Gemini
		Reason     string `json:"reason"`
		RetryDelay string `json:"retryDelay"`
		Violations []struct {
			QuotaID string `json:"quotaId"`
		} `json:"violations"`
	} `json:"details"`
}

// describe reads what body, the body of a failure, says about the error beside its text. Most servers say it in an
// object called error; Mistral and old versions of vLLM say it at the top.
func (f *Fault) describe(body []byte) {
	var reply struct {
		Error errorObject `json:"error"`
		errorObject
	}
	_ = json.Unmarshal(body, &reply) // what has another type than expected stays empty
	for _, e := range [...]*errorObject{&reply.Error, &reply.errorObject} {
		f.Param = cmp.Or(f.Param, e.Param)
		code := ""
		_ = json.Unmarshal(e.Code, &code) // else it is a number
		f.class(e.Type, code)
		for _, d := range e.Details {
			f.BadKey = f.BadKey || d.Reason == "API_KEY_INVALID"
			if f.Status != http.StatusTooManyRequests {
				continue
			}
			if after, ok := resetAfter(d.RetryDelay); ok && f.RetryAfter == 0 {
				f.RetryAfter = min(after, time.Hour)
			}
			for _, v := range d.Violations {
				if strings.Contains(v.QuotaID, "PerDay") {
					f.Kind = llm.Quota
				}
			}
		}
	}
}

// class adjusts the kind to the type or the code of the error: a server that wants fewer requests may mean that a quota
// is used up, and one that rejects a request that its prompt is too long.
func (f *Fault) class(words ...string) {
	for _, word := range words {
		switch {
		case f.Status == http.StatusTooManyRequests && llm.IsQuota(word):
			f.Kind = llm.Quota
		case llm.IsOverflow(word):
			f.Kind = llm.ContextOverflow
		}
	}
}

// errorMessage extracts the message of an error body: the "error" of a JSON object, or the "message" in that, or the
// "message" or "detail" at the top, or a plain text. For an HTML page it returns "".
func errorMessage(body []byte) string {
	var reply struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"` // Mistral, old versions of vLLM
		Detail  json.RawMessage `json:"detail"`  // servers that are made with FastAPI, such as vLLM
	}
	if json.Unmarshal(body, &reply) != nil {
		if text := strings.TrimSpace(string(body)); !strings.HasPrefix(text, "<") {
			return llm.OneLine(text)
		}
		return ""
	}
	for _, said := range [...]json.RawMessage{reply.Error, reply.Message, reply.Detail} {
		var text string
		if err := json.Unmarshal(said, &text); err == nil && text != "" {
			return llm.OneLine(text)
		}
		var object struct {
			Message  string `json:"message"`
			Metadata struct {
				Raw string `json:"raw"`
			} `json:"metadata"`
		}
		if _ = json.Unmarshal(said, &object); object.Message != "" {
			if raw := object.Metadata.Raw; raw != "" { // what the provider behind OpenRouter said
				object.Message += ": " + raw
			}
			return llm.OneLine(object.Message)
		}
		if len(said) > 0 && string(said) != "null" && string(said) != `""` {
			return llm.OneLine(string(said))
		}
	}
	return ""
}

// innermost returns the text of the innermost error that err wraps. The errors around it would
// repeat the address.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return llm.OneLine(err.Error())
		}
		err = next
	}
}
