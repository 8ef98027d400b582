package checkpoint

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/sdk"
)

// The members' digests are those of their values, whatever lies inside of them.
func TestMemberDigests(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]string{
		`{"b":{"x":1},"a":[{"y":2}],"é":"文"}`: {"a": `[{"y":2}]`, "b": `{"x":1}`, "é": `"文"`},
		` {"a":null} `:                        {"a": `null`},
		`{}`:                                  {},
		`[{"a":1}]`:                           {},
		`"{}"`:                                {},
	} {
		whole, ms, err := MemberDigests(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		if d, _ := ValueDigest(json.RawMessage(text)); d != whole {
			t.Errorf("%s: as a whole %s, want %s", text, whole, d)
		}
		got, wanted := map[string]sdk.Digest{}, map[string]sdk.Digest{}
		for _, m := range ms {
			got[m.Name] = m.Digest
		}
		for name, value := range want {
			wanted[name] = mustDigest(value)
		}
		if d := cmp.Diff(wanted, got); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
	if _, _, err := MemberDigests(json.RawMessage(`{"a":1,"a":2}`)); err == nil {
		t.Error("two equal keys were accepted")
	}
}
