package pebblestore

import (
	"bytes"
	"encoding/hex"
	"testing"

	"go.uber.org/goleak"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/storetest"
)

func TestMain(m *testing.M) {
	// Pebble leaves this one behind when its Open fails.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cockroachdb/pebble/v2.(*ConcurrencyLimitScheduler).periodicGranter"))
}

func mustOpen(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() }) // tests that look at its error call it themselves
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) checkpoint.Store { return mustOpen(t, t.TempDir(), Options{}) })
}

// testKey is a key that is told apart by its number.
func testKey(t *testing.T, n byte) checkpoint.Key {
	t.Helper()
	k, err := checkpoint.ParseKey([]byte(hex.EncodeToString(bytes.Repeat([]byte{n}, 32))))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestEncryptedStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) checkpoint.Store {
		return mustOpen(t, t.TempDir(), Options{Encrypt: true, Key: testKey(t, 1)})
	})
}
