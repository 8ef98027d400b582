package hcl

import "testing"

// A part of an input is found where it is written, in literal objects and lists and
// by way of locals; else what it is part of.
func TestInputPlace(t *testing.T) {
	t.Parallel()
	w := mustLoad(t, `step "a" { uses = plugin.p.run }
locals {
  deep = { "a/b" = 1 }
  list = [step.a.output, 2]
}
step "b" {
  uses = plugin.p.run
  input = {
    text = step.a.output
    o    = { x = [1, { "~" = 2 }] }
    l    = local.deep
    n    = local.list
  }
}
`)
	b := stepNamed(t, w, "step.b")
	for pointer, want := range map[string]string{
		"/text": "flow.hcl:11:12", "/text/more/0": "flow.hcl:11:12", "/o/x/1/~0": "flow.hcl:12:30", "/o/x/9": "flow.hcl:12:18",
		"/l/a~1b": "flow.hcl:5:20", "/n/0": "flow.hcl:6:11", "/none": "flow.hcl:10:11", "": "flow.hcl:10:11",
	} {
		if got := w.InputPlace(b, pointer).String(); got != want {
			t.Errorf("%q is at %s, want %s", pointer, got, want)
		}
	}
	if at := w.InputPlace(0, "/x"); at != (Range{}) {
		t.Errorf("a step without input has a part at %s", at)
	}
}
