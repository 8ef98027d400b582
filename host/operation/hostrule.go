package operation

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// HostRule is one entry of an allow-list: a scheme, a host or a range of
// addresses, and a port. ParseHostRule makes one; the zero value matches
// nothing.
type HostRule struct {
	scheme   string       // "https" or "http"
	name     string       // of a host, in lower case; "" for addresses
	wildcard bool         // name is what follows "*."
	prefix   netip.Prefix // addresses; not valid for names
	port     uint16
}

// ParseHostRule reads `[scheme://]host[:port]`. The scheme is https (the
// default) or http, the port that of the scheme unless given. The host is a
// name; `*.` and a name, where the star stands for one label; `localhost`; an IP
// address; or a CIDR range of them. Only the last three reach addresses that are
// private, loopback or link-local. The error says what to write instead.
func ParseHostRule(text string) (HostRule, error) {
	r, err := parseHostRule(text)
	if err != nil {
		return HostRule{}, fmt.Errorf("host %q: %w", text, err)
	}
	return r, nil
}

func parseHostRule(text string) (HostRule, error) {
	r := HostRule{scheme: "https"}
	host := text
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		r.scheme, host = strings.ToLower(scheme), rest
	}
	port, ok := schemePorts[r.scheme]
	if !ok {
		return r, fmt.Errorf("scheme %q; want https or http", r.scheme)
	}
	r.port = port
	if host == "" {
		return r, errors.New("the host is missing")
	}
	if strings.ContainsAny(host, "@?#") {
		return r, errors.New("want [scheme://]host[:port] and nothing else")
	}
	if prefix, rest, ok, err := cutAddress(host); err != nil {
		return r, err
	} else if ok {
		r.prefix = prefix
		return r, r.setPort(rest)
	}
	if strings.Contains(host, "/") {
		return r, errors.New("want [scheme://]host[:port] without a path; a path cannot be granted")
	}
	name, rest := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		name, rest = host[:i], host[i:]
	}
	if err := r.setPort(rest); err != nil {
		return r, err
	}
	name = strings.ToLower(name)
	r.name, r.wildcard = strings.CutPrefix(name, "*.")
	if err := checkName(r.name); err != nil {
		return r, err
	}
	if r.wildcard && !strings.Contains(r.name, ".") {
		return r, fmt.Errorf(`*.%s is too wide; name a domain below it`, r.name)
	}
	return r, nil
}

var schemePorts = map[string]uint16{"https": 443, "http": 80}

// cutAddress splits an address or CIDR range from the port that may follow it.
// IPv6 with a port is in brackets.
func cutAddress(host string) (prefix netip.Prefix, port string, ok bool, err error) {
	text := host
	if inner, found := strings.CutPrefix(host, "["); found {
		if text, port, found = strings.Cut(inner, "]"); !found {
			return prefix, "", false, errors.New("] is missing")
		}
		if bits, found := strings.CutPrefix(port, "/"); found { // [fd00::]/8
			number, after, colon := strings.Cut(bits, ":")
			text += "/" + number
			if port = ""; colon {
				port = ":" + after
			}
		}
	} else if strings.Count(host, ":") == 1 {
		text, port, _ = strings.Cut(host, ":")
		port = ":" + port
	}
	prefix, perr := netip.ParsePrefix(text)
	if perr != nil {
		addr, aerr := netip.ParseAddr(text)
		if aerr != nil {
			if strings.HasPrefix(host, "[") {
				return prefix, "", false, fmt.Errorf("%q is not an IPv6 address", text)
			}
			return prefix, "", false, nil
		}
		if err := checkAddress(addr); err != nil { // a prefix has no zone
			return prefix, "", false, err
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if err := checkAddress(prefix.Addr()); err != nil {
		return prefix, "", false, err
	}
	if masked := prefix.Masked(); masked != prefix {
		return prefix, "", false, fmt.Errorf("%s has bits set beyond its length; write %s", prefix, masked)
	}
	return prefix, port, true, nil
}

// checkAddress refuses the spellings of an address that hide another.
func checkAddress(a netip.Addr) error {
	switch {
	case a.Zone() != "":
		return errors.New("an IPv6 zone has no meaning here; leave it out")
	case a.Is4In6():
		return fmt.Errorf("write the IPv4 address %s as such", a.Unmap())
	}
	return nil
}

func (r *HostRule) setPort(text string) error {
	if text == "" {
		return nil
	}
	digits, ok := strings.CutPrefix(text, ":")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || n == 0 || digits[0] == '+' {
		return fmt.Errorf("port %q; want a number from 1 to 65535", digits)
	}
	r.port = uint16(n)
	return nil
}

// checkName accepts host names in lower case: letters, digits, hyphens and
// underscores in labels, the last of which is no number.
func checkName(name string) error {
	switch {
	case name == "*":
		return errors.New("a star alone would grant every host; name them, or *.example.com for one label")
	case name == "" || len(name) > 253:
		return errors.New("want a host name of 1 to 253 characters")
	case strings.HasSuffix(name, "."):
		return errors.New("leave out the dot at the end")
	}
	for i := range len(name) {
		if name[i] >= 0x80 {
			return errors.New("a host name has ASCII characters only; write its xn-- form")
		}
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return fmt.Errorf("%q is not a label of a host name", l)
		}
	}
	if last := labels[len(labels)-1]; endsInNumber(last) {
		return fmt.Errorf("%q would be read as an IP address by some; write it as four decimal numbers", name)
	}
	return nil
}

// endsInNumber: what WHATWG's URL parser takes for an IPv4 address, such as
// 2130706433, 0x7f000001 and 127.1.
func endsInNumber(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(label, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}

// String returns the rule in its full form, "https://*.example.com:443".
func (r HostRule) String() string {
	host := r.name
	switch {
	case r.wildcard:
		host = "*." + host
	case r.prefix.IsValid():
		host = r.prefix.Addr().String()
		if r.prefix.Addr().Is6() {
			host = "[" + host + "]"
		}
		if !r.prefix.IsSingleIP() {
			host += fmt.Sprintf("/%d", r.prefix.Bits())
		}
	}
	return fmt.Sprintf("%s://%s:%d", r.scheme, host, r.port)
}

// Covers says whether r lets everything through that o does.
func (r HostRule) Covers(o HostRule) bool {
	if r.scheme != o.scheme || r.port != o.port {
		return false
	}
	switch {
	case o.prefix.IsValid():
		return r.prefix.IsValid() && r.prefix.Bits() <= o.prefix.Bits() && r.prefix.Contains(o.prefix.Addr())
	case r.wildcard && !o.wildcard:
		_, rest, ok := strings.Cut(o.name, ".")
		return ok && rest == r.name
	}
	return r.name != "" && r.name == o.name && r.wildcard == o.wildcard
}

// matches says whether the rule lets a request through to t.
func (r *HostRule) matches(t *target) bool {
	if r.scheme != t.scheme || r.port != t.port {
		return false
	}
	switch {
	case t.addr.IsValid():
		return r.prefix.IsValid() && r.prefix.Contains(t.addr)
	case r.wildcard:
		label, rest, ok := strings.Cut(t.name, ".")
		return ok && label != "" && rest == r.name
	}
	return r.name != "" && r.name == t.name
}
