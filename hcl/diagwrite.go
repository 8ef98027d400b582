package hcl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

// maxShown is how many diagnostics WriteText writes out.
const maxShown = 20

// WriteText writes the diagnostics for people: what and where in words, the
// line with a caret under the subject, the values of what the expression names,
// the remedy. Equal ones at several places are written once. files are those of
// the Workflow, for the lines; width is that of the terminal, 0 for no
// wrapping. Nothing in the text can control the terminal.
func (d Diagnostics) WriteText(w io.Writer, files []File, width int) error {
	folded := d.fold()
	p := printer{files: files, width: width}
	for i, f := range folded {
		if i == maxShown {
			errs, warns := 0, 0
			for _, f := range folded[i:] {
				if f.Severity == Error {
					errs++
				} else {
					warns++
				}
			}
			p.line("\n… and %s", counts(errs, warns))
			break
		}
		if i > 0 {
			p.line("")
		}
		p.diagnostic(&f)
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

func counts(errs, warns int) string {
	var parts []string
	for _, c := range []struct {
		n    int
		noun string
	}{{errs, "error"}, {warns, "warning"}} {
		switch {
		case c.n == 1:
			parts = append(parts, "1 more "+c.noun)
		case c.n > 1:
			parts = append(parts, fmt.Sprintf("%d more %ss", c.n, c.noun))
		}
	}
	return strings.Join(parts, " and ")
}

// folded is a diagnostic and the other places where it holds.
type folded struct {
	Diagnostic
	also []Range
}

func (d Diagnostics) fold() []folded {
	type key struct{ code, summary, detail string }
	at := map[key]int{}
	var out []folded
	for _, x := range d {
		k := key{x.Code, x.Summary, x.Detail}
		if i, ok := at[k]; ok && len(x.Values) == 0 {
			if out[i].Subject != x.Subject {
				out[i].also = append(out[i].also, x.Subject)
			}
			continue
		}
		at[k] = len(out)
		out = append(out, folded{Diagnostic: x})
	}
	// Errors first: of many diagnostics only the first ones are shown.
	slices.SortStableFunc(out, func(a, b folded) int { return int(a.Severity) - int(b.Severity) })
	return out
}

type printer struct {
	b     strings.Builder
	files []File
	width int
}

func (p *printer) line(format string, args ...any) {
	fmt.Fprintf(&p.b, format, args...)
	p.b.WriteByte('\n')
}

func (p *printer) diagnostic(d *folded) {
	p.line("%s: %s [%s]", capital(d.Severity.String()), visible(d.Summary), d.Code)
	switch {
	case d.Subject.IsZero():
	case d.Subject.Start.Line == 0:
		p.line("  in %s", visible(d.Subject.File))
	default:
		p.line("  in %s, line %d, column %d:", visible(d.Subject.File), d.Subject.Start.Line, d.Subject.Start.Column)
		p.source(d.Subject)
	}
	for _, v := range d.Values {
		p.line("  with %s = %s", visible(v.Name), visible(v.Value))
	}
	if len(d.also) > 0 {
		const most = 5
		var at []string
		for _, r := range d.also[:min(len(d.also), most)] {
			at = append(at, r.String())
		}
		if n := len(d.also) - most; n > 0 {
			at = append(at, fmt.Sprintf("%d more places", n))
		}
		p.line("  also at %s", visible(strings.Join(at, ", ")))
	}
	for _, l := range wrap(d.Detail, p.width-2) {
		p.line("%s", strings.TrimRight("  "+visible(l), " "))
	}
}

// source writes the line and the caret. A subject of several lines is marked to
// the end of its first.
func (p *printer) source(r Range) {
	src := fileBytes(p.files, r.File)
	if src == nil || r.Start.Byte > len(src) {
		return
	}
	line, start := lineAt(src, r.Start.Byte)
	from := min(r.Start.Byte-start, len(line))
	to := max(from, min(r.End.Byte-start, len(line)))
	if start == 0 {
		line, from, to = trimBOM(line, from, to)
	}
	line, from, to = window(line, from, to, p.width)
	number := fmt.Sprintf("%5d", r.Start.Line)
	before, marked := cells(visible(string(line[:from]))), cells(visible(string(line[from:to])))
	p.line("%s | %s", number, strings.TrimRight(visible(string(line)), " "))
	p.line("%s | %s%s", strings.Repeat(" ", len(number)), strings.Repeat(" ", before), strings.Repeat("^", max(marked, 1)))
}

func trimBOM(line []byte, from, to int) ([]byte, int, int) {
	if !strings.HasPrefix(string(line), string(bom)) {
		return line, from, to
	}
	return line[len(bom):], max(0, from-len(bom)), max(0, to-len(bom))
}

// window cuts a very long line to what is around the subject.
func window(line []byte, from, to, width int) ([]byte, int, int) {
	room := max(width, 80) * 2
	if len(line) <= room {
		return line, from, to
	}
	begin, end := max(0, from-room/4), min(len(line), from+room)
	for begin > 0 && line[begin]&0xC0 == 0x80 {
		begin--
	}
	for end < len(line) && line[end]&0xC0 == 0x80 {
		end++
	}
	return line[begin:end], from - begin, min(to, end) - begin
}

func fileBytes(files []File, path string) []byte {
	for i := range files {
		if files[i].Path == path {
			return files[i].Bytes
		}
	}
	return nil
}

// lineAt returns the line that holds byte at, without its end, and where it
// begins.
func lineAt(src []byte, at int) (line []byte, start int) {
	at = max(0, min(at, len(src)))
	start = bytes.LastIndexByte(src[:at], '\n') + 1
	end := len(src)
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		end = at + i
	}
	return bytes.TrimSuffix(src[start:end], []byte("\r")), start
}

// jsonDiagnostic has the field names of `terraform validate -json`, and code.
type jsonDiagnostic struct {
	Severity Severity     `json:"severity"`
	Code     string       `json:"code"`
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail"`
	Range    *jsonRange   `json:"range,omitempty"`
	Snippet  *jsonSnippet `json:"snippet,omitempty"`
}

func moreDiagnostics(worst Severity, n int) Diagnostic {
	return Diagnostic{Severity: worst, Code: "more-diagnostics", Summary: "There are more", Detail: fmt.Sprintf("%d more are not listed. Mend these first.", n)}
}

// worst is Error if there is one.
func (d Diagnostics) worst() Severity {
	if d.HasErrors() {
		return Error
	}
	return Warning
}

type jsonRange struct {
	Filename string `json:"filename"`
	Start    Pos    `json:"start"`
	End      Pos    `json:"end"`
}

type jsonSnippet struct {
	Context   *string     `json:"context"`
	Code      string      `json:"code"`
	StartLine int         `json:"start_line"`
	StartOff  int         `json:"highlight_start_offset"`
	EndOff    int         `json:"highlight_end_offset"`
	Values    []jsonValue `json:"values"`
}

type jsonValue struct {
	Traversal string `json:"traversal"`
	Statement string `json:"statement"`
}

// maxListed is how many diagnostics JSON lists: each byte of a file can be one.
const maxListed = 1000

// JSON returns the diagnostics as a JSON array for machines, not folded, with the
// field names of `terraform validate -json` and the stable code. Offsets in a
// snippet are in bytes of its code. Behind the first thousand one says how many
// there are more, with the code more-diagnostics.
func (d Diagnostics) JSON(files []File) json.RawMessage {
	if n := len(d) - maxListed; n > 0 {
		d = append(slices.Clip(d[:maxListed]), moreDiagnostics(d[maxListed:].worst(), n))
	}
	out := make([]jsonDiagnostic, 0, len(d))
	for i := range d {
		x := &d[i]
		j := jsonDiagnostic{Severity: x.Severity, Code: x.Code, Summary: x.Summary, Detail: x.Detail}
		if !x.Subject.IsZero() {
			j.Range = &jsonRange{x.Subject.File, x.Subject.Start, x.Subject.End}
			j.Snippet = snippet(x, fileBytes(files, x.Subject.File))
		}
		out = append(out, j)
	}
	b, err := sdk.Marshal(out)
	if err != nil {
		panic("hcl: a diagnostic without a JSON form: " + err.Error())
	}
	return b
}

// maxCode is how many bytes of a line a snippet has before it is cut.
const maxCode = 1000

func snippet(x *Diagnostic, src []byte) *jsonSnippet {
	r := x.Subject
	if src == nil || r.Start.Line == 0 || r.Start.Byte > len(src) {
		return nil
	}
	line, start := lineAt(src, r.Start.Byte)
	from := min(r.Start.Byte-start, len(line))
	line, from, to := window(line, from, max(from, min(r.End.Byte-start, len(line))), maxCode/2)
	s := &jsonSnippet{Code: string(line), StartLine: r.Start.Line, StartOff: from, EndOff: to, Values: []jsonValue{}}
	if header := blockAround(src, r.Start.Byte); header != "" {
		header = shorten([]byte(header), maxCode)
		s.Context = &header
	}
	for _, v := range x.Values {
		s.Values = append(s.Values, jsonValue{v.Name, "is " + v.Value})
	}
	return s
}

// blockAround is the header of the top-level block that holds byte at: the
// nearest line above that begins at the margin and opens a brace.
func blockAround(src []byte, at int) string {
	for {
		line, start := lineAt(src, at)
		if len(line) > 0 && line[0] != ' ' && line[0] != '\t' && line[0] != '}' && line[0] != '#' && line[0] != '/' {
			if head, _, ok := strings.Cut(string(line), "{"); ok {
				return strings.TrimSpace(head)
			}
			return ""
		}
		if start == 0 {
			return ""
		}
		at = start - 1
	}
}
