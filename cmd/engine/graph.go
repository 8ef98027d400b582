package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
)

// graphFormats are the values of --format.
var graphFormats = []string{"mermaid", "dot", "json", "svg"}

// flowGraph is a flow as it is drawn.
type flowGraph struct {
	Workflow string           `json:"workflow"`
	Run      checkpoint.RunID `json:"run,omitempty"` // whose states are shown
	Steps    []graphStep      `json:"steps"`
	Edges    []graphEdge      `json:"edges"`
}

// graphStep is one step.
type graphStep struct {
	Step  string `json:"step"`
	Uses  string `json:"uses"`
	State string `json:"state,omitempty"` // as engine show has it; "" without a run

	ForEach   bool  `json:"for_each,omitempty"`  // it stands for all its instances
	Instances tally `json:"instances,omitempty"` // by state, in the run
}

// graphEdge says that To needs From.
type graphEdge struct {
	From   string   `json:"from"`
	To     string   `json:"to"`
	Facets []string `json:"facets"`
	Soft   bool     `json:"soft,omitempty"`  // To goes on without From's success
	Cycle  bool     `json:"cycle,omitempty"` // part of a dependency cycle

	from, to int
}

func newGraph(io streams) *cobra.Command {
	var state place
	var runID, format string
	var asJSON bool
	c := &cobra.Command{
		Use:   "graph [FLOW]",
		Short: "Draw the steps of a flow and what they need of each other",
		Long: `Prints the graph to stdout. Needs no values and no plugins; a flow with mistakes
is drawn as far as it can be read, with cycles marked. With --run each step has
the state it has in that run, in words and in colour.`,
		Example: `  engine graph flow.hcl                     Mermaid, as it goes into Markdown
  engine graph flow.hcl --format svg > flow.svg
  engine graph flow.hcl --format dot --run latest | dot -Tpdf > flow.pdf`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if asJSON {
				if c.Flags().Changed("format") && format != "json" {
					return exit(exitUsage, "--json and --format %s exclude each other", format)
				}
				format = "json"
			}
			if !slices.Contains(graphFormats, format) {
				return exit(exitUsage, "--format %q is none of %s", format, strings.Join(graphFormats, ", "))
			}
			path := flowPath(args)
			wf, diags := hcl.Load(path)
			g := newFlowGraph(wf)
			if runID != "" {
				s, err := findStory(stateDir(state, flowDir(path)), runID)
				if err != nil {
					return err
				}
				g.color(s)
			}
			v := newDiagView(io, format == "json")
			if format == "json" {
				writeVersion(io.out)
			}
			switch {
			case wf == nil:
			case format == "json":
				writeJSON(io.out, struct {
					Type string `json:"type"`
					*flowGraph
				}{"graph", g})
			case format == "dot":
				fmt.Fprint(io.out, g.dot())
			case format == "svg":
				fmt.Fprint(io.out, g.svg())
			default:
				fmt.Fprint(io.out, g.mermaid())
			}
			if len(diags) == 0 {
				return nil
			}
			return v.report(wf, diags)
		},
	}
	addState(c, &state)
	c.Flags().StringVar(&format, "format", "mermaid", "`format`: mermaid, dot, json, svg")
	c.Flags().StringVar(&runID, "run", "", "show the states of this `run`; latest is the newest")
	c.Flags().BoolVar(&asJSON, "json", false, "the same as --format json")
	return c
}

// newFlowGraph takes from a flow what is drawn. A flow with mistakes may lack
// some of it.
func newFlowGraph(wf *hcl.Workflow) *flowGraph {
	g := &flowGraph{Steps: []graphStep{}, Edges: []graphEdge{}}
	if wf == nil {
		return g
	}
	g.Workflow = wf.Name
	for i := range wf.Steps {
		s := &wf.Steps[i]
		uses := s.StepType
		if s.Plugin >= 0 && s.Plugin < len(wf.Plugins) {
			uses = wf.Plugins[s.Plugin].Name + "." + s.StepType
		}
		g.Steps = append(g.Steps, graphStep{Step: s.Address(), Uses: uses, ForEach: s.ForEach})
	}
	var pairs [][2]int
	for i := range wf.Steps {
		first := len(g.Edges)
		for _, f := range wf.Steps[i].Facets {
			k := slices.IndexFunc(g.Edges[first:], func(e graphEdge) bool { return e.from == f.Step })
			if k < 0 {
				k = len(g.Edges) - first
				g.Edges = append(g.Edges, graphEdge{From: g.Steps[f.Step].Step, To: g.Steps[i].Step, from: f.Step, to: i, Soft: true})
				pairs = append(pairs, [2]int{f.Step, i})
			}
			e := &g.Edges[first+k]
			name := f.Facet.String()
			if f.Order {
				name = "depends_on"
			}
			if !slices.Contains(e.Facets, name) {
				e.Facets = append(e.Facets, name)
			}
			e.Soft = e.Soft && f.Kind != hcl.Hard
		}
	}
	for k, in := range inCycle(len(g.Steps), pairs) {
		g.Edges[k].Cycle = in
	}
	return g
}

