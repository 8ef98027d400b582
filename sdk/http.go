package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// HTTPOp sends exactly one HTTP request to a host that the flow allows. It is
// not repeated and no redirect is followed; the body is the raw bytes after the
// message. The host owns Host, Cookie, Accept-Encoding, the hop-by-hop headers
// and those that Secrets sets; naming them in Headers is an error.
type HTTPOp struct {
	Op        string              `json:"op"`
	Method    string              `json:"method,omitempty"` // Defaults to GET
	URL       string              `json:"url"`
	Headers   map[string][]string `json:"headers,omitempty"`
	Secrets   []HeaderSecret      `json:"secrets,omitempty"`
	TimeoutMS int64               `json:"timeout_ms,omitempty"` // of all of it, a stream's reading included; 0 = what the attempt has left
	Stream    bool                `json:"stream,omitempty"`     // the reply names a stream in place of the body
	// HeadTimeoutMS bounds the wait for the reply's status and headers; 0 =
	// TimeoutMS alone does.
	HeadTimeoutMS int64 `json:"head_timeout_ms,omitempty"`
}

// HeaderSecret lets the host set a header to Prefix and the value of a secret.
// The step never sees the value.
type HeaderSecret struct {
	Header string `json:"header"`
	Prefix string `json:"prefix,omitempty"` // "Bearer "
	Name   string `json:"name"`
}

// Secret is what stands in an input or config in place of a bound secret:
// {"$secret":"name"}. Its name goes into HeaderSecret.Name.
type Secret struct {
	Name string `json:"$secret"`
}

// HeaderValue is the value of a header in an input or config: a string, or a bound
// secret that the host fills in. The zero value is no header.
type HeaderValue struct{ text, secret string }

// UnmarshalJSON reads a string or {"$secret":"name"}.
func (v *HeaderValue) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return json.Unmarshal(b, &v.text)
	}
	var ref Secret
	if err := json.Unmarshal(b, &ref); err != nil {
		return err
	}
	if ref.Name == "" {
		return errors.New("want a string or a secret")
	}
	v.secret = ref.Name
	return nil
}

// Set gives op the header, with prefix before the value, in place of what it has
// under that name. An empty value sets nothing.
func (v HeaderValue) Set(op *HTTPOp, header, prefix string) {
	switch {
	case v.secret != "":
		op.Secrets = append(op.Secrets, HeaderSecret{Header: header, Prefix: prefix, Name: v.secret})
	case v.text != "":
		if op.Headers == nil {
			op.Headers = map[string][]string{}
		}
		op.Headers[header] = []string{prefix + v.text}
	}
}

// HTTPReply goes before the body of an HTTP response. Any status is a reply; a
// failing one has the Class that it stands for.
type HTTPReply struct {
	Status       int                 `json:"status"`
	Headers      map[string][]string `json:"headers"` // names in canonical form, Set-Cookie left out
	Stream       int                 `json:"stream,omitempty"`
	Class        Class               `json:"class,omitempty"` // "" for 1xx, 2xx and 304
	RetryAfterMS int64               `json:"retry_after_ms,omitempty"`
}

// Header returns the first value of a header, or "".
func (r *HTTPReply) Header(name string) string {
	for n, v := range r.Headers {
		if len(v) > 0 && strings.EqualFold(n, name) {
			return v[0]
		}
	}
	return ""
}

// Err is the failing status as a step's error, with the beginning of the body
// in its message; nil if the status does not fail.
func (r *HTTPReply) Err(body []byte) *Error {
	if r.Class == "" {
		return nil
	}
	e := &Error{Class: r.Class, Code: fmt.Sprintf("http_%d", r.Status), Message: fmt.Sprintf("the server answered %d", r.Status), RetryAfterMS: r.RetryAfterMS}
	if to := r.Header("Location"); to != "" && r.Status < 400 {
		e.Message += " and points to " + to + "; redirects are not followed"
	}
	if text := beginning(body); text != "" {
		e.Message += ": " + text
	}
	return e
}

// beginning is the first 500 bytes of a text; "" of what is no text.
func beginning(body []byte) string {
	const most = 500
	cut := body
	if len(body) > most {
		cut = body[:most]
		for k := 0; k < utf8.UTFMax && !utf8.Valid(cut); k++ {
			cut = cut[:len(cut)-1]
		}
	}
	text := strings.TrimSpace(string(cut))
	switch {
	case !utf8.ValidString(text):
		return ""
	case len(cut) < len(body):
		return text + "..."
	}
	return text
}

// HTTP sends one request. The error is an *Error for what was refused or could
// not be reached; a failing status is a reply.
func HTTP(ctx context.Context, host Host, op HTTPOp, body []byte) (*HTTPReply, []byte, error) {
	op.Op = OpHTTP
	ok, data, err := Operate(ctx, host, op, body)
	if err != nil {
		return nil, nil, err
	}
	var r HTTPReply
	if err := Unmarshal(ok, &r); err != nil {
		return nil, nil, &Error{Class: ClassInternal, Message: "reply to http: " + err.Error()}
	}
	return &r, data, nil
}
