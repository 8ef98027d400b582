package operation

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/retrace-dev/engine/sdk"
)

// rule parses an entry that a test wrote.
func rule(tb testing.TB, text string) HostRule {
	tb.Helper()
	r, err := ParseHostRule(text)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// web is a server on the loopback and a Host that may reach it.
type web struct {
	*httptest.Server
	network *Network
	dials   atomic.Int64 // connections that were begun
	asked   atomic.Int64 // requests that arrived
}

func newWeb(t *testing.T, handler http.HandlerFunc) *web {
	t.Helper()
	w := &web{network: NewNetwork(NetworkOptions{})}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		handler(rw, r)
	}))
	dial := w.network.transport.DialContext
	w.network.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		w.dials.Add(1)
		return dial(ctx, network, address)
	}
	t.Cleanup(func() {
		w.network.Close()
		w.Server.Close()
	})
	return w
}

// host grants the server's own address, and secret "key" for it.
func (w *web) host(t *testing.T, change ...func(*Options)) *Host {
	t.Helper()
	rules := []HostRule{rule(t, w.URL)}
	o := Options{Network: w.network, Grants: Grants{Hosts: rules, Secrets: map[string]Secret{"key": {Value: theSecret, Hosts: rules}}}}
	for _, c := range change {
		c(&o)
	}
	h := New(o)
	t.Cleanup(h.Close)
	return h
}

const theSecret = `s3cr"t/ключ+value`

// wantError checks class and code of what an operation was answered with.
func wantError(t *testing.T, err error, class sdk.Class, code string) {
	t.Helper()
	if e := sdk.AsError(err); e == nil || e.Class != class || e.Code != code {
		t.Errorf("got %v, want %s/%s", err, class, code)
	}
}

func TestHTTPRoundTrip(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rw.Header().Set("X-Seen", strings.Join([]string{r.Method, r.URL.RequestURI(), r.Header.Get("X-A"), r.UserAgent(), r.Host}, " "))
		rw.Header().Set("Set-Cookie", "a=b")
		rw.WriteHeader(201)
		_, _ = rw.Write(append([]byte("\x00raw\x00"), body...))
	})
	h := w.host(t)
	rep, body, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{Method: "POST", URL: w.URL + "/a%2Fb?q=1", Headers: map[string][]string{"x-a": {"1"}}}, []byte("in\x00put"))
	if err != nil || rep.Status != 201 || rep.Class != "" || string(body) != "\x00raw\x00in\x00put" {
		t.Fatalf("%+v, %q, %v", rep, body, err)
	}
	if got, want := rep.Header("x-seen"), "POST /a%2Fb?q=1 1 engine "+strings.TrimPrefix(w.URL, "http://"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if rep.Header("Set-Cookie") != "" {
		t.Error("a cookie reached the step")
	}
}

func TestRefusedURLsSendNothing(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("testdata/ssrf_urls.txt")
	if err != nil {
		t.Fatal(err)
	}
	urls := []string{"", "https://", "//api.example.com/", "https:///", "https://api.example.com:0/", "https://api.example.com:99999/", "https://api.example.com\\@evil.test/",
		"https://api.example.com\n.evil.test/", "https://api.example.com /", "https://127.0.0.1.nip.io/", "https://0x7f000001/", "https://127.1/", "https://[::ffff:7f00:1]/",
		"https://[fe80::1%25eth0]/", "https://[api.example.com]/", "https://api.example.com@evil.test/", "https://api.example.com/\x00", "https://" + strings.Repeat("a", 9000)}
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "#") {
			urls = append(urls, line)
		}
	}
	if len(urls) < 35 {
		t.Fatalf("only %d URLs", len(urls))
	}
	w := newWeb(t, func(http.ResponseWriter, *http.Request) {})
	h := w.host(t, func(o *Options) { o.Grants.Hosts = []HostRule{rule(t, "https://api.example.com")} })
	for _, u := range urls {
		_, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: u}, nil)
		e := sdk.AsError(err)
		if e == nil || !(e.Class == sdk.ClassInvalidInput && e.Code == codeURL || e.Class == sdk.ClassSandbox && e.Code == codeHostDenied) {
			t.Errorf("%q gives %v", u, err)
		}
	}
	if n := w.dials.Load(); n != 0 {
		t.Errorf("%d connections were begun", n)
	}
}

