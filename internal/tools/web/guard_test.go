package web

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/standin"
	"qq/pkg/tool"
)

func TestPrivate(t *testing.T) {
	for addr, want := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "9.255.255.255": "", "11.0.0.0": "", "172.15.255.255": "", "172.32.0.0": "",
		"100.63.255.255": "",
		"100.128.0.0":    "", "192.167.255.255": "", "223.255.255.255": "", "198.20.0.0": "",
		"2606:4700::1111": "", "2a00:1450:4001::1": "", "2001:4860:4860::8888": "",
		"::ffff:8.8.8.8": "", "64:ff9b::808:808": "", "2002:808:808::1": "",
		"127.0.0.1": "loopback", "127.255.255.254": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"64:ff9b::7f00:1": "loopback", "2002:7f00:1::": "loopback",
		"10.1.2.3": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.0.1": "private",
		"::ffff:10.0.0.1": "private",
		"64:ff9b::a00:1":  "private", "2002:c0a8:1::1": "private", "fc00::1": "private", "fd12:3456::1": "private",
		"fec0::1":         "private",
		"169.254.169.254": "link-local", "fe80::1": "link-local", "fe80::1%lo": "link-local",
		"2606:4700::1%eth0":  "link-local",
		"64:ff9b::a9fe:a9fe": "link-local", "fd00:ec2::254": "private",
		"100.64.0.1": "shared (carrier NAT)", "100.100.100.200": "shared (carrier NAT)",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified", "::ffff:0.0.0.0": "unspecified",
		"224.0.0.1": "multicast", "239.1.1.1": "multicast", "ff02::1": "multicast",
		"255.255.255.255": "reserved", "240.0.0.1": "reserved", "192.0.0.8": "reserved", "192.88.99.1": "reserved",
		"::127.0.0.1": "reserved", "64:ff9b:1::1": "reserved", "100::1": "reserved", "5f00::1": "reserved",
		"2001::1": "reserved", "9000::1": "reserved",
		"192.0.2.1": "documentation", "198.51.100.1": "documentation", "203.0.113.9": "documentation",
		"2001:db8::1": "documentation",
		"3fff::1":     "documentation", "198.18.0.1": "benchmark", "168.63.129.16": "cloud platform",
	} {
		assert.Equal(t, want, private(netip.MustParseAddr(addr)), addr)
	}
	assert.Equal(t, "wrong", private(netip.Addr{}))
}

// An address is what it is in every form in which IPv6 can carry it.
func TestPrivateInEveryForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes"))
		a := netip.AddrFrom4(b)
		sixToFour := [16]byte{0x20, 0x02, b[0], b[1], b[2], b[3], 15: 1}
		nat64 := [16]byte{1: 0x64, 2: 0xff, 3: 0x9b, 12: b[0], 13: b[1], 14: b[2], 15: b[3]}
		for _, form := range [][16]byte{a.As16(), sixToFour, nat64} {
			assert.Equal(t, private(a), private(netip.AddrFrom16(form)))
		}
		if a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || !a.IsGlobalUnicast() {
			assert.NotEmpty(t, private(a))
		}
	})
}

// counted is a server that must not be reached.
func counted(t *testing.T) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var hits atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(srv.Close)
	return srv, &hits
}

func TestPrivateAddressesAreNotReached(t *testing.T) {
	srv, hits := counted(t)
	_, port, _ := strings.Cut(hostOf(srv), ":")
	n := &names{lists: map[string][][]string{
		"inner.test": {{"127.0.0.1"}}, "many.test": {{"10.0.0.1", "127.0.0.1", "::1", "fd00::1"}},
		"mapped.test": {{"::ffff:127.0.0.1"}},
	}}
	set := tools(Config{AllowHosts: []string{"other.test", "inner.test:1"}}, network{resolver: n.resolver()})
	for host, want := range map[string]string{
		"127.0.0.1":          "127.0.0.1 is no public address (loopback)",
		"[::1]":              "::1 is no public address (loopback)",
		"[::ffff:127.0.0.1]": "is no public address (loopback)",
		"[64:ff9b::7f00:1]":  "is no public address (loopback)",
		"[fe80::1%25lo]":     "is no public address (link-local)",
		"0.0.0.0":            "is no public address (unspecified)",
		"localhost":          "localhost leads to ",
		"inner.test":         "inner.test leads to 127.0.0.1, which is no public address (loopback)",
		"INNER.test.":        "inner.test leads to 127.0.0.1, which is no public address (loopback)",
		"many.test":          "many.test leads to ",
		"mapped.test":        "mapped.test leads to 127.0.0.1, which is no public address (loopback)",
		"2130706433":         "the host 2130706433 does not exist",
		"0x7f.1":             "the host 0x7f.1 does not exist",
		"127.1":              "the host 127.1 does not exist",
		"none.test":          "the host none.test does not exist",
	} {
		r := fetch(t, set, "http://"+host+":"+port+"/")
		assert.True(t, r.Failed, host)
		assert.Contains(t, r.Content, want, host)
		if strings.Contains(want, "address") {
			assert.Contains(t, r.Content, "QQ_WEB_ALLOW=", host)
		}
	}
	assert.Zero(t, hits.Load())
}

