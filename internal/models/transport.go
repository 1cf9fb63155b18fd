package models

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"qq/pkg/llm"
)

const (
	// maxErrorBody is how much of an error page is read.
	maxErrorBody = 64 << 10
	// maxReply bounds a reply that is read at once (a list, a description).
	maxReply = 32 << 20
	// maxLine bounds one line of a stream.
	maxLine = 16 << 20
)

// newTransport is a transport for one server that speaks HTTP/1.1: no proxy on
// the way to this machine, few idle connections, and no limit on how long a
// server thinks before it answers (it may be loading a model).
func newTransport(base *url.URL) *http.Transport {
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
	return t
}

// statusError is a reply with a status that is not success.
type statusError struct {
	status     int
	message    string // what the server says, on one line
	retryAfter time.Duration
}

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d: %s", e.status, e.message)
}

// trip carries one request for the API client and reads the reply in its place
// where the client does badly: it takes an error status with an empty body for
// success, hides headers, and reads a stream into a new buffer of 8 MB (2 ms
// where a short chat takes 0.3) without telling one that broke from one that
// ended. So every status that is not success becomes an error, and a stream is
// read here, after which the client gets errRead instead of a response.
type trip struct {
	next    http.RoundTripper
	stream  func(io.Reader) error // reads the body, or nil to leave that to the client
	replied bool                  // with a status of success
	readErr error                 // why the body could not be read to its end
}

var _ http.RoundTripper = (*trip)(nil)

// errRead stands for a response whose body has been read.
var errRead = errors.New("stream has been read")

// RoundTrip implements [http.RoundTripper].
func (t *trip) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, newStatusError(resp)
	}
	t.replied = true
	if t.stream != nil {
		defer resp.Body.Close()
		t.readErr = t.stream(resp.Body)
		return nil, errRead
	}
	resp.Body = &notedBody{ReadCloser: resp.Body, trip: t}
	return resp, nil
}

// notedBody is a body of bounded length that notes why reading failed.
type notedBody struct {
	io.ReadCloser
	trip *trip
	n    int
}

func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.n += n; b.n > maxReply {
		err = fmt.Errorf("reply is longer than %d bytes", maxReply)
	}
	if err != nil && err != io.EOF {
		b.trip.readErr = err
	}
	return n, err
}

func newStatusError(resp *http.Response) *statusError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what came of it will do
	e := &statusError{status: resp.StatusCode, message: errorMessage(body)}
	e.retryAfter, _ = llm.RetryAfter(resp.Header.Get("Retry-After"), time.Now())
	if location := resp.Header.Get("Location"); location != "" && resp.StatusCode < 400 {
		e.message = "it redirects to " + oneLine(location)
	}
	if e.message == "" {
		e.message = strings.ToLower(http.StatusText(resp.StatusCode))
	}
	return e
}

// errorMessage finds what an error body says: the "error" of a JSON object, a
// plain text, or nothing when it is a page.
func errorMessage(body []byte) string {
	var reply struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &reply) == nil {
		var text string
		if json.Unmarshal(reply.Error, &text) == nil {
			return oneLine(text)
		}
		return oneLine(string(reply.Error))
	}
	if text := strings.TrimSpace(string(body)); !strings.HasPrefix(text, "<") {
		return oneLine(text)
	}
	return ""
}
