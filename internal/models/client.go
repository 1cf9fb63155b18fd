package models

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ollama/ollama/auth"
	"github.com/ollama/ollama/envconfig"

	"qq/internal/models/dialect"
	"qq/internal/models/servers"
	"qq/internal/models/wire"
)

// Client talks to one model server. It is safe for use by several goroutines.
type Client struct {
	server    servers.Server
	key       string
	base      *url.URL
	dialect   dialect.Dialect
	transport *wire.Transport
}

// New returns a client for the Ollama server at host, in the syntax of OLLAMA_HOST; empty means the
// default. It does not connect yet.
func New(host string) (*Client, error) {
	return Open(servers.Server{Name: servers.Ollama, Kind: servers.Ollama, URL: host}, "")
}

// Open returns a client for the server s. key is that of the user; empty means none. It does not connect yet.
func Open(s servers.Server, key string) (*Client, error) {
	base, err := s.Address()
	if err != nil {
		return nil, err
	}
	d, err := dialectOf(s, base)
	if err != nil {
		return nil, err
	}
	return &Client{server: s, key: key, base: base, dialect: d, transport: wire.NewTransport(base)}, nil
}

// Server returns the server.
func (c *Client) Server() servers.Server { return c.server }

// Host returns the URL of the server.
func (c *Client) Host() string { return c.base.String() }

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// sign returns the URL of path at the server and the header for a request to it. As Ollama's own
// client does, it signs requests to ollama.com with the user's key, and to any Ollama server if
// OLLAMA_AUTH is set.
func (c *Client) sign(ctx context.Context, method, path string) (string, http.Header, error) {
	header := http.Header{"User-Agent": {"qq"}, "Accept": {"application/json, text/event-stream"}}
	if c.server.Kind == servers.Ollama {
		header.Set("Accept", "application/x-ndjson")
	}
	below := strings.Trim(c.base.Path, "/") // that of an Ollama server has no slash before it
	u, err := c.base.Parse("/" + strings.TrimPrefix(below+"/"+path, "/"))
	if err != nil {
		return "", nil, err
	}
	if c.key != "" {
		c.dialect.Authorize(header, c.key)
	}
	switch {
	case c.server.Kind == servers.Anthropic:
		header.Set("Anthropic-Version", "2023-06-01")
	case c.server.Kind != servers.Ollama:
	case envconfig.UseAuth() || c.base.Hostname() == "ollama.com":
		u.RawQuery = "ts=" + strconv.FormatInt(time.Now().Unix(), 10)
		token, err := auth.Sign(ctx, fmt.Appendf(nil, "%s,/%s?%s", method, path, u.RawQuery))
		header.Set("Authorization", token)
		return u.String(), header, err
	}
	return u.String(), header, nil
}
