package operation

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/retrace-dev/engine/sdk"
)

// Codes of http's refusals and failures.
const (
	codeHostDenied     = "host_denied"      // no rule lets the request through
	codeAddressDenied  = "address_denied"   // a name stands for an address that is not for it
	codeSecretDenied   = "secret_not_bound" // the secret is not for this host
	codeURL            = "url"
	codeHeader         = "header"
	codeHTTPTimeout    = "http_timeout" // the request's own timeout
	codeHeadTimeout    = "head_timeout" // no status within the request's head_timeout_ms
	codeIdleTimeout    = "idle_timeout" // nothing more within a stream_read's timeout_ms
	codeDNS            = "dns"
	codeTLS            = "tls"
	codeConnect        = "connect"
	codeBroken         = "connection_broken"
	codeContentEncoded = "content_encoding"
)

// maxHeaders bounds the headers a step may send, in bytes.
const maxHeaders = 64 << 10

// What ends a request that takes longer than the step wants to wait.
var (
	errOwnTimeout  = &sdk.Error{Class: sdk.ClassTimeout, Code: codeHTTPTimeout, Message: "the request did not end within its timeout_ms"}
	errHeadTimeout = &sdk.Error{Class: sdk.ClassTimeout, Code: codeHeadTimeout, Message: "the server did not begin to answer within the request's head_timeout_ms"}
	errIdleTimeout = &sdk.Error{Class: sdk.ClassTimeout, Code: codeIdleTimeout, Message: "nothing more arrived within the read's timeout_ms"}
)

// httpRequest checks everything before it sends anything, and sends once.
func httpRequest(ctx context.Context, h *Host, head json.RawMessage, data []byte) (any, []byte, error) {
	if h.o.Network == nil {
		return nil, nil, refusal{unsupported("this engine gives steps no network; operation http is not available")}
	}
	op, e := read[sdk.HTTPOp](head)
	if e != nil {
		return nil, nil, refusal{e}
	}
	req, e := h.request(&op, data)
	if e != nil {
		return nil, nil, refusal{e}
	}
	ctx, cancel := limited(ctx, op.TimeoutMS, errOwnTimeout)
	stop := after(op.HeadTimeoutMS, func() { cancel(errHeadTimeout) })
	resp, err := h.o.Network.transport.RoundTrip(req.WithContext(ctx))
	stop()
	if err != nil {
		e := h.failure(context.Cause(ctx), err)
		cancel(nil)
		return nil, nil, refusal{e}
	}
	body, err := h.unpack(resp)
	reply := h.reply(resp)
	if err != nil {
		resp.Body.Close()
		cancel(nil)
		return nil, nil, err
	}
	if op.Stream {
		id, err := h.openStream(&stream{r: h.redactor.Reader(body), cause: func() error { return context.Cause(ctx) },
			end: func() { cancel(nil); resp.Body.Close() }, expire: func() { cancel(errIdleTimeout) }})
		reply.Stream = id
		return reply, nil, err
	}
	defer cancel(nil)
	defer resp.Body.Close()
	all, err := io.ReadAll(io.LimitReader(body, h.o.MaxReply+1))
	if err != nil {
		return nil, nil, refusal{h.failure(context.Cause(ctx), err)}
	}
	if int64(len(all)) > h.o.MaxReply {
		return nil, nil, exhausted(CodeReplyTooLarge, "the body of %s is larger than %d bytes; ask for less, or read it as a stream", req.URL.Host, h.o.MaxReply)
	}
	return reply, h.redactor.JSON(all), nil
}

// limited ends with cause when ms have passed, if there are any.
func limited(ctx context.Context, ms int64, cause error) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := after(ms, func() { cancel(cause) })
	return ctx, func(cause error) { stop(); cancel(cause) }
}

