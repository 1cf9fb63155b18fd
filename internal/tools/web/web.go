// Package web holds the tools that reach the network: web_fetch reads one page
// as text, web_search asks a search engine that the user configured.
//
// A page goes through five steps, each bounded: the URL is checked, the
// connection is made ([guard]), the body is read (at most 5 MB, after
// decompression), bytes become characters, and HTML becomes Markdown. Of the
// text the model gets a part; the last line says how to read on.
//
// The guard checks each address at the moment of the connection. So the same check applies to names that resolve to
// another address the second time, to redirects, and to numbers written in odd ways. Private addresses are reached
// only under names that the user allowed. The host of the search engine is allowed for searches, and for nothing
// else.
//
// Only the URL or the query and the name of this program are sent: no cookies, no credentials, no Referer. HTTP
// proxies of the environment are not used, because the guard could not check the connections of a proxy. A URL can
// still carry data out. Therefore both tools have the effect network, and the person who is asked before a call
// sees the whole URL or query.
//
// What comes back was written by others. It is labelled as material, so that a
// model is less likely to take it for instructions; a label is no protection.
//
// Not promised: pages that need JavaScript are read as they are sent; each part
// of a long page is a request of its own, so a page that changes may shift; an
// address of this machine that is public is taken for a public one.
package web

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"qq/pkg/tool"
)

const (
	connectTimeout = 10 * time.Second
	totalTimeout   = 30 * time.Second
	maxHeader      = 64 << 10
)

// Config configures the web tools.
type Config struct {
	// AllowHosts lists names (or name:port) that the user allows to lead to private addresses.
	AllowHosts []string
	Search     Search // zero: there is no web_search
	Version    string // of this program, for the User-Agent
}

// Tools returns web_fetch and, if an engine is configured, web_search.
func Tools(cfg Config) tool.Set { return tools(cfg, network{}) }

// network replaces name resolution and connections in tests.
type network struct {
	resolver *net.Resolver
	// passed is called with each address that the guard allows; an error stops the connection.
	passed func(netip.AddrPort) error
}

func tools(cfg Config, nw network) tool.Set {
	agent := "qq/" + cfg.Version
	f := &fetcher{guard: guard{allowed: hostSet(cfg.AllowHosts), network: nw}, agent: agent}
	f.client = newClient(f.guard)
	f.client.CheckRedirect = f.redirect
	set := tool.Set{tool.Function{About: fetchSpec(), Do: tool.TextOnly(f.fetch), Intent: f.intent}}
	if cfg.Search == (Search{}) {
		return set
	}
	s := &searcher{Search: cfg.Search, agent: agent}
	s.client = newClient(guard{allowed: hostSet([]string{s.host()}), network: nw})
	// A redirect would carry the key to another place.
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return append(set, tool.Function{About: searchSpec(), Do: tool.TextOnly(s.search), Intent: s.intent})
}

// newClient returns an HTTP client that connects only where g allows.
func newClient(g guard) *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                  nil, // see the package comment
		DialContext:            g.dial,
		TLSHandshakeTimeout:    connectTimeout,
		MaxResponseHeaderBytes: maxHeader,
		// Calls are rare and to many hosts, so open connections gain nothing. Each
		// call resolves and checks the name again.
		DisableKeepAlives: true,
	}}
}

// limited bounds the time of one call of a tool.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, totalTimeout, errSlow)
}
