// Package loadertest is what the tests of loaders share.
package loadertest

import (
	"context"
	"testing"
	"time"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// Open opens an artifact.
func Open(t testing.TB, l loader.Loader, path string) *loader.Artifact {
	t.Helper()
	a, err := l.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Load opens and loads a plugin, which is closed when the test ends.
func Load(t testing.TB, l loader.Loader, path string) loader.Plugin {
	t.Helper()
	p, err := l.Load(context.Background(), Open(t, l, path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Step gives a step of a plugin.
func Step(t testing.TB, p loader.Plugin, stepType string, limits loader.Limits) sdk.Step {
	t.Helper()
	s, err := p.Step(stepType, limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ByTurns runs both in turns and reports how long each takes, and how much longer the
// second than the first.
func ByTurns(b *testing.B, first, second func() error) {
	b.Helper()
	var took [2]time.Duration
	for b.Loop() {
		for k, f := range []func() error{first, second} {
			began := time.Now()
			if err := f(); err != nil {
				b.Fatal(err)
			}
			took[k] += time.Since(began)
		}
	}
	b.ReportMetric(float64(took[0].Nanoseconds())/1000/float64(b.N), "µs-first")
	b.ReportMetric(float64(took[1].Nanoseconds())/1000/float64(b.N), "µs-second")
	b.ReportMetric(float64(took[1])/float64(took[0]), "times")
	b.ReportMetric(0, "ns/op") // of both
}
