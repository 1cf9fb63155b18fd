package web

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"qq/internal/standin"
	"qq/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSpecs(t *testing.T) {
	set := Tools(Config{Search: Search{Engine: searxng, URL: "http://127.0.0.1:1"}})
	assert.Equal(t, []string{"web_fetch", "web_search"}, set.Names())
	assert.Equal(t, []string{"web_fetch"}, Tools(Config{}).Names(), "no engine, no tool")
	for _, s := range set.Specs() {
		assert.Equal(t, tool.Network, s.Effect)
	}
}

// A proxy would make the connections where the guard does not see them.
func TestNoProxy(t *testing.T) {
	transport := newClient(guard{}).Transport.(*http.Transport)
	assert.Nil(t, transport.Proxy)
}

// serve starts a server on loopback and returns the tools that may reach it.
func serve(t testing.TB, h http.HandlerFunc) (*httptest.Server, tool.Set) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv, Tools(Config{AllowHosts: []string{hostOf(srv)}, Version: "test"})
}

func hostOf(srv *httptest.Server) string { return srv.Listener.Addr().String() }

// send is a handler that answers with one text.
func send(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	}
}

func fetch(t testing.TB, set tool.Set, url string) tool.Result {
	t.Helper()
	return standin.CallTool(t, set, "web_fetch", standin.Args("url", url))
}

// names is a resolver in which a name has the addresses of a list, one list for
// each time that it is asked, the last one for ever.
type names struct {
	mu    sync.Mutex
	lists map[string][][]string
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe() // no packets: the resolver talks as it does over TCP
		go func() {
			defer server.Close()
			for n.answer(server) == nil {
				continue
			}
		}()
		return client, nil
	}}
}

func (n *names) answer(c net.Conn) error {
	var size uint16
	if err := binary.Read(c, binary.BigEndian, &size); err != nil {
		return err
	}
	buf := make([]byte, size)
	if _, err := io.ReadFull(c, buf); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(buf); err != nil {
		return err
	}
	m.Response, m.Additionals = true, nil
	q := m.Questions[0]
	found, ok := n.take(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")), q.Type)
	if !ok {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range found {
		h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: record(a)})
	}
	packed, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = io.Copy(c, io.MultiReader(bytes.NewReader(binary.BigEndian.AppendUint16(nil, uint16(len(packed)))),
		bytes.NewReader(packed)))
	return err
}

func record(a netip.Addr) dnsmessage.ResourceBody {
	if a.Is4() {
		return &dnsmessage.AResource{A: a.As4()}
	}
	return &dnsmessage.AAAAResource{AAAA: a.As16()}
}

// take returns the addresses of a name of one type. A question for IPv4 goes on
// to the next list.
func (n *names) take(name string, kind dnsmessage.Type) (found []netip.Addr, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lists, ok := n.lists[name]
	if !ok {
		return nil, false
	}
	for _, s := range lists[0] {
		if a := netip.MustParseAddr(s); a.Is4() == (kind == dnsmessage.TypeA) {
			found = append(found, a)
		}
	}
	if kind == dnsmessage.TypeA && len(lists) > 1 {
		n.lists[name] = lists[1:]
	}
	return found, true
}

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	require.NoError(t, err)
	return u
}
