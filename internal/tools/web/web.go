// Package web holds the tools that reach the network: web_fetch reads one page
// as text, web_search asks a search engine that the user configured.
//
// A page goes through five steps, each bounded: the URL is checked, the
// connection is made ([guard]), the body is read (at most 5 MB, after
// decompression), bytes become characters, and HTML becomes Markdown. Of the
// text the model gets a part; the last line says how to read on.
//
// The guard looks at each address at the moment at which it is connected to. So
// names that resolve to something else the second time, redirects, and numbers
// written in odd ways all meet the same check. Private addresses are reached
// only under names that the user allowed; the search engine is such a name for
// the searches, and for nothing else.
//
// Nothing of the user goes out but the URL or the query, and the name of this
// program: no cookies, no credentials, no Referer. HTTP proxies of the
// environment are not used, since a proxy would make the connections out of
// sight of the guard. A URL can carry data out all the same: therefore the
// effect of both tools is network, and what is asked before a call shows all of it.
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
