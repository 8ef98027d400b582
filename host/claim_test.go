package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

var payments = map[string]string{"outer.hcl": `
variable "books" { type = any }
step "book" {
  workflow = "./inner.hcl"
  for_each = var.books
  input    = { items = each.value }
}
output "paid" { value = step.book.output }
`, "inner.hcl": `
variable "items" { type = any }
step "pay" {
  uses     = plugin.p.echo
  for_each = var.items
  effects  = "once"
  input    = { v = each.value }
}
output "paid" { value = step.pay.output }
`}

func paying(books string) string {
	return `step "o" {
  workflow = "./outer.hcl"
  for_each = ` + books + `
  input    = { books = each.value }
}
output "paid" { value = step.o.output }
`
}

// TestOneRecordOneEffect: instances that do the same, in collections of different
// values, are numbered alike. A record of one of them stands for one of them.
func TestOneRecordOneEffect(t *testing.T) {
	t.Parallel()
	s, paid := payingScene(t)
	for _, c := range []struct {
		books string
		paid  int64
	}{
		{`{ a = { x = ["1"] } }`, 1},
		{`{ b = { x = ["1"] }, c = { x = ["1"] } }`, 2},
		{`{ d = { x = ["1"] }, e = { x = ["1"] } }`, 2},
		{`{ f = { x = ["1"] }, g = { x = ["1"] }, h = { x = ["1"] } }`, 3},
		{`{ f = { x = ["1"] }, g = { x = ["1"] }, h = { x = ["1"] }, i = { x = ["1", "1"] } }`, 5},
		{`{ i = { x = ["1", "1"] } }`, 5},
		{`{ i = { x = ["1"] }, j = { x = ["1"] }, k = { y = ["1"], z = ["1", "1"] } }`, 5},
		{`{ i = { x = ["1"] }, k = { z = ["1", "1"] }, l = { y = ["1"] } }`, 5},
	} {
		s.treeEnds(checkpoint.RunSucceeded, paying(c.books), payments, RunOptions{})
		if paid.Load() != c.paid {
			t.Errorf("%s: %d payments, want %d", c.books, paid.Load(), c.paid)
		}
	}
}

// TestNoEffectIsLost: whatever the collections become, there have been as many effects,
// which are all equal, as the largest run has instances.
func TestNoEffectIsLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		s, paid := payingScene(t)
		most := int64(0)
		for range 4 {
			var books strings.Builder
			n := int64(0)
			for _, a := range "abc" {
				fmt.Fprintf(&books, "k%d%c = { ", r.IntN(2), a)
				for _, b := range "xy" {
					items := r.IntN(3)
					n += int64(items)
					fmt.Fprintf(&books, "%c = [%s], ", b, strings.TrimSuffix(strings.Repeat(`"1", `, items), ", "))
				}
				books.WriteString("}, ")
			}
			s.treeEnds(checkpoint.RunSucceeded, paying("{ "+books.String()+"}"), payments, RunOptions{})
			if most = max(most, n); paid.Load() != most {
				t.Fatalf("seed %d: %d instances at most, now in { %s}, %d payments", seed, most, books.String(), paid.Load())
			}
		}
	}
}

// TestEqualCollectionsAreEditedAlone: of collections that are equal an edit of one runs
// nothing of the others, whose instances are given more than their elements.
func TestEqualCollectionsAreEditedAlone(t *testing.T) {
	t.Parallel()
	s, paid := payingScene(t)
	named := map[string]string{"outer.hcl": strings.ReplaceAll(payments["outer.hcl"], "{ items = each.value }", "{ items = each.value, name = each.key }"),
		"inner.hcl": strings.ReplaceAll("variable \"name\" { type = string }"+payments["inner.hcl"], "{ v = each.value }", "{ v = each.value, name = var.name }")}
	for _, c := range []struct {
		books string
		paid  int64
	}{
		{`{ a = { x = ["1", "2"], y = ["1", "2"], z = ["1", "2"] } }`, 6},
		{`{ a = { x = ["0", "2"], y = ["1", "2"], z = ["1", "2"] } }`, 7},
		{`{ a = { x = ["0", "2"], y = ["1", "3"], z = ["1", "2"] } }`, 8},
		{`{ a = { z = ["1", "2"] } }`, 8},
	} {
		s.treeEnds(checkpoint.RunSucceeded, paying(c.books), named, RunOptions{})
		if paid.Load() != c.paid {
			t.Errorf("%s: %d payments, want %d", c.books, paid.Load(), c.paid)
		}
	}
}

// TestSiblingsOfEqualCollections: what an instance names of the loops around it tells
// it apart from those of equal collections, so it keeps its record when one of these
// is edited, comes or goes.
func TestSiblingsOfEqualCollections(t *testing.T) {
	t.Parallel()
	files := map[string]string{"inner.hcl": `
variable "title" { type = string }
variable "items" { type = any }
step "read" {
  uses     = plugin.p.echo
  for_each = var.items
  input    = { v = "${var.title}: ${each.value}" }
}
step "pay" {
  uses     = plugin.p.echo
  for_each = step.read.output
  effects  = "once"
  input    = { v = "${var.title}, ${each.value}" }
}
output "paid" { value = step.pay.output }
`}
	flow := func(books string) string {
		return `step "b" {
  workflow = "./inner.hcl"
  for_each = ` + books + `
  input    = { title = each.key, items = each.value }
}
output "paid" { value = step.b.output }
`
	}
	s := newScene(t)
	for _, c := range []struct {
		books string
		calls []string
	}{
		{`{ b = ["x", "y"] }`, []string{`b["b"]/step.pay[0]`, `b["b"]/step.pay[1]`, `b["b"]/step.read[0]`, `b["b"]/step.read[1]`}},
		{`{ a = ["x"], b = ["x", "y"] }`, []string{`b["a"]/step.pay[0]`, `b["a"]/step.read[0]`}},
		{`{ a = ["x", "y"], b = ["x", "y"] }`, []string{`b["a"]/step.pay[1]`, `b["a"]/step.read[1]`}},
		{`{ a = ["z", "y"], b = ["x", "y"] }`, []string{`b["a"]/step.pay[0]`, `b["a"]/step.read[0]`}},
		{`{ b = ["x", "y"] }`, nil},
	} {
		s.called()
		s.treeEnds(checkpoint.RunSucceeded, flow(c.books), files, RunOptions{})
		s.wantCalls(c.books, c.calls...)
	}
}

func payingScene(t *testing.T) (*scene, *atomic.Int64) {
	s, paid := newScene(t), &atomic.Int64{}
	s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		paid.Add(1)
		return &sdk.Response{Output: req.Input}, nil
	}
	return s, paid
}
