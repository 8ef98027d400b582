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
// step itself. The keys of the name stand where the loops are written: that of
// step.sub[*]/step.a and "k",0 is step.sub["k"]/step.a[0]. Those of the inner loops
// may be missing, then it is that of all instances.
func InstanceAddress(step, name string) string {
	if name == "" {
		return step
	}
	var b strings.Builder
	keys := InstanceKeys(name)
	for len(keys) > 0 {
		around, inside, ok := strings.Cut(step, AllInstances)
		if !ok {
			break
		}
		b.WriteString(around + "[" + keys[0] + "]")
		step, keys = inside, keys[1:]
	}
	b.WriteString(step)
	for _, key := range keys {
		b.WriteString("[" + key + "]")
	}
	return b.String()
}

// InstanceName is a key of a for_each, in JSON, as it stands in an address: 0, "k".
// That of an instance of loops in loops is the keys of all, the outermost first, with
// commas between them: "k",0.
func InstanceName(key json.RawMessage) string {
	var s string
	if json.Unmarshal(key, &s) != nil {
		return string(key)
	}
	b, _ := sdk.Marshal(s) // one spelling, whatever escapes the key was written with
	return string(b)
}

// InnerName is the name of the instance with this key in the instance of a name, ""
// where it is in no other.
func InnerName(around, key string) string {
	if around == "" {
		return key
	}
	return around + "," + key
}

// InstanceKeys are the keys in the name of an instance, the outermost first.
func InstanceKeys(name string) (keys []string) {
	for name != "" {
		end := strings.IndexByte(name, ',')
		if name[0] == '"' {
			end = quotedEnd(name)
		}
		if end < 0 || end >= len(name) {
			return append(keys, name)
		}
		keys, name = append(keys, name[:end]), name[end+1:]
	}
	return keys
}

// quotedEnd is where the JSON string ends that s begins with; -1 if it does not.
func quotedEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// FirstKeys is a name with at most n of its keys.
func FirstKeys(name string, n int) string {
	if keys := InstanceKeys(name); len(keys) > n {
		return strings.Join(keys[:n], ",")
	}
	return name
}

// InstanceIn reports whether the instance of a name is the one called around, or in it.
func InstanceIn(around, name string) bool {
	return around == name || strings.HasPrefix(name, around+",") // a key that ends there is a whole one
}

// SplitAddress takes an address apart: step.a["k"] is step.a and "k",
// step.sub["k"]/step.a[0] is step.sub[*]/step.a and "k",0. Of a step the name is "".
// The error says how an instance is named.
func SplitAddress(address string) (step, name string, err error) {
	rest := address
	all := "" // the first loop of which no instance is named
	for {
		open := strings.IndexByte(rest, '[')
		if open < 0 {
			return step + rest, name, nil
		}
		step, rest = step+rest[:open], rest[open:]
		if inside, ok := strings.CutPrefix(rest, AllInstances); ok {
			step, rest = step+AllInstances, inside
			if all == "" {
				all = step
			}
			continue
		}
		key := rest[1:]
		end := strings.IndexByte(key, ']')
		if strings.HasPrefix(key, `"`) { // what is in the quotes may be anything
			end = quotedEnd(key)
		}
		inside, closed := "", false
		if end >= 0 && end < len(key) {
			key, inside, closed = key[:end], key[end+1:], key[end] == ']'
		}
		_, e := strconv.ParseUint(key, 10, 31)
		if !closed || e != nil && (sdk.CheckJSON([]byte(key)) != nil || key[0] != '"') || inside != "" && inside[0] != '/' {
			return "", "", fmt.Errorf("%s is no address of an instance; write 'step.NAME[0]' or 'step.NAME[\"key\"]', and of a step in a sub-workflow 'step.SUB[\"key\"]/step.NAME', in single quotes", address)
		}
		if all != "" {
			return "", "", fmt.Errorf("%s names an instance in all instances; write a key in place of the * of %s too", address, all)
		}
		if name = InnerName(name, InstanceName([]byte(key))); inside != "" {
			step += AllInstances
		}
		rest = inside
	}
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
	step, name, err := SplitAddress(address)
	if err != nil {
		return address == named
	}
	wanted, of, err := SplitAddress(named)
	if err != nil || of != "" && !InstanceIn(of, name) {
		return false
	}
	whole, part := strings.Split(wanted, "/"), strings.Split(step, "/")
	if len(whole) > len(part) {
		return false
	}
	for i, w := range whole {
		if w != part[i] && w != strings.TrimSuffix(part[i], AllInstances) {
			return false
		}
	}
	return true
}