// A name that led to a public address leads to a private one the next time: what
// counts is the address that is connected to.
func TestRebinding(t *testing.T) {
	srv, hits := counted(t)
	_, port, _ := strings.Cut(hostOf(srv), ":")
	n := &names{lists: map[string][][]string{"rebind.test": {{"8.8.8.8"}, {"127.0.0.1"}}}}
	var seen []string
	set := tools(Config{}, network{resolver: n.resolver(), passed: func(ap netip.AddrPort) error {
		seen = append(seen, ap.Addr().String())
		return errors.New("stopped by the test")
	}})
	first := fetch(t, set, "http://rebind.test:"+port+"/")
	assert.Contains(t, first.Content, "stopped by the test", "the guard let a public address pass")
	second := fetch(t, set, "http://rebind.test:"+port+"/")
	assert.Contains(t, second.Content, "rebind.test leads to 127.0.0.1")
	assert.Equal(t, []string{"8.8.8.8"}, seen)
	assert.Zero(t, hits.Load())
}

func TestRedirectToPrivateAddress(t *testing.T) {
	inner, hits := counted(t)
	_, port, _ := strings.Cut(hostOf(inner), ":")
	var to string
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		http.Redirect(w, r, to, http.StatusFound)
	}))
	defer outer.Close()
	n := &names{lists: map[string][][]string{"inner.test": {{"127.0.0.1"}}}}
	set := tools(Config{AllowHosts: []string{hostOf(outer)}}, network{resolver: n.resolver()})
	for _, to = range []string{inner.URL, "http://inner.test:" + port, "http://localhost:" + port,
		"http://[::ffff:7f00:1]:" + port} {
		r := fetch(t, set, outer.URL)
		assert.True(t, r.Failed)
		assert.Contains(t, r.Content, "no public address (loopback)", to)
	}
	assert.Zero(t, hits.Load())
}

func TestAllowedByName(t *testing.T) {
	srv := httptest.NewServer(send("text/plain", "inside"))
	defer srv.Close()
	_, port, _ := strings.Cut(hostOf(srv), ":")
	n := &names{lists: map[string][][]string{"inner.test": {{"127.0.0.1"}}}}
	for allow, hosts := range map[string][]string{
		"inner.test":          {"inner.test", "Inner.TEST."},
		"Inner.Test.":         {"inner.test"},
		"inner.test:" + port:  {"inner.test"},
		"127.0.0.1":           {"127.0.0.1"},
		"[::ffff:127.0.0.1] ": {"[::ffff:127.0.0.1]"},
	} {
		set := tools(Config{AllowHosts: []string{allow}}, network{resolver: n.resolver()})
		for _, h := range hosts {
			r := fetch(t, set, "http://"+h+":"+port)
			assert.False(t, r.Failed, "%s: %s", allow, r.Content)
		}
		assert.True(t, fetch(t, set, "http://localhost:"+port).Failed, "%s allows itself only", allow)
	}
}

// What cannot work is answered before anybody is asked about it.
func TestPlanRefusesPrivateAddress(t *testing.T) {
	set := Tools(Config{})
	_, err := tool.Plan(t.Context(), set[0], []byte(standin.Args("url", "http://169.254.169.254/latest")))
	require.EqualError(t, err, "169.254.169.254 is no public address (link-local). "+
		"The user can allow this host: QQ_WEB_ALLOW=169.254.169.254")
}
