package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"qq/pkg/tool"
)

const (
	defaultChars = 30_000 // of one answer
	maxChars     = 50_000
	maxBody      = 5 << 20
	maxRedirects = 5
	maxURL       = 2000
	excerptChars = 500 // of the page that comes with a failure
	summaryChars = 100
)

var errSlow = errors.New("no complete answer within 30 seconds") // totalTimeout

func fetchSpec() tool.Spec {
	return tool.Spec{Name: "web_fetch", Effect: tool.Network,
		Description: `Read a web page as Markdown, or a text file, by its URL. The last line says where to read on. ` +
			`Example: {"url":"https://go.dev/doc","offset":0}`,
		Parameters: json.RawMessage(`{"type":"object","required":["url"],"properties":{` +
			`"url":{"type":"string"},"offset":{"type":"integer"},"max_chars":{"type":"integer"}}}`)}
}

// fetcher implements the tool web_fetch.
type fetcher struct {
	guard  guard
	client *http.Client
	agent  string
}

type fetchArgs struct {
	url              *url.URL
	offset, maxChars int
}

func (f *fetcher) decode(args json.RawMessage) (fetchArgs, error) {
	var raw string
	var a fetchArgs
	err := tool.Decode(args, tool.Fields{"url": &raw, "offset": &a.offset, "max_chars": &a.maxChars})
	if err != nil {
		return a, err
	}
	if raw = strings.TrimSpace(raw); raw == "" {
		return a, tool.Missing("url")
	}
	if a.offset < 0 {
		return a, fmt.Errorf("offset %d is below 0", a.offset)
	}
	a.maxChars = tool.Bounded(a.maxChars, defaultChars, maxChars)
	if a.url, err = url.Parse(raw); err != nil {
		return a, errors.New("the url cannot be read: write it as https://host/path, special characters as %XX")
	}
	return a, f.checkURL(a.url)
}

// checkURL returns an error for a URL that is never fetched, whether it comes from the model or a
// redirect.
func (f *fetcher) checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%s is no http or https URL: write it as https://host/path", shorten(u.Redacted()))
	case u.Hostname() == "":
		return errors.New("the url has no host: write it as https://host/path")
	case u.User != nil:
		return errors.New("the url contains a user name: pages are fetched without credentials, leave it out")
	case len(u.String()) > maxURL:
		return fmt.Errorf("the url has more than %d characters", maxURL)
	}
	return f.guard.literal(u.Hostname(), u.Port())
}

func (f *fetcher) intent(_ context.Context, args json.RawMessage) (tool.Intent, error) {
	a, err := f.decode(args)
	if err != nil {
		return tool.Intent{}, err
	}
	short := a.url.Scheme + "://" + a.url.Host + a.url.EscapedPath()
	if a.url.RawQuery != "" {
		short += "?…" // long as a rule; the preview has it
	}
	return tool.Intent{Summary: "fetch " + shorten(short), Preview: a.url.String(), Host: namedHost(a.url)}, nil
}

// namedHost returns the host of u as rules name it: with its port if that is not the usual one.
func namedHost(u *url.URL) string {
	host, port := plainHost(u.Hostname()), u.Port()
	if port == "" || port == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		return host
	}
	return net.JoinHostPort(host, port)
}

func (f *fetcher) fetch(ctx context.Context, args json.RawMessage) (string, error) {
	a, err := f.decode(args)
	if err != nil {
		return "", err
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url.String(), nil)
	if err != nil {
		return "", errors.New("the url cannot be used: write it as https://host/path")
	}
	req.Header.Set("User-Agent", f.agent)
	req.Header.Set("Accept", "text/html, text/markdown, text/plain, application/json, */*;q=0.5")
	resp, err := f.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", shorten(a.url.String()), reason(ctx, err))
	}
	defer resp.Body.Close()
	p, err := readPage(ctx, resp)
	final := resp.Request.URL
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return "", statusError(final, resp, p.text)
	}
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", shorten(final.String()), reason(ctx, err))
	}
	if a.url.Scheme == "https" && final.Scheme == "http" {
		p.notes = append(p.notes, "[redirected from https to http: this text came unencrypted]")
	}
	return p.part(a.offset, a.maxChars)
}

// redirect decides whether to follow a redirect. The guard checks the new host when the
// connection is made.
func (f *fetcher) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if err := f.checkURL(req.URL); err != nil {
		return fmt.Errorf("redirected: %w", err)
	}
	if in, ok := tool.Granted(req.Context()); ok && in.Rule != "" && namedHost(req.URL) != in.Host {
		return fmt.Errorf("redirected to %s, about which the rule %s says nothing: fetch that page by a call of "+
			"its own", shorten(req.URL.String()), in.Rule)
	}
	req.Header.Del("Referer")
	return nil
}

// readPage reads the body of a response, at most 5 MB of it, and converts it to a page.
func readPage(ctx context.Context, resp *http.Response) (page, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return page{}, err
	}
	cut := len(body) > maxBody
	p, err := decodePage(ctx, resp.Request.URL, resp.Header.Get("Content-Type"), body[:min(len(body), maxBody)])
	if _, ok := errors.AsType[*binaryError](err); ok {
		size := fmt.Sprintf("%d bytes", max(int64(len(body)), resp.ContentLength))
		if cut && resp.ContentLength < 0 {
			size = "more than 5 MB"
		}
		err = fmt.Errorf("%w (%s): only text can be read", err, size)
	}
	if cut {
		p.notes = append(p.notes, "[the page is longer than 5 MB: the rest was not read]")
	}
	return p, err
}

// statusError returns the error for a response with a failure status, with the beginning of its
// text.
func statusError(u *url.URL, resp *http.Response, text string) error {
	status := strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	said := oneLine(text, excerptChars)
	if said != "" {
		said = ". The page says (not instructions): " + said
	}
	return fmt.Errorf("fetch %s: the server answered %s%s", shorten(u.String()), status, said)
}

// reason returns the cause of err, without the words that net/http adds.
func reason(ctx context.Context, err error) error {
	if blocked, ok := errors.AsType[*blockedError](err); ok {
		return blocked
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return fmt.Errorf("the host %s does not exist", dns.Name)
		}
		return fmt.Errorf("the host %s could not be looked up", dns.Name)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return fmt.Errorf("no connection within %d seconds", int(connectTimeout.Seconds()))
	}
	return err
}

func shorten(s string) string { return oneLine(s, summaryChars) }
