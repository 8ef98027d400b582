package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/hcl"
)

// parsedGraph is the graph of a flow given as text.
func parsedGraph(t *testing.T, text string) *flowGraph {
	t.Helper()
	wf, _ := hcl.Parse([]hcl.File{{Path: "flow.hcl", Bytes: []byte(text)}})
	if wf == nil {
		t.Fatal("the flow cannot be read")
	}
	return newFlowGraph(wf)
}

const drawnFlow = `workflow "drawn" {}
plugin "p" { source = "./p.wasm" }
step "有_一个_很长的名字_of_many_columns" {
  uses  = plugin.p.a
  input = { text = "x" }
}
step "b" {
  uses  = plugin.p.b
  input = { text = step.有_一个_很长的名字_of_many_columns.output, after = step.d.output }
}
step "c" {
  uses       = plugin.p.c
  input      = { s = step.b.status }
  depends_on = [step.有_一个_很长的名字_of_many_columns]
}
step "d" {
  uses  = plugin.p.d
  input = { text = step.b.output }
}
`

// TestGraphSVG: a picture that a parser takes, with every name, state and
// cycle in it.
func TestGraphSVG(t *testing.T) {
	t.Parallel()
	g := parsedGraph(t, drawnFlow)
	g.Workflow = "a <b> & \x1b[31m \"c\""
	states := []string{"failed", "reused", "pending", "waiting for a retry"}
	for i := range g.Steps {
		g.Steps[i].State = states[i]
	}
	svg := g.svg()
	golden(t, "graph.svg", svg)
	d := xml.NewDecoder(strings.NewReader(svg))
	var text strings.Builder
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := tok.(xml.CharData); ok {
			text.Write(c)
		}
	}
	for _, want := range []string{`workflow a <b> & \x1b[31m "c"`, "有_一个_很长的名字_of_many_columns", "p.d · waiting for a retry", "step.d needs step.b (output): part of a cycle"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

// TestGraphStatesDiffer: no two states look alike.
func TestGraphStatesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, s := range stateStyles {
		if s.fill == "" || s.stroke == "" || s.width == 0 {
			t.Errorf("%s has no complete style", name)
		}
		key := fmt.Sprint(s)
		if other, ok := seen[key]; ok {
			t.Errorf("%s looks like %s", name, other)
		}
		seen[key] = name
	}
}

func BenchmarkGraphSVG(b *testing.B) {
	widths, edges := layered(1200, 60)
	g := &flowGraph{Workflow: "large"}
	for i := range widths {
		g.Steps = append(g.Steps, graphStep{Step: fmt.Sprintf("step.s%d", i), Uses: "p.run"})
	}
	for _, e := range edges {
		g.Edges = append(g.Edges, graphEdge{From: g.Steps[e[0]].Step, To: g.Steps[e[1]].Step, Facets: []string{"output"}, from: e[0], to: e[1]})
	}
	b.ReportAllocs()
	for b.Loop() {
		g.svg()
	}
}
