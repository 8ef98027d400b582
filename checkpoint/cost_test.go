package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// What is not known is never told as 0, and comes back from JSON as it was.
func TestCost(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]checkpoint.Cost{
		`{"usd":0}`:                   {},
		`{"usd":0.00012}`:             {USD: 0.00012},
		`{"unknown":true}`:            {Unknown: true},
		`{"usd":12.5,"unknown":true}`: {USD: 12.5, Unknown: true},
	} {
		b, err := sdk.Marshal(c)
		if err != nil || string(b) != want {
			t.Errorf("%+v is %s, %v", c, b, err)
		}
		var back checkpoint.Cost
		if err := json.Unmarshal(b, &back); err != nil || back != c {
			t.Errorf("%s is %+v, %v", b, back, err)
		}
	}
	if c := (checkpoint.Cost{USD: 1}).Plus(checkpoint.Cost{Unknown: true}).Plus(checkpoint.Cost{USD: 0.25}); c != (checkpoint.Cost{USD: 1.25, Unknown: true}) || c.String() != "1.2500 USD and what has no known price" {
		t.Error(c)
	}
	if s := (checkpoint.Cost{Unknown: true}).String(); s != "price unknown" {
		t.Error(s)
	}
}

// A head keeps its cost; what is no number is damage.
func TestHeadCost(t *testing.T) {
	t.Parallel()
	plain := checkpoint.AppendHead(nil, &checkpoint.Head{ID: "chk_a", Step: "step.a"})
	for _, c := range []checkpoint.Cost{{}, {USD: 0.000123}, {Unknown: true}, {USD: 12.5, Unknown: true}} {
		b := checkpoint.AppendHead(nil, &checkpoint.Head{ID: "chk_a", Step: "step.a", Cost: c})
		h, err := checkpoint.DecodeHead(b)
		if err != nil || h.Cost != c {
			t.Errorf("%+v came back as %+v, %v", c, h, err)
		}
		if c == (checkpoint.Cost{}) && !bytes.Equal(b, plain) {
			t.Errorf("nothing takes %d bytes more", len(b)-len(plain))
		}
	}
	bad := checkpoint.AppendHead(nil, &checkpoint.Head{ID: "chk_a", Step: "step.a", Cost: checkpoint.Cost{USD: math.NaN()}})
	if h, err := checkpoint.DecodeHead(bad); err == nil {
		t.Errorf("accepted: %+v", h)
	}
}
