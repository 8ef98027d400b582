package hcl

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

// AllInstances stands in the address of a step inside of a sub-workflow with
// for_each, in the place of an instance's key: step.sub[*]/step.a is all of
// step.sub["k"]/step.a.
const AllInstances = "[*]"

// InstanceAddress is the address of the instance of this name, or with "" of the
// step itself. Of a step inside of a sub-workflow with for_each the name stands
// where the for_each is written: step.sub["k"]/step.a.
func InstanceAddress(step, name string) string {
	if name == "" {
		return step
	}
	if around, inside, ok := strings.Cut(step, AllInstances); ok {
		return around + "[" + name + "]" + inside
	}
	return step + "[" + name + "]"
}

// InstanceName is a key of a for_each, in JSON, as it stands in an address: 0, "k".
func InstanceName(key json.RawMessage) string {
	var s string
	if json.Unmarshal(key, &s) != nil {
		return string(key)
	}
	b, _ := sdk.Marshal(s) // one spelling, whatever escapes the key was written with
	return string(b)
}

// SplitAddress takes an address apart: step.a["k"] is step.a and "k",
// step.sub["k"]/step.a is step.sub[*]/step.a and "k". Of a step the name is "". The
// error says how an instance is named.
func SplitAddress(address string) (step, name string, err error) {
	open := strings.IndexByte(address, '[')
	if open < 0 || strings.HasPrefix(address[open:], AllInstances) {
		return address, "", nil
	}
	key := address[open+1:]
	end := strings.IndexByte(key, ']')
	if strings.HasPrefix(key, `"`) { // what is in the quotes may be anything
		d := json.NewDecoder(strings.NewReader(key))
		var s string
		if d.Decode(&s) == nil {
			end = int(d.InputOffset())
		}
	}
	inside, closed := "", false
	if end >= 0 && end < len(key) {
		key, inside, closed = key[:end], key[end+1:], key[end] == ']'
	}
	_, e := strconv.ParseUint(key, 10, 31)
	if !closed || e != nil && (sdk.CheckJSON([]byte(key)) != nil || key[0] != '"') || inside != "" && inside[0] != '/' {
		return "", "", fmt.Errorf("%s is no address of an instance; write 'step.NAME[0]' or 'step.NAME[\"key\"]', and of a step in a sub-workflow 'step.SUB[\"key\"]/step.NAME', in single quotes", address)
	}
	if step = address[:open]; inside != "" {
		step += AllInstances + inside
	}
	return step, InstanceName([]byte(key)), nil
}

// FullAddress is an address with the words step. that a person may leave out:
// "sub/a" is step.sub/step.a. It has no key in it.
func FullAddress(typed string) string {
	parts := strings.Split(typed, "/")
	for i, p := range parts {
		parts[i] = "step." + strings.TrimPrefix(p, "step.")
	}
	return strings.Join(parts, "/")
}

// Covers reports whether what a person named, a step, an instance or a
// sub-workflow as Address has it, is or contains the step or instance of an
// address.
func Covers(named, address string) bool {
	step, _, err := SplitAddress(address)
	if err != nil {
		return address == named
	}
	plain := strings.ReplaceAll(step, AllInstances, "")
	for _, a := range []string{address, step, plain} {
		if a == named || strings.HasPrefix(a, named+"/") {
			return true
		}
	}
	return false
}
