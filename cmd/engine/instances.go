package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host"
)

// stepOf is the step of an address, which may be that of an instance.
func stepOf(address string) string {
	step, _, _ := hcl.SplitAddress(address)
	return step
}

// nameIn is the name of an instance in brackets, as it stands in its address.
func nameIn(address string) string {
	if _, name, _ := hcl.SplitAddress(address); name != "" {
		return "[" + strings.Join(hcl.InstanceKeys(name), "][") + "]"
	}
	return ""
}

// covers reports whether what a person named, a step, an instance or a
// sub-workflow, is or contains the address of an event.
func covers(named, address string) bool {
	return named == "" || hcl.Covers(named, address)
}

// runAndStep tells the arguments [RUN] [STEP] apart: a step needs no run before
// it.
func runAndStep(args []string) (run, step string) {
	switch {
	case len(args) == 2:
		return args[0], args[1]
	case len(args) == 1 && (strings.HasPrefix(args[0], "step.") || strings.Contains(args[0], "[")):
		return "", args[0]
	case len(args) == 1:
		return args[0], ""
	}
	return "", ""
}

// runAndOutput tells the arguments [RUN] [NAME] apart.
func runAndOutput(args []string) (run, name string) {
	switch {
	case len(args) == 2:
		return args[0], args[1]
	case len(args) == 1 && (args[0] == "latest" || strings.HasPrefix(args[0], "r_")):
		return args[0], ""
	case len(args) == 1:
		return "", args[0]
	}
	return "", ""
}

// namedStep is an address that a person typed, as events have it; "" stays.
func namedStep(typed string) (string, error) {
	if typed == "" {
		return "", nil
	}
	address, err := host.Address(typed)
	if err != nil {
		return "", &exitError{exitUsage, err}
	}
	return address, nil
}

// crowds are the steps of a run whose for_each is known. Their instances are counted
// in their place, as in host.Counts, and of instances that have instances these.
type crowds map[string]*crowd

// crowd is one step.
type crowd struct {
	n     int             // instances, as far as they are known
	inner map[string]bool // its instances that have instances, by address
}

func (c *crowd) size() int { return max(c.n, 1) }

// expanded takes an event of that type in, and is how many more there are to count.
func (cs crowds) expanded(e *host.Event) int {
	step := stepOf(e.Step)
	c := cs[step]
	if c == nil {
		c = &crowd{n: 1}
		cs[step] = c
	}
	before := c.size()
	if c.n += e.Instances - 1; step != e.Step {
		if c.inner == nil {
			c.inner = map[string]bool{}
		}
		c.inner[e.Step] = true
	}
	return c.size() - before
}

// stand reports whether something is counted in the place of a step or instance.
func (cs crowds) stand(address string) bool {
	c := cs[stepOf(address)]
	return c != nil && (c.inner[address] || c.n > 0 && stepOf(address) == address)
}

// tally counts the instances of a step by state.
type tally map[string]int

// tallied are the states in the order in which a tally tells them.
var tallied = []string{"failed", "interrupted", "running", "waiting for a retry", "waiting for its turn", "preparing", "cancelled", "skipped", "reused", "succeeded", "not undone", "undone", "pending"}

func (t tally) total() (n int) {
	for _, k := range t {
		n += k
	}
	return n
}

// String is "3 failed, 997 succeeded".
func (t tally) String() string {
	var parts []string
	for _, state := range tallied {
		if t[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t[state], state))
		}
	}
	return strings.Join(parts, ", ")
}

// state is that of a fan-out that has not ended.
func (t tally) state() string {
	for _, state := range tallied[:6] {
		if t[state] > 0 {
			return cmp.Or(map[string]string{"preparing": "running"}[state], state)
		}
	}
	return "running"
}

// around are the addresses of the collections that an instance is in, its own first
// and that of the step last.
func around(address string) (out []string) {
	step, name, _ := hcl.SplitAddress(address)
	for n := len(hcl.InstanceKeys(name)) - 1; n >= 0; n-- {
		out = append(out, hcl.InstanceAddress(step, hcl.FirstKeys(name, n)))
	}
	return out
}