// names makes n resolve every name to the given addresses.
func names(n *Network, addresses ...string) {
	n.resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			for {
				size := make([]byte, 2)
				if _, err := io.ReadFull(server, size); err != nil {
					return
				}
				q := make([]byte, int(size[0])<<8|int(size[1]))
				if _, err := io.ReadFull(server, q); err != nil {
					return
				}
				var m dnsmessage.Message
				if m.Unpack(q) != nil {
					return
				}
				m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
				for _, a := range addresses {
					head := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: m.Questions[0].Type, Class: dnsmessage.ClassINET, TTL: 1}
					switch ip := net.ParseIP(a); {
					case ip.To4() != nil && head.Type == dnsmessage.TypeA:
						m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: [4]byte(ip.To4())}})
					case ip.To4() == nil && head.Type == dnsmessage.TypeAAAA:
						m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(ip)}})
					}
				}
				out, err := m.Pack()
				if err != nil {
					return
				}
				if _, err := server.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...)); err != nil {
					return
				}
			}
		}()
		return client, nil
	}}
}

func TestNamesThatResolveInwardAreNotDialled(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "fd00:ec2::254", "fe80::1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "168.63.129.16"} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, func(http.ResponseWriter, *http.Request) {})
			names(w.network, address)
			port := w.URL[strings.LastIndex(w.URL, ":"):]
			h := w.host(t, func(o *Options) {
				o.Grants.Hosts = []HostRule{rule(t, "http://api.example.com"+port), rule(t, "http://127.0.0.0/8"+port), rule(t, "http://localhost"+port)}
			})
			_, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: "http://api.example.com" + port}, nil)
			wantError(t, err, sdk.ClassSandbox, codeAddressDenied)
			if n := w.asked.Load(); n != 0 {
				t.Errorf("%d requests arrived", n)
			}
		})
	}
}

func TestGuardAtTheDial(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, address string
		ok            bool
	}{
		{"api.example.com", "93.184.216.34:443", true},
		{"api.example.com", "[2606:4700::1111]:443", true},
		{"api.example.com", "93.184.216.34:80", false}, // another port
		{"api.example.com", "127.0.0.1:443", false},
		{"localhost", "127.0.0.1:443", true},
		{"localhost", "[::1]:443", true},
		{"localhost", "93.184.216.34:443", false},
		{"10.1.2.3", "10.1.2.3:443", true},
		{"10.1.2.3", "10.1.2.4:443", false},
		{"fd12::1", "[fd12::1]:443", true},
		{"169.254.169.254", "169.254.169.254:443", false},
		{"fd00:ec2::254", "[fd00:ec2::254]:443", false},
		{"64:ff9b::a9fe:a9fe", "[64:ff9b::a9fe:a9fe]:443", false},
		{"100.100.100.200", "100.100.100.200:443", false},
	} {
		g, err := newGuard(c.host, "443")
		if err != nil {
			t.Fatal(err)
		}
		network := "tcp4"
		if strings.HasPrefix(c.address, "[") {
			network = "tcp6"
		}
		if err := g.control(network, c.address, nil); (err == nil) != c.ok {
			t.Errorf("%s at %s: %v", c.host, c.address, err)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"http://169.254.169.254/latest/meta-data/", "/again", "https://other.example.com/"} {
		w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, to, http.StatusFound) })
		rep, body, err := sdk.HTTP(t.Context(), w.host(t), sdk.HTTPOp{URL: w.URL}, nil)
		if err != nil || rep.Status != 302 || rep.Header("location") != to || w.asked.Load() != 1 || w.dials.Load() != 1 {
			t.Errorf("%+v, %v; %d requests on %d connections", rep, err, w.asked.Load(), w.dials.Load())
		}
		if e := rep.Err(body); e.Class != sdk.ClassAPIError || !strings.Contains(e.Message, to+"; redirects are not followed") {
			t.Errorf("as an error it is %v", e)
		}
	}
}

