package operation

import (
	"strings"
	"testing"
)

func TestHostRules(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		full string
		yes  []string
		no   []string
	}{
		"api.example.com": {"https://api.example.com:443",
			[]string{"https://api.example.com/", "https://API.example.COM:443/x?y=1", "https://api.example.com"},
			[]string{"http://api.example.com/", "https://api.example.com:8443/", "https://example.com/", "https://a.api.example.com/"}},
		"http://api.example.com:8080": {"http://api.example.com:8080",
			[]string{"http://api.example.com:8080/"}, []string{"https://api.example.com:8080/", "http://api.example.com/"}},
		"*.Example.com": {"https://*.example.com:443",
			[]string{"https://a.example.com/"}, []string{"https://example.com/", "https://a.b.example.com/", "https://evilexample.com/", "https://*.example.com/"}},
		"localhost":                 {"https://localhost:443", []string{"https://localhost/"}, []string{"https://127.0.0.1/", "https://[::1]/"}},
		"http://127.0.0.1:9000":     {"http://127.0.0.1:9000", []string{"http://127.0.0.1:9000/"}, []string{"http://localhost:9000/", "http://127.0.0.2:9000/"}},
		"10.0.0.0/8":                {"https://10.0.0.0/8:443", []string{"https://10.1.2.3/"}, []string{"https://11.0.0.1/", "https://ten.example.com/"}},
		"http://10.0.0.0/8:81":      {"http://10.0.0.0/8:81", []string{"http://10.1.2.3:81/"}, []string{"http://10.1.2.3/"}},
		"[fd00::]/8:8443":           {"https://[fd00::]/8:8443", []string{"https://[fd12::1]:8443/"}, []string{"https://[fe80::1]:8443/"}},
		"fd00::/8":                  {"https://[fd00::]/8:443", []string{"https://[fd12::1]/"}, nil},
		"[2001:db8::1]:443":         {"https://[2001:db8::1]:443", []string{"https://[2001:db8:0::1]/"}, []string{"https://[2001:db8::2]/"}},
		"xn--bcher-kva.example.com": {"https://xn--bcher-kva.example.com:443", nil, nil},
	} {
		r, err := ParseHostRule(text)
		if err != nil || r.String() != c.full {
			t.Errorf("%s: %s, %v, want %s", text, r, err, c.full)
			continue
		}
		if again, err := ParseHostRule(r.String()); err != nil || again != r {
			t.Errorf("%s written in full is %s, %v", text, again, err)
		}
		for i, u := range append(append([]string{}, c.yes...), c.no...) {
			target, err := parseTarget(u)
			if got := err == nil && allows([]HostRule{r}, target); got != (i < len(c.yes)) {
				t.Errorf("%s lets %s through: %v, %v", text, u, got, err)
			}
		}
	}
	if new(HostRule).matches(&target{}) {
		t.Error("the zero rule matches")
	}
}

func TestHostRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "missing", "https://": "missing", "*": "every host", "*.com": "too wide", "a.*.example.com": "not a label", "**.example.com": "not a label",
		"ftp://x.example": "want https or http", "api.example.com/v1": "without a path", "user@api.example.com": "nothing else", "x.example?y": "nothing else",
		"api.example.com.": "dot at the end", "bücher.example": "xn-- form", "api.example.com:0": "port", "api.example.com:65536": "port",
		"api.example.com:+80": "port", "api.example.com:": "port", "2130706433": "IP address", "0x7f.1": "IP address", "127.1": "IP address", "a..b": "not a label",
		"-a.example": "not a label", "10.0.0.1/8": "write 10.0.0.0/8", "::ffff:127.0.0.1": "write the IPv4 address 127.0.0.1", "[fe80::1%eth0]": "zone",
		"[fd00::": "] is missing", "[api.example.com]": "not an IPv6 address", strings.Repeat("a.", 200) + "example": "253", "10.0.0.0/8/9": "without a path",
	} {
		if r, err := ParseHostRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %s, %v, want %q", text, r, err, want)
		}
	}
}

func TestOnlyTheRebuiltURLIsSent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"HTTPS://Api.Example.com:443":          "https://api.example.com/",
		"https://api.example.com:0443/a":       "https://api.example.com/a",
		"https://api.example.com/a%2Fb/../c?":  "https://api.example.com/a%2Fb/../c",
		"https://api.example.com/%E4%B8%AD?q=": "https://api.example.com/%E4%B8%AD?q=",
		"http://[2001:DB8::1]:80/":             "http://[2001:db8::1]/",
		"http://127.0.0.1:8080/?a=b&a=c":       "http://127.0.0.1:8080/?a=b&a=c",
	} {
		target, err := parseTarget(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if u, err := target.url(); err != nil || u.String() != want {
			t.Errorf("%s is sent as %s, %v, want %s", text, u, err, want)
		}
	}
}

// FuzzTarget: whatever is accepted has a host that no other parser can read
// otherwise, and survives being parsed again.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"https://api.example.com/a?b", "https://user:pw@api.example.com/", "http://[::1]:80", "https:x", "https://a%2f@b/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseTarget(s)
		if err != nil {
			return
		}
		u, err := a.url()
		if err != nil {
			t.Fatalf("%q was accepted but cannot be sent: %v", s, err)
		}
		b, err := parseTarget(u.String())
		if err != nil || *a != *b || u.User != nil || strings.ContainsAny(u.Host, "@/\\#?% ") {
			t.Errorf("%q is sent as %q, which is %+v, not %+v (%v)", s, u, b, a, err)
		}
	})
}
