package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestEnumsRoundTrip(t *testing.T) {
	t.Parallel()
	for s := Pending; s <= Cancelled; s++ {
		b, err := json.Marshal(s)
		var back State
		if err != nil || json.Unmarshal(b, &back) != nil || back != s {
			t.Errorf("state %v: %s, %v, %v", s, b, err, back)
		}
	}
	var s State
	if err := json.Unmarshal([]byte(`"done"`), &s); err == nil {
		t.Error("unknown state was accepted")
	}
	d := Sum([]byte("x"))
	b, _ := json.Marshal(d)
	var back Digest
	if err := json.Unmarshal(b, &back); err != nil || back != d {
		t.Errorf("digest %s: %v", b, err)
	}
	for _, c := range Classes() {
		if !c.Valid() || c.Deterministic() && c.RetriedByDefault() {
			t.Errorf("class %s is inconsistent", c)
		}
	}
	if len(Classes()) != len(classes) {
		t.Error("Classes does not list every class")
	}
}

func TestErrorNormalize(t *testing.T) {
	t.Parallel()
	for c, want := range map[Class]Class{ClassTimeout: ClassTimeout, ClassSandbox: ClassInternal, "made_up": ClassInternal, ClassCancelled: ClassInternal} {
		if got := (&Error{Class: c, Message: "m", Stderr: "forged"}).Normalize(); got.Class != want || got.Stderr != "" {
			t.Errorf("%s became %+v", c, got)
		}
	}
	wrapped := fmt.Errorf("while reading: %w", &Error{Class: ClassQuota})
	if AsError(wrapped).Class != ClassQuota || AsError(errors.New("x")).Class != ClassInternal || AsError(nil) != nil {
		t.Error("AsError lost the class")
	}
}

func TestFunc(t *testing.T) {
	t.Parallel()
	type in struct {
		Text string `json:"text"`
	}
	s := Func(func(_ context.Context, in in, _ Host) (map[string]string, error) {
		return map[string]string{"echo": in.Text}, nil
	})
	r, err := s.Run(context.Background(), &Request{Input: json.RawMessage(`{"text":"<b>中文</b>"}`)}, nil)
	if err != nil || string(r.Output) != `{"echo":"<b>中文</b>"}` {
		t.Errorf("%s, %v", r.Output, err)
	}
	_, err = s.Run(context.Background(), &Request{Input: json.RawMessage(`{"text":1}`)}, nil)
	if e := AsError(err); e.Class != ClassInvalidInput || e.Path != "/text" {
		t.Errorf("wrong type gives %v at %q", e, e.Path)
	}
}

type echoHost struct{ seen []byte }

func (h *echoHost) Call(_ context.Context, msg []byte) ([]byte, error) {
	h.seen = msg
	return []byte("{\"ok\":{\"n\":1}}\x00raw\x00bytes"), nil
}

func TestOperateCarriesRawBytes(t *testing.T) {
	t.Parallel()
	h := &echoHost{}
	ok, body, err := Operate(context.Background(), h, EmitOp{OpEmit, "a"}, []byte("x\x00y"))
	if err != nil || string(ok) != `{"n":1}` || string(body) != "raw\x00bytes" || string(h.seen) != "{\"op\":\"emit\",\"chunk\":\"a\"}\x00x\x00y" {
		t.Errorf("ok %s, body %q, sent %q, %v", ok, body, h.seen, err)
	}
}

func TestParseManifest(t *testing.T) {
	t.Parallel()
	if _, err := ParseManifest([]byte("\xef\xbb\xbf" + `{"abi":1,"name":"x","steps":{"run":{"effects":"read"}},"later":1}`)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{"abi":2,"name":"x"}`, `{"abi":1,"name":"X"}`, `{"abi":1,"name":"x","memory_mb":1025}`, `{"abi":1,"name":"x","memory_mb":-1}`, `{"abi":1,"name":"x","steps":{"A":{}}}`, `{"abi":1,"name":"x","io":"xml"}`, `{"abi":1,"name":"x","name":"y"}`, `{"abi":1,"name":"x","steps":{"a":{"effects":"some"}}}`} {
		if m, err := ParseManifest([]byte(bad)); err == nil {
			t.Errorf("%s was accepted as %+v", bad, m)
		}
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	parse := func(capability string) (*Manifest, error) {
		return ParseManifest([]byte(`{"abi":1,"name":"x","capabilities":[{"http":"*","reason":"r"},` + capability + `]}`))
	}
	for _, c := range []struct{ capability, want string }{
		{`{"http":"api.example","reason":"r"}`, "http api.example"},
		{`{"mount":"data","reason":"r"}`, "mount data (ro)"},
		{`{"mount":"data","mode":"ro","reason":"r"}`, "mount data (ro)"},
		{`{"mount":"data-2","mode":"rw","reason":"読む"}`, "mount data-2 (rw)"},
		{`{"env":"LC_ALL","reason":"r"}`, "env LC_ALL"},
		{`{"gpu":1,"reason":"r"}`, "something unknown"},
	} {
		m, err := parse(c.capability)
		if err != nil {
			t.Errorf("%s: %v", c.capability, err)
		} else if got := m.Capabilities[1].String(); got != c.want {
			t.Errorf("%s is %q, want %q", c.capability, got, c.want)
		}
	}
	for _, c := range []struct{ capability, want string }{
		{`{"env":"A","mount":"b","reason":"r"}`, "one of http, mount and env"},
		{`{"env":"A"}`, "env A: the reason is missing"},
		{`{"mount":"a/b","reason":"r"}`, `mount "a/b"`},
		{`{"mount":"tmp","reason":"r"}`, "taken"},
		{`{"mount":"a","mode":"wo","reason":"r"}`, "want ro or rw"},
		{`{"env":"A","mode":"rw","reason":"r"}`, "want ro or rw, of a mount"},
		{`{"env":"A=B","reason":"r"}`, `env "A=B"`},
	} {
		if _, err := parse(c.capability); err == nil || !strings.Contains(err.Error(), "capability 1: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.capability, err, c.want)
		}
	}
}