func TestHeadersOfTheHost(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) { _ = r.Header.Write(rw) })
	h := w.host(t)
	for _, name := range []string{"Host", "host", "Content-Length", "Transfer-Encoding", "connection", "Proxy-Authorization", "Proxy-Connection", "Cookie", "TE", "Upgrade", "Expect",
		"Accept-Encoding", "X-Forwarded-For", "Keep-Alive", "", "a b", "a:b", "x\r\ny", "ключ"} {
		_, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: w.URL, Headers: map[string][]string{name: {"1"}}}, nil)
		wantError(t, err, sdk.ClassInvalidInput, codeHeader)
	}
	for _, op := range []sdk.HTTPOp{
		{Headers: map[string][]string{"X-A": {"a\r\nHost: evil.test"}}},
		{Headers: map[string][]string{"X-A": {"1"}, "x-a": {"2"}}},
		{Headers: map[string][]string{"X-A": {strings.Repeat("a", maxHeaders)}}},
		{Headers: map[string][]string{"authorization": {"1"}}, Secrets: []sdk.HeaderSecret{{Header: "Authorization", Name: "key"}}},
		{Secrets: []sdk.HeaderSecret{{Header: "X-Key", Name: "key"}, {Header: "x-key", Name: "key"}}},
		{Secrets: []sdk.HeaderSecret{{Header: "Host", Name: "key"}}},
		{Secrets: []sdk.HeaderSecret{{Header: "X-Key", Prefix: "a\n", Name: "key"}}},
		{Secrets: []sdk.HeaderSecret{{Header: "X-Key", Name: "other"}}},
	} {
		op.URL = w.URL
		_, _, err := sdk.HTTP(t.Context(), h, op, nil)
		wantError(t, err, sdk.ClassInvalidInput, codeHeader)
	}
	for _, method := range []string{"CONNECT", "trace", "GET /\r\n", "a b"} {
		_, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: w.URL, Method: method}, nil)
		wantError(t, err, sdk.ClassInvalidInput, "")
	}
	if n := w.dials.Load(); n != 0 {
		t.Errorf("%d connections were begun", n)
	}
}

func TestSecretGoesOnlyWhereItIsBound(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(http.ResponseWriter, *http.Request) {})
	h := w.host(t, func(o *Options) {
		o.Grants.Secrets = map[string]Secret{"key": {Value: theSecret, Hosts: []HostRule{rule(t, "api.example.com")}}}
	})
	_, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: w.URL, Secrets: []sdk.HeaderSecret{{Header: "X-Key", Name: "key"}}}, nil)
	wantError(t, err, sdk.ClassSandbox, codeSecretDenied)
	if n := w.dials.Load(); n != 0 || strings.Contains(err.Error(), theSecret) {
		t.Errorf("%d connections were begun; %v", n, err)
	}
}

func TestEchoedSecretIsRedacted(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		v := r.Header.Get("Authorization")
		got.Store(v)
		rw.Header().Set("X-Echo", v)
		rw.Header().Set("Content-Encoding", "gzip")
		if strings.HasSuffix(r.URL.Path, "error") {
			rw.WriteHeader(400)
		}
		js, _ := json.Marshal(map[string]string{"auth": v})
		z := gzip.NewWriter(rw)
		fmt.Fprintf(z, "%s\n%s\n%s\n%s\n", v, js, base64.StdEncoding.EncodeToString([]byte("user:"+v)), hex.EncodeToString([]byte(v)))
		_ = z.Close()
	})
	h := w.host(t)
	op := sdk.HTTPOp{Op: sdk.OpHTTP, URL: w.URL + "/error", Secrets: []sdk.HeaderSecret{{Header: "authorization", Prefix: "Bearer ", Name: "key"}}}
	msg, _ := sdk.Marshal(op)
	raw, err := h.Call(t.Context(), msg)
	if err != nil {
		t.Fatal(err)
	}
	if got.Load() != "Bearer "+theSecret {
		t.Errorf("the server got %q", got.Load())
	}
	encoded := base64.RawStdEncoding.EncodeToString([]byte(theSecret))
	for _, leak := range []string{theSecret, `ключ`, encoded[4:20], "Content-Length", "Content-Encoding", hex.EncodeToString([]byte(theSecret)), `s3cr\"t`} {
		if bytes.Contains(raw, []byte(leak)) {
			t.Errorf("the reply holds %q: %q", leak, raw)
		}
	}
	if !bytes.Contains(raw, []byte("Bearer (secret key)")) {
		t.Errorf("the mask is missing: %q", raw)
	}
}

