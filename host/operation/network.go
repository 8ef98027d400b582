package operation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// NetworkOptions are the options of NewNetwork.
type NetworkOptions struct {
	RootCAs *x509.CertPool // authorities of TLS. Defaults to the system's
}

// Network holds the connections that http operations go through. Attempts share
// one: a connection is as good for one as for another, since what may be dialled
// for a host follows from the host alone. It is safe for concurrent use.
type Network struct {
	transport *http.Transport
	resolver  *net.Resolver // nil: the system's
}

// idleTimeout is below the 5 s after which Node's and uvicorn's servers close
// idle connections: a request sent on a closed one would fail.
const idleTimeout = 4 * time.Second

// NewNetwork makes a Network. Close it when nothing uses it any more.
func NewNetwork(o NetworkOptions) *Network {
	n := &Network{}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	n.transport = &http.Transport{
		Proxy:                  nil, // what is set in the environment must not see the requests
		DialContext:            n.dial,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		DisableCompression:     true, // unpacked here, where the result is counted
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    32,
		MaxResponseHeaderBytes: 256 << 10,
		Protocols:              protocols,
	}
	return n
}

// Close ends idle connections. It is idempotent.
func (n *Network) Close() { n.transport.CloseIdleConnections() }

// errAddress is why an address that a name stands for is not dialled.
type errAddress struct {
	host   string
	addr   netip.Addr
	reason string
}

func (e *errAddress) Error() string {
	return fmt.Sprintf("%s is the address %s, %s", e.host, e.addr, e.reason)
}

// dial connects to host:port of a URL that a rule has let through. The guard
// sees each address at the moment it is dialled, after every resolver.
func (n *Network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	g, err := newGuard(host, port)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second, Resolver: n.resolver, Control: g.control}
	return d.DialContext(ctx, network, address)
}

// guard decides which addresses one host may stand for: a name only public
// ones, localhost the loopback, an address itself.
type guard struct {
	host     string
	literal  netip.Addr // not valid for names
	loopback bool
	ssrf     *ssrf.Guardian
}

func newGuard(host, port string) (*guard, error) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q: %w", port, err)
	}
	g := &guard{host: host, loopback: host == "localhost"}
	options := []ssrf.Option{ssrf.WithPorts(uint16(number))}
	if g.loopback {
		options = append(options, ssrf.WithAllowedV4Prefixes(loopback4), ssrf.WithAllowedV6Prefixes(loopback6))
	} else if a, err := netip.ParseAddr(host); err == nil {
		g.literal = a
		if only := netip.PrefixFrom(a, a.BitLen()); a.Is4() {
			options = append(options, ssrf.WithAllowedV4Prefixes(only))
		} else {
			options = append(options, ssrf.WithAllowedV6Prefixes(only))
		}
	}
	g.ssrf = ssrf.New(options...)
	return g, nil
}

var (
	loopback4 = netip.MustParsePrefix("127.0.0.0/8")
	loopback6 = netip.MustParsePrefix("::1/128")
)

// control is a net.Dialer's Control.
func (g *guard) control(network, address string, c syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	a := to.Addr()
	deny := func(reason string) error { return &errAddress{g.host, a, reason} }
	switch {
	case isMetadata(a):
		return deny("where clouds keep the credentials of machines; it is never dialled")
	case g.loopback && !a.IsLoopback():
		return deny("which is not the loopback")
	case g.literal.IsValid() && a != g.literal:
		return deny("which is another than the one that was allowed")
	}
	if err := g.ssrf.Safe(network, address, c); err != nil {
		if errors.Is(err, ssrf.ErrProhibitedIP) {
			return deny("which is not public; allow the address itself, a CIDR range or localhost if it is meant")
		}
		return err
	}
	return nil
}

// metadata is where machines of clouds find their own credentials: AWS, Azure,
// Google and others, AWS's DNS and NTP and its IPv6 form, Google's IPv6 form,
// Alibaba, Oracle, Azure's agent.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.169.254/32"),
	netip.MustParsePrefix("169.254.170.2/32"),
	netip.MustParsePrefix("169.254.170.23/32"),
	netip.MustParsePrefix("fd00:ec2::/32"),
	netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("168.63.129.16/32"),
}

func isMetadata(a netip.Addr) bool {
	for _, form := range []netip.Addr{a.Unmap().WithZone(""), embedded(a)} {
		for _, p := range metadata {
			if form.IsValid() && p.Contains(form) {
				return true
			}
		}
	}
	return false
}

// embedded is the IPv4 address inside an IPv6 one that gateways translate:
// NAT64, 6to4 and the old compatible form.
func embedded(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return netip.Addr{}
	}
	b := a.As16()
	switch {
	case nat64.Contains(a), compatible.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return netip.Addr{}
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)
