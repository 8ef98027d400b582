package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// given are the answers that a person gives instead of attempts, by step and
// name of the instance, "" for a step without for_each.
type given map[int32]map[string]json.RawMessage

// givens finds the steps and instances that set names. The value of a whole
// step with for_each is a collection: an answer for each instance it names.
func (f *Flow) givens(set map[string]json.RawMessage) (given, error) {
	g := given{}
	for _, address := range slices.Sorted(maps.Keys(set)) {
		i, name, err := f.only(address)
		if err != nil {
			return nil, err
		}
		answers := map[string]json.RawMessage{name: set[address]}
		for range len(f.steps[i].Loops) - len(hcl.InstanceKeys(name)) {
			if answers, err = members(f.steps[i].address, answers); err != nil {
				return nil, err
			}
		}
		if g[i] == nil {
			g[i] = map[string]json.RawMessage{}
		}
		for name, v := range answers {
			if g[i][name] != nil {
				return nil, &UsageError{"--set gives the answer of " + hcl.InstanceAddress(f.steps[i].address, name) + " twice"}
			}
			g[i][name] = v
		}
	}
	return g, nil
}

// members are the elements of collections, by the names of their instances.
func members(step string, collections map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for name, v := range collections {
		var list []json.RawMessage
		var object map[string]json.RawMessage
		switch {
		case json.Unmarshal(v, &list) == nil && list != nil:
			for k, e := range list {
				out[hcl.InnerName(name, strconv.Itoa(k))] = e
			}
		case json.Unmarshal(v, &object) == nil && object != nil:
			for k, e := range object {
				key, _ := sdk.Marshal(k)
				out[hcl.InnerName(name, string(key))] = e
			}
		default:
			address := hcl.InstanceAddress(step, name)
			return nil, &UsageError{fmt.Sprintf("%s has for_each: give an object or a list of its instances' answers, or one of them as '%s'", address, hcl.InstanceAddress(step, hcl.InnerName(name, "KEY")))}
		}
	}
	return out, nil
}

// give takes the answers that a person gives, and checks them as a plugin's.
func (s *session) give(set map[string]json.RawMessage) (err error) {
	if s.given, err = s.f.givens(set); err != nil {
		return err
	}
	var diags hcl.Diagnostics
	for _, i := range slices.Sorted(maps.Keys(s.given)) {
		st := &s.f.steps[i]
		for _, name := range slices.Sorted(maps.Keys(s.given[i])) {
			v := s.given[i][name]
			err := sdk.CheckJSON(v)
			if err == nil {
				err = s.eval.CheckOutput(int(i), v)
			}
			if bad := fits(s.f.types[stepTypeKey{st.Plugin, st.StepType}].schemas.output, v, sdk.ClassValidation, "it"); err == nil && bad != nil {
				err = bad
			}
			if err != nil {
				diags = append(diags, hcl.Diagnostic{Code: "bad-set", Subject: st.Range,
					Summary: fmt.Sprintf("The value of --set is no answer of %s", hcl.InstanceAddress(st.address, name)), Detail: sentence(err.Error())})
			}
		}
	}
	if diags.HasErrors() {
		return diags
	}
	return nil
}

// answer is what a person gives for step i or its instance of this name; nil if
// nothing.
func (s *session) answer(i int32, name string) json.RawMessage { return s.given[i][name] }

// supply takes out, which a person gave, for the answer of w.
func (r *run) supply(w *work, out json.RawMessage) {
	st := r.step(w)
	w.supplied, w.started = true, time.Time{}
	scope := w.scope
	scope.Input, scope.Output = w.input, out
	if err := r.holds(w, scope); err != nil {
		w.failed(err)
		return
	}
	if err := r.s.blobs().keep(w.ctx, out, nil); err != nil {
		w.failed(r.text(err))
		return
	}
	sanitized, err := st.sanitizer.Sanitize(r.s.secrets.redactor().JSON(out), nil)
	if err != nil {
		w.failed(r.text(sdk.AsError(err)))
		return
	}
	w.sanitized, w.end = sanitized, endResult
	w.record = r.newRecord(w)
	w.record.Operator = true
	r.prepareUndo(w, sanitized.Data())
	w.record.Context.Undo = w.undo
}

