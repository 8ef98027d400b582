package checkpoint

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/sdk"
)

func TestBlobs(t *testing.T) {
	t.Parallel()
	a, b := sdk.Sum([]byte("a")), sdk.Sum([]byte("b"))
	for _, c := range []struct {
		value string
		want  []sdk.Blob
		bad   bool
	}{
		{value: `{"x":1}`},
		{value: `{"blob":"x","y":"$blob"}`},
		{value: fmt.Sprintf(`{"$blob":%q,"size":3,"type":"image/png"}`, a), want: []sdk.Blob{{Digest: a, Size: 3, Type: "image/png"}}},
		{value: fmt.Sprintf(`[{"y":{"size":3,"\u0024blob":%q}},{"$blob":%q,"size":1},{"$blob":%q,"size":3}]`, b, a, b), want: []sdk.Blob{{Digest: b, Size: 3}, {Digest: a, Size: 1}}},
		{value: fmt.Sprintf(`{"$bl\u006fb":%q,"size":0}`, a), want: []sdk.Blob{{Digest: a}}},
		{value: `{"$blob":"sha256:12"}`, bad: true},
		{value: `{"$blob":null,"size":1}`, bad: true},
		{value: fmt.Sprintf(`{"$blob":%q,"size":-1}`, a), bad: true},
		{value: `{"$blob":1`, bad: true},
	} {
		got, err := Blobs(json.RawMessage(c.value))
		if (err != nil) != c.bad {
			t.Errorf("%s: %v", c.value, err)
		}
		if d := cmp.Diff(c.want, got); d != "" && !c.bad {
			t.Errorf("%s: %s", c.value, d)
		}
	}
}
