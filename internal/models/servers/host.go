package servers

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// defaultHost is the address of Ollama if OLLAMA_HOST is empty.
const defaultHost = "127.0.0.1:11434"

// parseHost parses s as Ollama parses OLLAMA_HOST: scheme, host, port and path, each with a
// default. Unlike Ollama it returns an error for an invalid port. An address on which servers
// listen (0.0.0.0, ::) is replaced by one at which they can be reached.
func parseHost(s string) (*url.URL, error) {
	s = strings.TrimSpace(strings.Trim(strings.TrimSpace(s), `"'`))
	if strings.Contains(s, "@") {
		// The value is not shown, because the text before the @ is likely a password.
		return nil, errors.New("OLLAMA_HOST carries a user name: use [http://|https://]HOST[:PORT]")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	port := "11434"
	switch {
	case !ok && s == "ollama.com":
		scheme, rest, port = "https", s, "443"
	case !ok:
		scheme, rest = "http", s
	case scheme == "http":
		port = "80"
	case scheme == "https":
		port = "443"
	default:
		return nil, badHost(s)
	}
	hostport, path, _ := strings.Cut(rest, "/")
	host, given, err := net.SplitHostPort(hostport)
	if err != nil {
		host, given = hostport, port
		// Colons and brackets without a port are an IPv6 address or nothing.
		if addr, err := netip.ParseAddr(strings.Trim(hostport, "[]")); err == nil {
			host = addr.Unmap().String()
		} else if strings.ContainsAny(hostport, ":[]") {
			return nil, badHost(s)
		}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 {
		return nil, badHost(s)
	}
	u := &url.URL{Scheme: scheme, Host: net.JoinHostPort(reachable(host), given), Path: path}
	if _, err := url.Parse(u.String()); err != nil {
		return nil, badHost(s)
	}
	return u, nil
}

// reachable returns an address at which a server that listens on host can be reached: the loopback address for
// 0.0.0.0 and ::, else host itself.
func reachable(host string) string {
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil || !addr.IsUnspecified():
		return host
	case addr.Is4():
		return "127.0.0.1"
	}
	return "::1"
}

func badHost(s string) error {
	return fmt.Errorf("OLLAMA_HOST is %q: use [http://|https://]HOST[:PORT], for example %s", s, defaultHost)
}