// maxInputHead is how much of an input its record keeps, in bytes: enough to
// see which prompt it was, little beside the record.
const maxInputHead = 512

// inputHead is how an input begins, cut between characters.
func inputHead(input string) string {
	if len(input) <= maxInputHead {
		return input
	}
	cut := maxInputHead
	for cut > 0 && !utf8.RuneStart(input[cut]) {
		cut--
	}
	return input[:cut] + "…"
}

// from lists what RunOptions.From makes run: for each address the step and
// everything below it. An instance takes with it the instances that follow it,
// and of other steps the whole.
func (f *Flow) from(addresses []string) (is []int32, names map[int32]map[string]bool, cause map[int32]string, err error) {
	asked, names, err := f.units(addresses)
	if err != nil || len(asked) == 0 {
		return nil, nil, nil, err
	}
	cause = make(map[int32]string, len(asked))
	for _, i := range asked {
		cause[i] = f.steps[i].address
	}
	for _, i := range f.graph.Order() {
		refs := f.graph.AllRefs(i)
		for k := range refs {
			from, below := cause[refs[k].Step]
			if !below {
				continue
			}
			above := namedBelow(&refs[k], names[refs[k].Step])
			was, twice := names[i]
			switch {
			case above == nil:
				names[i] = nil
			case !twice:
				names[i] = above
			case was != nil:
				maps.Copy(was, above)
			}
			if cause[i] == "" {
				cause[i] = from
			}
		}
		if cause[i] != "" {
			is = append(is, i)
		}
	}
	return is, names, cause, nil
}

// Repeats lists the addresses of the steps with effects that o makes run again without
// naming them: those that are below what o.From names or in what o.Rerun names, and of
// o.From the named ones too. They come in the order of the flow. The error is a
// *UsageError.
func (f *Flow) Repeats(o RunOptions) ([]string, error) {
	repeated, _, _, err := f.from(o.From)
	if err != nil {
		return nil, err
	}
	for _, address := range o.Rerun {
		is, _, err := f.units([]string{address})
		if err != nil {
			return nil, err
		}
		step, _, _ := split(address) // units has split it
		for _, i := range is {
			if f.steps[i].address != hcl.FullAddress(step) {
				repeated = append(repeated, i)
			}
		}
	}
	var out []string
	for _, i := range f.graph.Order() {
		if f.steps[i].effects.Changes() && slices.Contains(repeated, i) {
			out = append(out, f.steps[i].address)
		}
	}
	return out, nil
}

// demand notes what o asks to run although it is current, and what a person
// gives the answer of.
func (s *session) demand(o RunOptions) (err error) {
	if s.options.Rerun, s.reruns, err = s.f.units(o.Rerun); err != nil {
		return err
	}
	from, names, cause, err := s.f.from(o.From)
	if err != nil {
		return err
	}
	s.below = cause
	for _, i := range from {
		if _, twice := s.reruns[i]; !twice {
			s.options.Rerun = append(s.options.Rerun, i)
			s.reruns[i] = names[i]
		} else if names[i] == nil {
			s.reruns[i] = nil
		} else if s.reruns[i] != nil {
			maps.Copy(s.reruns[i], names[i])
		}
	}
	s.options.Set = slices.Sorted(maps.Keys(s.given))
	return nil
}

// askedFor is the reason of a step that was asked for.
func (s *session) askedFor(i int32) string {
	switch from := s.below[i]; from {
	case "":
		return "asked for with --rerun"
	case s.f.steps[i].address:
		return "asked for with --from"
	default:
		return "below " + from + ", asked for with --from"
	}
}

// suppliedReason is the reason of an event of a step whose answer a person
// gave.
const suppliedReason = "operator-supplied (--set)"

// supplied says of a record which person's answer it is; "" for a plugin's.
func supplied(h *checkpoint.Head) string {
	if !h.Operator {
		return ""
	}
	return "operator-supplied in run " + string(h.Run)
}
