package storetest

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// testBlobs: a blob is there when it is committed, for its tenant alone; data that
// refers to one that is not there is as good as absent.
func testBlobs(t *testing.T, s checkpoint.Store) {
	read := func(tenant string, d sdk.Digest, from int64) string {
		t.Helper()
		r, err := s.OpenBlob(t.Context(), tenant, d)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := r.Seek(from, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	make := func(tenant string, parts ...string) sdk.Digest {
		t.Helper()
		w, err := s.CreateBlob(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Discard() // after Commit it undoes nothing
		for _, p := range parts {
			if _, err := io.WriteString(w, p); err != nil {
				t.Fatal(err)
			}
		}
		d, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	text := "a\x00中" + strings.Repeat("x", 100_000)
	d := make(tenant, text[:3], text[3:])
	wantEqual(t, "digest", d, sdk.Sum([]byte(text)))
	wantEqual(t, "again", make(tenant, text), d)
	wantEqual(t, "content", read(tenant, d, 0), text)
	wantEqual(t, "content from 2", read(tenant, d, 2), text[2:])
	empty := make(tenant)
	wantEqual(t, "an empty blob", read(tenant, empty, 0), "")
	if there, err := s.HasBlob(t.Context(), "other", d); there || err != nil {
		t.Errorf("another tenant: %v, %v", there, err)
	}
	_, err := s.OpenBlob(t.Context(), "other", d)
	wantError(t, "another tenant", err, checkpoint.ErrNotFound)
	dropped, err := s.CreateBlob(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(dropped, "dropped"); err != nil {
		t.Fatal(err)
	}
	dropped.Discard()
	if there, err := s.HasBlob(t.Context(), tenant, sdk.Sum([]byte("dropped"))); there || err != nil {
		t.Errorf("a discarded blob: %v, %v", there, err)
	}

	refer := func(d sdk.Digest) string { return fmt.Sprintf(`{"a":[{"$blob":%q,"size":1}],"b":"blob\""}`, d) }
	with := put(t, s, record("r_1", "step.a", "", "p1", "c1"), refer(d))
	if data, err := s.Data(t.Context(), tenant, with.Data); err != nil || string(data) != refer(d) {
		t.Errorf("%s, %v", data, err)
	}
	without := put(t, s, record("r_1", "step.b", "", "p2", "c2"), refer(sdk.Sum([]byte("nowhere"))))
	_, err = s.Data(t.Context(), tenant, without.Data)
	wantError(t, "a reference to nothing", err, checkpoint.ErrNotFound)
}