// gatherInstances gives every fan-out among steps its tally; of those that have
// not been heard of it counts as pending. Instances that have instances themselves
// have a tally too, and are no more than these.
func gatherInstances(s *story, steps []*shownStep) {
	fans := map[string]*shownStep{}
	for _, st := range steps {
		if n, ok := s.fans[st.Step]; ok && st.State != "reused" {
			st.Instances = tally{"pending": n}
			fans[st.Step] = st
		}
	}
	for _, st := range steps {
		n, collects := s.fans[st.Step]
		for _, a := range around(st.Step) {
			switch fan := fans[a]; {
			case fan == nil:
			case collects:
				fan.Instances["pending"] += n - 1
			default:
				fan.Instances[st.stateIn(s)]++
				fan.Instances["pending"]--
			}
		}
	}
	for _, fan := range fans {
		if fan.Instances["pending"] <= 0 {
			delete(fan.Instances, "pending")
		}
		if fan.State == "running" || fan.State == "preparing" {
			fan.State = fan.Instances.state()
			if s.Status == checkpoint.RunInterrupted && fan.State != "failed" {
				fan.State = "interrupted"
			}
		}
	}
}

// inOrder puts addresses in the order in which their steps first appear, the
// instances of each behind it by position or key.
func inOrder(addresses []string) {
	first := map[string]int{}
	for i, a := range addresses {
		if _, ok := first[stepOf(a)]; !ok {
			first[stepOf(a)] = i
		}
	}
	slices.SortStableFunc(addresses, func(a, b string) int {
		x, y := stepOf(a), stepOf(b)
		return cmp.Or(cmp.Compare(first[x], first[y]), compareKeys(a[len(x):], b[len(y):]))
	})
}

// compareKeys orders what stands in brackets, by position or key.
func compareKeys(x, y string) int {
	return cmp.Or(cmp.Compare(position(x), position(y)), strings.Compare(x, y))
}

// instancesOf are the instances of a step, or in one that has instances, by position
// or in the order of their keys.
func instancesOf(steps []*shownStep, step string) []*shownStep {
	var is []*shownStep
	for _, st := range steps {
		if st.Instances == nil && slices.Contains(around(st.Step), step) {
			is = append(is, st)
		}
	}
	slices.SortStableFunc(is, func(a, b *shownStep) int {
		return compareKeys(nameIn(a.Step), nameIn(b.Step))
	})
	return is
}

// position is that of an instance named [3]; -1 for one with a key.
func position(brackets string) int {
	n, err := strconv.Atoi(strings.Trim(brackets, "[]"))
	if err != nil {
		return -1
	}
	return n
}

// maxListed bounds how many instances of one state are listed in a view.
const maxListed = 20

// writeInstances lists the instances of a step: one line for each that has
// something to tell, the others together.
func writeInstances(io streams, s *story, step string, is []*shownStep, limit int) {
	told, rest := map[string]int{}, map[string][]string{}
	for _, st := range is {
		state, name := st.stateIn(s), oneLine(nameIn(st.Step))
		why := st.problem()
		if why == "" {
			rest[state] = append(rest[state], name)
			continue
		}
		if told[state]++; told[state] <= limit {
			fmt.Fprintf(io.out, "    %-11s %s%s\n", state, name, why)
		}
	}
	for _, state := range tallied {
		if more := told[state] - limit; more > 0 {
			fmt.Fprintf(io.out, "    %-11s and %d more\n", state, more)
		}
		if names := ranges(rest[state]); len(names) > maxListed {
			fmt.Fprintf(io.out, "    %-11s %s and %d more\n", state, strings.Join(names[:maxListed], " "), len(names)-maxListed)
		} else if len(names) > 0 {
			fmt.Fprintf(io.out, "    %-11s %s\n", state, strings.Join(names, " "))
		}
	}
}

// problem is what a line of an instance says behind its name; "" if all went
// well at once.
func (st *shownStep) problem() string {
	var last *shownTry
	if n := len(st.Attempts); n > 0 {
		last = &st.Attempts[n-1]
	}
	switch {
	case st.Error != nil:
		return ": " + oneLine(st.Error.Error())
	case last != nil && last.Error != nil && (last.Fallback || !st.good()):
		return fmt.Sprintf(", %s: %s", count(len(st.Attempts), "attempt"), oneLine(last.Error.Error()))
	case st.State == "skipped":
		return ": " + oneLine(st.Reason)
	case len(st.Attempts) > 1:
		return ", " + count(len(st.Attempts), "attempt")
	}
	return ""
}

// ranges writes neighbours among names in brackets as one: [0]–[41].
func ranges(names []string) (out []string) {
	for from := 0; from < len(names); {
		to := from + 1
		for to < len(names) && position(names[from]) >= 0 && position(names[to]) == position(names[to-1])+1 {
			to++
		}
		switch {
		case to-from > 2:
			out = append(out, names[from]+"–"+names[to-1])
		default:
			out = append(out, names[from:to]...)
		}
		from = to
	}
	return out
}