// color gives every step its state in a run.
func (g *flowGraph) color(s *story) {
	steps := map[string]*shownStep{}
	for _, st := range s.steps() {
		steps[st.Step] = st
	}
	g.Run = s.ID
	for i := range g.Steps {
		g.Steps[i].State = "pending"
		if st := steps[g.Steps[i].Step]; st != nil {
			g.Steps[i].State, g.Steps[i].Instances = cmp.Or(st.stateIn(s), "pending"), st.Instances
		}
	}
}

// stateStyle is how a state looks. Dash and stroke tell states apart where
// colours cannot; the word is always there.
type stateStyle struct {
	fill, stroke string
	width        float64
	dash         string
}

var stateStyles = map[string]stateStyle{
	"succeeded":            {"#d9f2e0", "#1b7f3b", 1.5, ""},
	"reused":               {"#d8e9fc", "#1a5fb4", 1.5, "2 2"},
	"running":              {"#fff3cd", "#a86a00", 3, ""},
	"waiting for a retry":  {"#fff3cd", "#a86a00", 2, "6 3"},
	"waiting for its turn": {"#fff3cd", "#a86a00", 2, "2 3"},
	"failed":               {"#fbdcd9", "#b3261e", 3, ""},
	"skipped":              {"#ececec", "#6b6f76", 1.5, "6 3"},
	"cancelled":            {"#ececec", "#6b6f76", 1.5, "2 2"},
	"interrupted":          {"#f3e3fb", "#7b2fa0", 2, "6 3"},
	"pending":              {"#ffffff", "#8a8f98", 1, ""},
}

// styleOf is the style of a step, that of a plain box without a run.
func styleOf(state string) stateStyle {
	if s, ok := stateStyles[state]; ok {
		return s
	}
	return stateStyle{"#eef1f5", "#5c6570", 1.2, ""}
}

// lines are the two lines of a step's box.
func (s *graphStep) lines() (name, below string) {
	name, below = oneLine(strings.TrimPrefix(s.Step, "step.")), oneLine(s.Uses)
	switch {
	case s.Instances.total() > 0:
		below += " · " + s.Instances.String()
	case s.ForEach && s.State == "":
		below += " · for each"
	case s.State != "":
		below += " · " + s.State
	}
	return name, below
}

// usedStates lists the states that occur, sorted.
func (g *flowGraph) usedStates() []string {
	var ss []string
	for _, s := range g.Steps {
		if s.State != "" && !slices.Contains(ss, s.State) {
			ss = append(ss, s.State)
		}
	}
	slices.Sort(ss)
	return ss
}

var mermaidText = strings.NewReplacer("#", "#35;", `"`, "#quot;", "&", "#amp;", "<", "#lt;", ">", "#gt;", "`", "#96;")

// mermaid is the graph as Mermaid text.
func (g *flowGraph) mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	class := func(state string) string { return strings.ReplaceAll(state, " ", "_") }
	for i := range g.Steps {
		name, below := g.Steps[i].lines()
		fmt.Fprintf(&b, "  n%d[\"%s<br/>%s\"]", i, mermaidText.Replace(name), mermaidText.Replace(below))
		if s := g.Steps[i].State; s != "" {
			b.WriteString(":::" + class(s))
		}
		b.WriteString("\n")
	}
	for k := range g.Edges {
		e := &g.Edges[k]
		arrow := "-->"
		switch {
		case e.Cycle:
			arrow = "== cycle ==>"
		case e.Soft:
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "  n%d %s n%d\n", e.from, arrow, e.to)
		if e.Cycle {
			fmt.Fprintf(&b, "  linkStyle %d stroke:#b3261e\n", k)
		}
	}
	for _, s := range g.usedStates() {
		st := styleOf(s)
		fmt.Fprintf(&b, "  classDef %s fill:%s,stroke:%s,stroke-width:%gpx,color:#1a1a1a", class(s), st.fill, st.stroke, st.width)
		if st.dash != "" {
			fmt.Fprintf(&b, ",stroke-dasharray:%s", st.dash)
		}
		b.WriteString("\n")
	}
	return b.String()
}

var dotText = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// dot is the graph in Graphviz's language.
func (g *flowGraph) dot() string {
	var b strings.Builder
	quote := func(s string) string { return `"` + dotText.Replace(oneLine(s)) + `"` }
	fmt.Fprintf(&b, "digraph %s {\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontcolor=\"#1a1a1a\"];\n", quote(g.Workflow))
	for i := range g.Steps {
		s := &g.Steps[i]
		name, below := s.lines()
		st := styleOf(s.State)
		style := "filled"
		if st.dash != "" {
			style = "filled,dashed"
		}
		fmt.Fprintf(&b, "  n%d [label=\"%s\\n%s\", style=\"%s\", fillcolor=\"%s\", color=\"%s\", penwidth=%g];\n", i, dotText.Replace(name), dotText.Replace(below), style, st.fill, st.stroke, st.width)
	}
	for k := range g.Edges {
		e := &g.Edges[k]
		how := ""
		switch {
		case e.Cycle:
			how = ` [color="#b3261e", penwidth=2, label="cycle", fontcolor="#b3261e"]`
		case e.Soft:
			how = " [style=dashed]"
		}
		fmt.Fprintf(&b, "  n%d -> n%d%s;\n", e.from, e.to, how)
	}
	b.WriteString("}\n")
	return b.String()
}
