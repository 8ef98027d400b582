package steptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/retrace-dev/engine/sdk"
)

// Case is one attempt with what it must answer, recorded in a file:
//
//	{"request":  {"step_type": "chat", "input": {"prompt": "hi"}},
//	 "http":     [{"match": {"method": "POST", "url": "https://api.example/v1/chat", "body": {"prompt": "hi"}},
//	               "reply": {"status": 200, "headers": {}, "body": {"text": "hello"}}}],
//	 "response": {"output": {"text": "hello"}}}
//
// or "stops": true in place of the response, for an input on which the step
// runs until it is told to stop.
type Case struct {
	// Request is what the step receives. Fields that are left out are made up;
	// the step type may be left out of a plugin that has one.
	Request sdk.Request `json:"request"`
	// HTTP answers the step's http operations. Each entry is used once, and must
	// be.
	HTTP []Exchange `json:"http,omitempty"`
	// Response holds what the response must: an output as it must be, and of
	// everything else (error, usage, warnings, context) the members to look at.
	Response json.RawMessage `json:"response,omitempty"`
	Stops    bool            `json:"stops,omitempty"`
}

// Exchange is one recorded HTTP request.
type Exchange struct {
	// Match is the part of the operation that must be there: members of its
	// message (method, url, headers, secrets) and body, a string or the part of a
	// JSON body that must be there.
	Match json.RawMessage `json:"match"`
	// Reply is the operation's reply: {"status", "headers", "body"}, with the
	// body as a string or as JSON and with the class where the status fails, or
	// {"error": {"class", ..}} for a request that got no answer.
	Reply json.RawMessage `json:"reply"`
}

// ParseCase reads a case. Unlike elsewhere an unknown field is an error: a
// check that is misspelt would not be made.
func ParseCase(b []byte) (*Case, error) {
	if err := sdk.CheckJSON(b); err != nil {
		return nil, err
	}
	var c Case
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	var want struct{ Output, Error json.RawMessage }
	switch {
	case c.Request.Input == nil:
		return nil, errors.New("request.input is missing")
	case c.Stops && c.Response != nil:
		return nil, errors.New(`a case has either "response" or "stops"`)
	case c.Stops:
		return &c, nil
	case c.Response == nil:
		return nil, errors.New(`"response" is missing`)
	case json.Unmarshal(c.Response, &want) != nil || (want.Output == nil) == (want.Error == nil):
		return nil, errors.New(`"response" must hold an output or an error`)
	}
	for i, x := range c.HTTP {
		if x.Match == nil || x.Reply == nil {
			return nil, fmt.Errorf(`http entry %d needs "match" and "reply"`, i)
		}
	}
	return &c, nil
}

// CheckCase runs a case on a step of the type that the case names. Operations
// other than http are done by o.Host; of the other options Type, Config,
// Within and the timeouts are used.
func CheckCase(ctx context.Context, step sdk.Step, c *Case, o Options) error {
	o.setDefaults()
	player := &player{host: o.Host, left: slices.Clone(c.HTTP)}
	o.Host = player
	check := &checker{step: step, o: o, base: c.Request}
	if c.Stops {
		check.o.Slow = c.Request.Input
		return errors.Join(check.deadline(ctx), check.cancel(ctx))
	}
	timed, cancel := context.WithTimeout(ctx, check.o.Timeout)
	defer cancel()
	r, err := check.attempt(timed, c.Request.Input)
	if player.unmatched != "" {
		return fmt.Errorf("the step asked for %s, which no http entry matches that is left", player.unmatched)
	}
	if err != nil {
		r = &sdk.Response{Error: sdk.AsError(err)}
	}
	if err := compare(c.Response, r); err != nil {
		return err
	}
	if len(player.left) > 0 {
		return fmt.Errorf("the step did not make %d of %d recorded requests; the first is %s", len(player.left), len(c.HTTP), player.left[0].Match)
	}
	return nil
}

