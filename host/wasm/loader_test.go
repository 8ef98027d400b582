package wasm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/sdk"
)

func TestCommandAndReactor(t *testing.T) {
	t.Parallel()
	l := newLoader(t, Options{})
	for _, c := range []struct{ path, step string }{{"testdata/guests/command.wasm", "run"}, {"testdata/guests/reactor.wasm", "upper"}} {
		b, err := os.ReadFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "m.wasm")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.step == "run" {
			speaks(t, path)
		}
		a, p := loadertest.Open(t, l, path), loadertest.Load(t, l, path)
		if (a.Digest == sdk.Sum(a.Bytes)) != (c.step == "upper") || a.Kind != loader.Wasm || !bytes.Equal(a.Bytes, b) {
			t.Errorf("%s: a %s artifact with digest %s", c.path, a.Kind, a.Digest)
		}
		s := loadertest.Step(t, p, c.step, loader.Limits{})
		for range 2 { // nothing is left of the attempt before
			r, err := s.Run(t.Context(), request(`{"text":"hello עולם 🏴 world"}`), okHost)
			if err != nil || string(r.Output) != `{"upper":"HELLO עולם 🏴 WORLD","words":4}` {
				t.Fatalf("%s: %+v, %v", c.path, r, err)
			}
		}
		_, err = s.Run(t.Context(), request(`{"txt":1}`), okHost)
		if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassInvalidInput || e.Path != "/text" {
			t.Errorf("%s: %v", c.path, err)
		}
		if _, err := p.Step("other", loader.Limits{}); err == nil || !strings.Contains(err.Error(), c.step) {
			t.Errorf("%s: an unknown step type gives %v", c.path, err)
		}
	}
}
