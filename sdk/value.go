package sdk

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// maxExponent is beyond what a float64 can hold.
const maxExponent = 400

// DecodeAny decodes what CheckJSON accepts into maps, slices and json.Number, for
// programs that calculate with any number exactly, as JSON Schemas demand. It
// refuses those with an exponent beyond 400: 1e999999999 would take all memory.
func DecodeAny(b []byte) (any, error) {
	var v any
	if err := Unmarshal(b, &v); err != nil {
		return nil, err
	}
	return v, tame(v)
}

// tame recurses no deeper than MaxDepth, which holds for what was decoded.
func tame(v any) error {
	switch v := v.(type) {
	case json.Number:
		if i := strings.IndexAny(string(v), "eE"); i >= 0 {
			if e, err := strconv.Atoi(string(v[i+1:])); err != nil || e > maxExponent || e < -maxExponent {
				return fmt.Errorf("the number %.40s is out of range", v)
			}
		}
	case []any:
		for _, x := range v {
			if err := tame(x); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, x := range v {
			if err := tame(x); err != nil {
				return err
			}
		}
	}
	return nil
}
