package operation

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxURL is the longest URL, in bytes; servers take 8 KiB at most.
const maxURL = 8 << 10

// target is a parsed URL. What is sent is made of its parts, never of the text
// that was parsed, so that no other parser can read another host in it.
type target struct {
	scheme string
	name   string     // in lower case; "" if the host is an address
	addr   netip.Addr // not valid if the host is a name
	port   uint16
	path   string // escaped, begins with a slash
	query  string // escaped, without its question mark
}

// parseTarget reads an absolute http or https URL. The error does not repeat
// the URL, which may hold what should not be logged.
func parseTarget(text string) (*target, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", len(text), maxURL)
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 0x80:
			return nil, errors.New("it has characters outside ASCII; escape them in path and query, write a host name in its xn-- form")
		case c <= ' ' || c == 0x7f || c == '\\':
			return nil, fmt.Errorf("it holds the character %q; escape it", c)
		case c == '#':
			return nil, errors.New("it has a fragment, which is not for servers; leave it out")
		}
	}
	u, err := url.Parse(text)
	if err != nil {
		var part *url.Error
		if errors.As(err, &part) {
			err = part.Err
		}
		return nil, err
	}
	t := &target{scheme: u.Scheme, path: u.EscapedPath(), query: u.RawQuery}
	standard, ok := schemePorts[u.Scheme]
	switch {
	case !ok:
		return nil, fmt.Errorf("scheme %q; want https or http", u.Scheme)
	case u.Opaque != "" || u.Host == "":
		return nil, errors.New("the host is missing; want https://host/path")
	case u.User != nil:
		return nil, errors.New("it holds a user or password; send them in a header, from a secret")
	case strings.Contains(u.Host, "%"):
		return nil, errors.New("the host has escapes")
	}
	if t.port = standard; u.Port() != "" {
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("port %q; want a number from 1 to 65535", u.Port())
		}
		t.port = uint16(n)
	}
	if t.path == "" {
		t.path = "/"
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Is6() != strings.HasPrefix(u.Host, "[") {
			return nil, errors.New("brackets are for IPv6 addresses")
		}
		t.addr = addr
		return t, checkAddress(addr)
	}
	t.name = strings.ToLower(host)
	return t, checkName(t.name)
}

// host is the name or address as it stands in a URL.
func (t *target) host() string {
	switch {
	case !t.addr.IsValid():
		return t.name
	case t.addr.Is6():
		return "[" + t.addr.String() + "]"
	}
	return t.addr.String()
}

// String returns scheme, host and port: all of the URL that messages show.
func (t *target) String() string {
	return t.scheme + "://" + net.JoinHostPort(strings.Trim(t.host(), "[]"), strconv.Itoa(int(t.port)))
}

// url is what is sent.
func (t *target) url() (*url.URL, error) {
	text := t.scheme + "://" + t.host()
	if t.port != schemePorts[t.scheme] {
		text += ":" + strconv.Itoa(int(t.port))
	}
	text += t.path
	if t.query != "" {
		text += "?" + t.query
	}
	return url.Parse(text)
}
