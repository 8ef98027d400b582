package main

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/rivo/uniseg"
)

// Sizes of the SVG, in pixels. A column of the monospace font is 0.6 of its
// size; characters that are two columns wide are not wider than two.
const (
	svgFont   = 13
	svgColumn = 0.6 * svgFont
	svgHeight = 46 // of a box
	svgPad    = 12 // left and right of its text
	svgLine   = "#7d8590"
	svgCycle  = "#d1372c"
)

// svg is the graph as a picture. Boxes bring their own background, and lines
// are of a grey that is seen on white and on black, so it needs no background.
func (g *flowGraph) svg() string {
	widths := make([]float64, len(g.Steps))
	for i := range g.Steps {
		name, below := g.Steps[i].lines()
		widths[i] = 2*svgPad + svgColumn*float64(max(uniseg.StringWidth(name), uniseg.StringWidth(below)))
	}
	pairs := make([][2]int, len(g.Edges))
	for k := range g.Edges {
		pairs[k] = [2]int{g.Edges[k].from, g.Edges[k].to}
	}
	l := layOut(widths, svgHeight, pairs)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="%d" text-anchor="middle">`+"\n",
		l.width, l.height, l.width, l.height, svgFont)
	fmt.Fprintf(&b, "<title>%s</title>\n", xmlText("workflow "+oneLine(g.Workflow)))
	b.WriteString("<defs>\n")
	marker(&b, "a", svgLine)
	marker(&b, "c", svgCycle)
	b.WriteString("</defs>\n")
	for k := range g.Edges {
		e := &g.Edges[k]
		style := fmt.Sprintf(`stroke="%s" marker-end="url(#a)"`, svgLine)
		if e.Soft {
			style += ` stroke-dasharray="5 4"`
		}
		if e.Cycle {
			style = fmt.Sprintf(`stroke="%s" stroke-width="2.5" marker-end="url(#c)"`, svgCycle)
		}
		title := fmt.Sprintf("%s needs %s (%s)", oneLine(e.To), oneLine(e.From), strings.Join(e.Facets, ", "))
		if e.Cycle {
			title += ": part of a cycle"
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" %s><title>%s</title></path>`+"\n", svgPath(l.edges[k]), style, xmlText(title))
	}
	for i := range g.Steps {
		s := &g.Steps[i]
		name, below := s.lines()
		st := styleOf(s.State)
		dash := ""
		if st.dash != "" {
			dash = fmt.Sprintf(` stroke-dasharray="%s"`, st.dash)
		}
		c := l.nodes[i]
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="6" fill="%s" stroke="%s" stroke-width="%g"%s/>`+"\n",
			c.x-widths[i]/2, c.y-svgHeight/2, widths[i], svgHeight, st.fill, st.stroke, st.width, dash)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="#16191d" font-weight="bold">%s</text>`+"\n", c.x, c.y-4, xmlText(name))
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="#3d444d">%s</text>`+"\n", c.x, c.y+14, xmlText(below))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func marker(b *strings.Builder, id, color string) {
	fmt.Fprintf(b, `<marker id="%s" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="%s"/></marker>`+"\n", id, color)
}

// svgPath draws a line through points: upright where it passes a layer, a
// curve that leaves and arrives upright between layers.
func svgPath(ps []point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%.1f %.1f", ps[0].x, ps[0].y)
	for j := 1; j < len(ps); j++ {
		p, q := ps[j-1], ps[j]
		if p.x == q.x || p.y == q.y {
			fmt.Fprintf(&b, "L%.1f %.1f", q.x, q.y)
			continue
		}
		mid := (p.y + q.y) / 2
		fmt.Fprintf(&b, "C%.1f %.1f %.1f %.1f %.1f %.1f", p.x, mid, q.x, mid, q.x, q.y)
	}
	return b.String()
}

// xmlText escapes text for XML, which cannot hold every character.
func xmlText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
