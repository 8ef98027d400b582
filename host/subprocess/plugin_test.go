//go:build unix

package subprocess

import (
	"testing"

	"github.com/retrace-dev/engine/host/loader"
)

func TestEcho(t *testing.T) {
	t.Parallel()
	for _, self := range []bool{true, false} {
		s := stepOf(t, load(t, newLoader(t, self), probe(t, probeManifest)), "probe", loader.Limits{})
		r, err := s.Run(t.Context(), request(`{"do":"echo","text":"中文 🏴 עברית"}`), &recorder{})
		if err != nil || string(r.Output) != `"中文 🏴 עברית"` {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