// after calls f when ms have passed, if there are any, unless it is stopped.
func after(ms int64, f func()) (stop func()) {
	if ms <= 0 {
		return func() {}
	}
	ms = min(ms, (24 * time.Hour).Milliseconds()) // no overflow
	t := time.AfterFunc(time.Duration(ms)*time.Millisecond, f)
	return func() { t.Stop() }
}

// request makes what is sent, of parts that were checked.
func (h *Host) request(op *sdk.HTTPOp, data []byte) (*http.Request, *sdk.Error) {
	t, err := parseTarget(op.URL)
	if err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Code: codeURL, Message: "the URL cannot be used: " + err.Error()}
	}
	if !allows(h.o.Grants.Hosts, t) {
		return nil, &sdk.Error{Class: sdk.ClassSandbox, Code: codeHostDenied,
			Message: fmt.Sprintf("%s is not allowed; allow_hosts of the sandbox block would have to name %q", t, t)}
	}
	if op.Method == "" {
		op.Method = http.MethodGet
	}
	if !httpguts.ValidHeaderFieldName(op.Method) || slices.Contains([]string{http.MethodConnect, http.MethodTrace}, strings.ToUpper(op.Method)) {
		return nil, invalid("", "method %q cannot be sent", op.Method)
	}
	header, e := h.header(op, t)
	if e != nil {
		return nil, e
	}
	if op.Method != http.MethodHead && header.Get("Range") == "" {
		header.Set("Accept-Encoding", "gzip")
	}
	u, err := t.url()
	if err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Code: codeURL, Message: "the URL cannot be used: " + err.Error()}
	}
	req := &http.Request{Method: op.Method, URL: u, Header: header, ContentLength: int64(len(data)), Body: once{bytes.NewReader(data)}}
	if len(data) == 0 && slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, op.Method) &&
		header.Get("Idempotency-Key")+header.Get("X-Idempotency-Key") == "" {
		req.Body = http.NoBody // Content-Length: 0 in place of an empty chunked body
	}
	return req, nil
}

// once is a body that net/http cannot rewind. Without it the transport would
// send a request without a body, or with an Idempotency-Key, a second time if
// the first went out on a connection that was just being closed.
type once struct{ io.Reader }

func (once) Close() error { return nil }

// header collects the headers of the step and of its secrets.
func (h *Host) header(op *sdk.HTTPOp, t *target) (http.Header, *sdk.Error) {
	refused := func(format string, args ...any) *sdk.Error {
		return &sdk.Error{Class: sdk.ClassInvalidInput, Code: codeHeader, Message: fmt.Sprintf(format, args...)}
	}
	out, size := http.Header{}, 0
	for name, values := range op.Headers {
		if why := ownHeader(name); why != "" {
			return nil, refused("header %q %s", name, why)
		}
		canonical := http.CanonicalHeaderKey(name)
		if out[canonical] != nil {
			return nil, refused("header %q is given in two spellings", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, refused("the value of header %q holds control characters", name)
			}
			size += len(name) + len(v)
		}
		out[canonical] = values
	}
	if size > maxHeaders {
		return nil, refused("the headers have %d bytes, the limit is %d", size, maxHeaders)
	}
	for _, s := range op.Secrets {
		if why := ownHeader(s.Header); why != "" {
			return nil, refused("header %q %s", s.Header, why)
		}
		if out.Values(s.Header) != nil {
			return nil, refused("header %q is set by a secret; do not set it otherwise", s.Header)
		}
		secret, known := h.o.Grants.Secrets[s.Name]
		if !known {
			return nil, refused("there is no bound secret %q", s.Name)
		}
		if !allows(secret.Hosts, t) {
			return nil, &sdk.Error{Class: sdk.ClassSandbox, Code: codeSecretDenied,
				Message: fmt.Sprintf("secret %q is not bound to %s; its hosts would have to name %q", s.Name, t, t)}
		}
		value := s.Prefix + strings.TrimRight(secret.Value, "\r\n") // files end with a newline
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, refused("secret %q or its prefix holds control characters, which no header can carry", s.Name)
		}
		out.Set(s.Header, value)
	}
	if out.Values("User-Agent") == nil {
		out.Set("User-Agent", "engine")
	}
	return out, nil
}

