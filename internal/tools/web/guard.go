package web

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// guard opens network connections. It refuses addresses that are not public, unless the user
// allowed the host by name.
type guard struct {
	allowed map[string]bool // host or host:port
	network network
}

// blockedError says that the guard refused an address.
type blockedError struct {
	host string // the name that led there
	addr netip.Addr
	kind string
}

func (e *blockedError) Error() string {
	at := fmt.Sprintf("%s leads to %s, which is no public address (%s)", e.host, e.addr, e.kind)
	if e.host == e.addr.String() {
		at = fmt.Sprintf("%s is no public address (%s)", e.host, e.kind)
	}
	return at + ". The user can allow this host: QQ_WEB_ALLOW=" + e.host
}

func hostSet(hosts []string) map[string]bool {
	set := map[string]bool{}
	for _, h := range hosts {
		set[plainHost(h)] = true
	}
	return set
}

// plainHost normalizes a host, or a host with port, for comparison: lower case, without final dot
// and brackets.
func plainHost(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if host, port, err := net.SplitHostPort(s); err == nil {
		return net.JoinHostPort(strings.TrimSuffix(host, "."), port)
	}
	return strings.TrimSuffix(strings.Trim(s, "[]"), ".")
}

func (g guard) allows(address string) bool {
	address = plainHost(address)
	host, _, err := net.SplitHostPort(address)
	return g.allowed[address] || err == nil && g.allowed[host]
}

// dial connects to address, whose host may be a name. It checks each address of the name and
// tries the public ones.
func (g guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout, Resolver: g.network.resolver}
	if !g.allows(address) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		d.Control = func(_, actual string, _ syscall.RawConn) error { return g.check(host, actual) }
	}
	return d.DialContext(ctx, network, address)
}

// check returns an error if the guard refuses the address actual (with port), to which host resolved.
func (g guard) check(host, actual string) error {
	ap, err := netip.ParseAddrPort(actual)
	if err != nil {
		return fmt.Errorf("the address %q cannot be checked", actual)
	}
	if kind := private(ap.Addr()); kind != "" {
		return &blockedError{plainHost(host), ap.Addr().Unmap(), kind}
	}
	if g.network.passed != nil {
		return g.network.passed(ap)
	}
	return nil
}

// literal returns an error if host is a private IP address that is not allowed, so that nobody is asked to approve
// a call that cannot work. The address of a name is not known yet, so every name passes.
func (g guard) literal(host, port string) error {
	a, err := netip.ParseAddr(host)
	if err != nil || g.allows(net.JoinHostPort(host, port)) {
		return nil
	}
	if kind := private(a); kind != "" {
		return &blockedError{host, a, kind}
	}
	return nil
}

// private returns the kind of a non-public address, or "" for a public one.
func private(a netip.Addr) string {
	if !a.IsValid() {
		return "wrong"
	}
	if a.Zone() != "" {
		return "link-local" // a zone has a meaning on this machine only, and no prefix contains it
	}
	a = a.Unmap()
	if inner, ok := embedded(a); ok {
		return private(inner)
	}
	for _, r := range special() {
		if netip.MustParsePrefix(r.prefix).Contains(a) {
			return r.kind
		}
	}
	return ""
}

// embedded returns the IPv4 address to which a gateway forwards packets for a. IPv6-only networks
// reach IPv4 in this way.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a): // NAT64
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case netip.MustParsePrefix("2002::/16").Contains(a): // 6to4
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

type addressRange struct{ prefix, kind string }

// special lists the address ranges that are not public, after the registries of IANA. It is a
// function so that a program that fetches nothing does not build the list.
func special() []addressRange {
	return []addressRange{
		{"0.0.0.0/8", "unspecified"},
		{"10.0.0.0/8", "private"},
		{"100.64.0.0/10", "shared (carrier NAT)"},
		{"127.0.0.0/8", "loopback"},
		{"168.63.129.16/32", "cloud platform"}, // public by its number, internal to Azure by its use
		{"169.254.0.0/16", "link-local"},
		{"172.16.0.0/12", "private"},
		{"192.0.0.0/24", "reserved"},
		{"192.0.2.0/24", "documentation"},
		{"192.88.99.0/24", "reserved"},
		{"192.168.0.0/16", "private"},
		{"198.18.0.0/15", "benchmark"},
		{"198.51.100.0/24", "documentation"},
		{"203.0.113.0/24", "documentation"},
		{"224.0.0.0/4", "multicast"},
		{"240.0.0.0/4", "reserved"},
		{"::/128", "unspecified"},
		{"::1/128", "loopback"},
		{"fc00::/7", "private"},
		{"fe80::/10", "link-local"},
		{"fec0::/10", "private"},
		{"ff00::/8", "multicast"},
		{"2001::/23", "reserved"}, // Teredo and others that lead elsewhere
		{"2001:db8::/32", "documentation"},
		{"3fff::/20", "documentation"},
		// Only 2000::/3 is given out to networks. These are the rest of IPv6.
		{"::/3", "reserved"},
		{"4000::/2", "reserved"},
		{"8000::/1", "reserved"},
	}
}