func TestJSONWithSecretsStaysJSON(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		var all strings.Builder
		for _, c := range r.Header.Get("X-Key") { // every character escaped: no encoder does it, a hostile server might
			fmt.Fprintf(&all, `\u%04x`, c)
		}
		fmt.Fprintf(rw, `{"a":"x %s","n":1}`, all.String())
	})
	_, body, err := sdk.HTTP(t.Context(), w.host(t), sdk.HTTPOp{URL: w.URL, Secrets: []sdk.HeaderSecret{{Header: "X-Key", Name: "key"}}}, nil)
	if err != nil || string(body) != `{"a":"x (secret key)","n":1}` {
		t.Errorf("%s, %v", body, err)
	}
}

func TestGzipBombEndsTheAttempt(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(rw)
		for range 64 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
		_ = z.Close()
	})
	small := func(o *Options) { o.MaxReply, o.MaxBlob = 1<<20, 2<<20 }
	_, _, err := sdk.HTTP(t.Context(), w.host(t, small), sdk.HTTPOp{URL: w.URL}, nil)
	wantError(t, err, sdk.ClassResourceExhausted, CodeReplyTooLarge)

	h := w.host(t, small)
	rep, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: w.URL, Stream: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, _, err = sdk.Operate(t.Context(), h, sdk.StreamReadOp{Op: sdk.OpStreamRead, Stream: rep.Stream}, nil)
	}
	wantError(t, err, sdk.ClassResourceExhausted, CodeReplyTooLarge)
}

func TestBodiesThatCannotBeUnpacked(t *testing.T) {
	t.Parallel()
	for encoding, body := range map[string]string{"br": "x", "gzip": "this is no gzip at all", "gzip, gzip": "x"} {
		w := newWeb(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", encoding)
			_, _ = io.WriteString(rw, body)
		})
		_, _, err := sdk.HTTP(t.Context(), w.host(t), sdk.HTTPOp{URL: w.URL}, nil)
		wantError(t, err, sdk.ClassAPIError, codeContentEncoded)
	}
}

// drip answers at once and then sends nothing until the client is gone.
func drip(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(rw, "first")
	rw.(http.Flusher).Flush()
	<-r.Context().Done()
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	w := newWeb(t, drip)
	_, _, err := sdk.HTTP(t.Context(), w.host(t), sdk.HTTPOp{URL: w.URL, TimeoutMS: 20}, nil)
	wantError(t, err, sdk.ClassTimeout, codeHTTPTimeout)

	h := w.host(t)
	rep, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: w.URL, TimeoutMS: 50, Stream: true}, nil)
	if err == nil {
		for err == nil {
			_, _, err = sdk.Operate(t.Context(), h, sdk.StreamReadOp{Op: sdk.OpStreamRead, Stream: rep.Stream}, nil)
		}
	}
	wantError(t, err, sdk.ClassTimeout, codeHTTPTimeout)

	gone := &sdk.Error{Class: sdk.ClassTimeout, Code: "attempt"}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, gone)
	defer cancel()
	_, _, err = sdk.HTTP(ctx, w.host(t), sdk.HTTPOp{URL: w.URL, TimeoutMS: 3_600_000}, nil)
	if !errors.Is(err, gone) {
		t.Errorf("past the attempt's deadline: %v", err)
	}
}