// hostHeaders belong to the host: they frame the request, name its way or its
// sender, or carry credentials that are no secret of the flow.
var hostHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Connection", "Keep-Alive", "Upgrade", "Http2-Settings",
	"Expect", "Accept-Encoding", "Cookie", "Cookie2", "Forwarded", "Via", "X-Real-Ip"}

// ownHeader says why a step may not set a header, in words that follow its
// name; "" if it may.
func ownHeader(name string) string {
	if !httpguts.ValidHeaderFieldName(name) {
		return "is no name of a header"
	}
	c := http.CanonicalHeaderKey(name)
	if slices.Contains(hostHeaders, c) || strings.HasPrefix(c, "Proxy-") || strings.HasPrefix(c, "X-Forwarded-") {
		return "belongs to the host; leave it out"
	}
	return ""
}

// reply is what the step sees of a response's head.
func (h *Host) reply(resp *http.Response) *sdk.HTTPReply {
	r := &sdk.HTTPReply{Status: resp.StatusCode, Headers: map[string][]string{}, Class: classOf(resp.StatusCode)}
	if r.Class != "" {
		r.RetryAfterMS = retryAfter(resp.Header, time.Now()).Milliseconds()
	}
	for name, values := range resp.Header {
		if name == "Set-Cookie" || name == "Set-Cookie2" {
			continue
		}
		name = h.redactor.Text(name)
		for _, v := range values {
			r.Headers[name] = append(r.Headers[name], strings.ToValidUTF8(h.redactor.Text(v), "\uFFFD"))
		}
	}
	return r
}

// unpack is the body as it was before it was compressed; what cannot be
// unpacked could not be searched for secrets either.
func (h *Host) unpack(resp *http.Response) (io.Reader, error) {
	encoding := strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ", "))
	switch encoding {
	case "", "identity":
		return resp.Body, nil
	case "gzip", "x-gzip":
		resp.Header.Del("Content-Encoding") // neither is true of what the step gets
		resp.Header.Del("Content-Length")
		return &gunzip{src: resp.Body}, nil
	}
	return nil, refusal{&sdk.Error{Class: sdk.ClassAPIError, Code: codeContentEncoded,
		Message: fmt.Sprintf("%s answered with content encoding %q, which was not asked for", resp.Request.URL.Host, encoding)}}
}

// gunzip begins to unpack when it is first read, so that the head of a stream
// does not wait for its body.
type gunzip struct {
	src io.Reader
	z   *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(g.src)
		if err != nil {
			return 0, err // io.EOF: there is no body
		}
		g.z = z
	}
	return g.z.Read(p)
}

// failure says why there is no response, or no more of it.
func (h *Host) failure(cause, err error) *sdk.Error {
	e := &sdk.Error{Class: sdk.ClassUnavailable, Code: codeConnect, Message: h.redactor.Text(err.Error())}
	var address *errAddress
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	var corrupt flate.CorruptInputError
	switch {
	case cause == errOwnTimeout, cause == errHeadTimeout, cause == errIdleTimeout:
		return sdk.AsError(cause)
	case errors.As(err, &address):
		e.Class, e.Code, e.Message = sdk.ClassSandbox, codeAddressDenied, address.Error()
	case errors.As(err, &dns):
		e.Code = codeDNS
	case errors.As(err, &certificate):
		e.Class, e.Code = sdk.ClassUnauthorized, codeTLS
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		e.Class, e.Code = sdk.ClassAPIError, codeContentEncoded
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Code, e.Message = codeBroken, "the server closed the connection before its response had ended"
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Class = sdk.ClassTimeout
	}
	return e
}