// compare wants the output to be equal and the other members to be there.
func compare(want json.RawMessage, r *sdk.Response) error {
	b, err := sdk.Marshal(r)
	if err != nil {
		return err
	}
	var w, got map[string]json.RawMessage
	if err := errors.Join(sdk.Unmarshal(want, &w), sdk.Unmarshal(b, &got)); err != nil {
		return err
	}
	for name, v := range w {
		switch {
		case got[name] == nil:
			return fmt.Errorf("the response is %s, want %s %s", b, name, v)
		case name == "output" && !equal(got[name], v), name != "output" && !contains(got[name], v):
			return fmt.Errorf("the response has %s %s, want %s", name, got[name], v)
		}
	}
	return nil
}

// player answers http operations from recorded exchanges.
type player struct {
	host sdk.Host

	mu        sync.Mutex
	left      []Exchange
	unmatched string
	streams   [][]byte // bodies of streams, by number less one
}

func (p *player) Call(ctx context.Context, msg []byte) ([]byte, error) {
	head, body := sdk.Split(msg)
	var op struct {
		Op, Method, URL string
		Stream          any // of http a bool, of the stream operations a number
	}
	if sdk.Unmarshal(head, &op) != nil {
		return p.host.Call(ctx, msg)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch op.Op {
	case "http":
		for i, x := range p.left {
			if matches(x.Match, head, body) {
				p.left = slices.Delete(p.left, i, i+1)
				return p.play(x.Reply, op.Stream == true)
			}
		}
		p.unmatched = strings.TrimSpace(op.Method + " " + op.URL)
		return []byte(`{"error":{"class":"internal","code":"not_recorded","message":"no recorded request matches"}}`), nil
	case "stream_read", "stream_close":
		n, _ := op.Stream.(json.Number)
		for i := range p.streams {
			if n.String() == fmt.Sprint(i+1) && op.Op == "stream_read" {
				body, p.streams[i] = p.streams[i], nil
				return sdk.Join([]byte(`{"ok":{"eof":true}}`), body), nil
			}
		}
		return []byte(`{"ok":{}}`), nil
	}
	return p.host.Call(ctx, msg)
}

// matches reports whether the operation has everything that match names.
func matches(match, head, body []byte) bool {
	var m map[string]json.RawMessage
	if sdk.Unmarshal(match, &m) != nil {
		return false
	}
	if want, ok := m["body"]; ok {
		var text string
		if json.Unmarshal(want, &text) == nil {
			if text != string(body) {
				return false
			}
		} else if !contains(body, want) {
			return false
		}
		delete(m, "body")
	}
	rest, err := sdk.Marshal(m)
	return err == nil && contains(head, rest)
}

// play makes the reply message of a recorded one.
func (p *player) play(reply json.RawMessage, stream bool) ([]byte, error) {
	var r map[string]json.RawMessage
	if err := sdk.Unmarshal(reply, &r); err != nil {
		return nil, err
	}
	if e, ok := r["error"]; ok {
		return sdk.Marshal(map[string]json.RawMessage{"error": e})
	}
	body := []byte(r["body"])
	var text string
	if json.Unmarshal(body, &text) == nil {
		body = []byte(text)
	}
	delete(r, "body")
	if r["headers"] == nil {
		r["headers"] = json.RawMessage(`{}`)
	}
	if stream {
		p.streams = append(p.streams, body)
		r["stream"], body = fmt.Append(nil, len(p.streams)), nil
	}
	head, err := sdk.Marshal(map[string]any{"ok": r})
	return sdk.Join(head, body), err
}

// contains reports whether the JSON text has everything that part names: equal
// scalars, of objects the members, of arrays as many elements.
func contains(text, part []byte) bool {
	var t, p any
	return sdk.Unmarshal(text, &t) == nil && sdk.Unmarshal(part, &p) == nil && within(t, p)
}

func within(t, p any) bool {
	switch p := p.(type) {
	case map[string]any:
		o, ok := t.(map[string]any)
		for k, v := range p {
			w, has := o[k]
			ok = ok && has && within(w, v)
		}
		return ok
	case []any:
		a, ok := t.([]any)
		if !ok || len(a) != len(p) {
			return false
		}
		for i := range p {
			ok = ok && within(a[i], p[i])
		}
		return ok
	}
	return same(t, p)
}
