package host

import (
	"fmt"
	"strings"

	"github.com/retrace-dev/engine/hcl"
)

// named finds steps by address ("step.a", or short "a"). That of a sub-workflow is
// that of all steps inside. loops says of each how many loops the address has.
func (f *Flow) named(address string) (is []int32, loops []int, err error) {
	full := hcl.FullAddress(address)
	wanted := strings.Split(full, "/")
	var names []string
	for i := range f.steps {
		own := f.steps[i].address
		names = append(names, own)
		parts := strings.Split(own, "/")
		if len(parts) < len(wanted) {
			continue
		}
		n, fits := 0, true
		for k, w := range wanted {
			bare := strings.TrimSuffix(parts[k], hcl.AllInstances)
			if bare != parts[k] {
				n++
			}
			fits = fits && (w == parts[k] || w == bare)
		}
		switch {
		case !fits:
		case len(parts) == len(wanted):
			return []int32{int32(i)}, []int{len(f.steps[i].Loops)}, nil
		default:
			is, loops = append(is, int32(i)), append(loops, n)
		}
	}
	if is == nil {
		return nil, nil, &UsageError{fmt.Sprintf("workflow %q has no step %q.%s", f.wf.Name, address, hcl.DidYouMean(full, names))}
	}
	return is, loops, nil
}

// only is the one step that an address names, and the instance; "" for the step.
func (f *Flow) only(address string) (step int32, name string, err error) {
	is, names, err := f.units([]string{address})
	if err != nil {
		return -1, "", err
	}
	if len(is) > 1 {
		inside := make([]string, 0, len(is))
		for _, i := range is {
			inside = append(inside, f.steps[i].address)
		}
		return -1, "", &UsageError{fmt.Sprintf("%s is a sub-workflow; name one of its steps: %s", address, strings.Join(inside, ", "))}
	}
	for name = range names[is[0]] { // at most one
	}
	return is[0], name, nil
}

// units finds steps and instances by address: "step.a", "a", a["k"]. Of a step
// that is named without instance, the names are nil.
func (f *Flow) units(addresses []string) ([]int32, map[int32]map[string]bool, error) {
	var is []int32
	names := map[int32]map[string]bool{}
	for _, a := range addresses {
		step, name, err := split(a)
		if err != nil {
			return nil, nil, err
		}
		found, loops, err := f.named(step)
		if err != nil {
			return nil, nil, err
		}
		for k, i := range found {
			switch n := len(hcl.InstanceKeys(name)); {
			case n == 0 || n <= loops[k]:
			case loops[k] == 0:
				return nil, nil, &UsageError{fmt.Sprintf("%s has no for_each and no instances; name it without [%s]", hcl.FullAddress(step), name)}
			default:
				return nil, nil, &UsageError{fmt.Sprintf("%s is in as many loops as have %d keys, and %s has %d", hcl.FullAddress(step), loops[k], a, n)}
			}
			was, twice := names[i]
			switch {
			case name == "":
				names[i] = nil
			case !twice:
				names[i] = map[string]bool{name: true}
			case was != nil:
				was[name] = true
			}
			if !twice {
				is = append(is, i)
			}
		}
	}
	return is, names, nil
}

// split is hcl.SplitAddress for what a person typed.
func split(typed string) (step, name string, err error) {
	if step, name, err = hcl.SplitAddress(typed); err != nil {
		return "", "", &UsageError{err.Error()}
	}
	return step, name, nil
}

// Address is the address of a step or instance as events have it: "a" is step.a,
// and a key is spelled in one way. The error is a *UsageError.
func Address(typed string) (string, error) {
	step, name, err := split(typed)
	if err != nil {
		return "", err
	}
	return hcl.InstanceAddress(hcl.FullAddress(step), name), nil
}

// quoted is an address as it stands in a shell.
func quoted(address string) string {
	if strings.ContainsAny(address, `["`) {
		return "'" + strings.ReplaceAll(address, "'", `'\''`) + "'"
	}
	return address
}