func TestWhatCannotBeReached(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(rw http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	_, _, err := sdk.HTTP(t.Context(), w.host(t), sdk.HTTPOp{URL: w.URL}, nil)
	wantError(t, err, sdk.ClassUnavailable, codeBroken)

	closed := newWeb(t, nil)
	closed.Server.Close()
	_, _, err = sdk.HTTP(t.Context(), closed.host(t), sdk.HTTPOp{URL: closed.URL}, nil)
	wantError(t, err, sdk.ClassUnavailable, codeConnect)

	nobody := newWeb(t, nil)
	names(nobody.network)
	h := nobody.host(t, func(o *Options) { o.Grants.Hosts = []HostRule{rule(t, "api.example.com")} })
	_, _, err = sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: "https://api.example.com/"}, nil)
	wantError(t, err, sdk.ClassUnavailable, codeDNS)

	strange := httptest.NewUnstartedServer(http.NotFoundHandler())
	strange.Config.ErrorLog = log.New(io.Discard, "", 0)
	strange.StartTLS()
	defer strange.Close()
	h = nobody.host(t, func(o *Options) { o.Grants.Hosts = []HostRule{rule(t, strange.URL)} })
	_, _, err = sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: strange.URL}, nil)
	wantError(t, err, sdk.ClassUnauthorized, codeTLS)
}

// TestOneOperationIsOneRequest: a server that takes a request on a connection
// it has used before and hangs up must see it once, though net/http would send
// some requests again.
func TestOneOperationIsOneRequest(t *testing.T) {
	t.Parallel()
	for _, op := range []sdk.HTTPOp{{Method: "GET"}, {Method: "HEAD"}, {Method: "DELETE"}, {Method: "POST", Headers: map[string][]string{"Idempotency-Key": {"1"}}}} {
		var hangUp atomic.Bool
		w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
			if hangUp.Load() {
				panic(http.ErrAbortHandler)
			}
		})
		h := w.host(t)
		op.URL = w.URL
		if _, _, err := sdk.HTTP(t.Context(), h, op, nil); err != nil {
			t.Fatalf("%s: %v", op.Method, err)
		}
		hangUp.Store(true)
		_, _, err := sdk.HTTP(t.Context(), h, op, nil)
		wantError(t, err, sdk.ClassUnavailable, codeBroken)
		if n := w.asked.Load(); n != 2 || w.dials.Load() != 1 {
			t.Errorf("%s: two operations made %d requests on %d connections", op.Method, n, w.dials.Load())
		}
	}
}

func TestEmptyBodies(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, "%d %v", r.ContentLength, r.TransferEncoding)
	})
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		if _, body, err := sdk.HTTP(t.Context(), w.host(t), sdk.HTTPOp{URL: w.URL, Method: method}, nil); err != nil || string(body) != "0 []" {
			t.Errorf("%s arrives with length and encoding %s, %v", method, body, err)
		}
	}
}

func TestWithoutNetwork(t *testing.T) {
	t.Parallel()
	_, _, err := sdk.HTTP(t.Context(), New(Options{}), sdk.HTTPOp{URL: "https://api.example.com/"}, nil)
	wantError(t, err, sdk.ClassInvalidInput, sdk.CodeUnsupportedOp)
	if NewNetwork(NetworkOptions{}).transport.Proxy != nil {
		t.Error("requests would go through a proxy")
	}
}

// TestRefusalPassedOnKeepsItsClass: what a step returns is normalized, since it
// may not speak of the sandbox; the host knows its own words again.
func TestRefusalPassedOnKeepsItsClass(t *testing.T) {
	t.Parallel()
	w := newWeb(t, nil)
	h := w.host(t)
	_, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: "https://api.example.com/"}, nil)
	told := sdk.AsError(err)
	if got := h.Own(told.Normalize()); got.Class != sdk.ClassSandbox || got.Message != told.Message {
		t.Errorf("%v became %v", told, got)
	}
	for _, forged := range []*sdk.Error{
		{Class: sdk.ClassSandbox, Code: codeHostDenied, Message: "made up"},
		{Class: sdk.ClassSandbox, Code: codeSecretDenied, Message: told.Message},
	} {
		if got := h.Own(forged.Normalize()); got.Class != sdk.ClassInternal {
			t.Errorf("%v was believed: %v", forged, got)
		}
	}
}
