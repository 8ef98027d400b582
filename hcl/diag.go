package hcl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Pos is a place in a file. Line and Column count from 1, Column in characters
// as a reader sees them (grapheme clusters); Byte counts from 0.
type Pos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// Range is a piece of a file; End is the place after its last character. The
// zero Range means "no place in particular".
type Range struct {
	File  string `json:"filename"`
	Start Pos    `json:"start"`
	End   Pos    `json:"end"`
}

// IsZero reports whether r names no place.
func (r Range) IsZero() bool { return r == Range{} }

// String returns "flow.hcl:12:5", or "" for the zero Range.
func (r Range) String() string {
	if r.IsZero() {
		return ""
	}
	if r.Start.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d:%d", r.File, r.Start.Line, r.Start.Column)
}

func rangeOf(r hclv2.Range) Range {
	return Range{
		File:  r.Filename,
		Start: Pos{r.Start.Line, r.Start.Column, r.Start.Byte},
		End:   Pos{r.End.Line, r.End.Column, r.End.Byte},
	}
}

// Severity is how bad a Diagnostic is.
type Severity uint8

// The severities. A flow with an Error cannot be used, one with a Warning can.
const (
	Error Severity = iota
	Warning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// MarshalText returns String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Diagnostic is one mistake in what the user wrote, with its remedy.
type Diagnostic struct {
	Severity Severity
	Code     string // stable and kebab-case, such as "unknown-step"
	Summary  string // one line, without a period
	Detail   string // sentences: the cause and what to do next
	Subject  Range  // where to look
	Context  Range  // the larger construct that explains Subject; zero when there is none

	// Values are the values of what the expression at Subject names, at the
	// time it was evaluated.
	Values []NamedValue
}

// NamedValue is the value of a part of an expression, shortened for people.
type NamedValue struct {
	Name  string
	Value string
}

// Error returns the diagnostic on one line: "flow.hcl:12:5: summary: detail".
func (d *Diagnostic) Error() string {
	var b strings.Builder
	if !d.Subject.IsZero() {
		b.WriteString(d.Subject.String() + ": ")
	}
	b.WriteString(d.Summary)
	if d.Detail != "" {
		b.WriteString(": " + strings.Join(strings.Fields(d.Detail), " "))
	}
	return b.String()
}

// Diagnostics is every mistake that was found, in the order of files and
// lines. As an error it must be checked with HasErrors first, because it may
// hold nothing but warnings.
type Diagnostics []Diagnostic

// HasErrors reports whether one of them is an Error.
func (d Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(d, func(d Diagnostic) bool { return d.Severity == Error })
}

// Error returns the first error on one line and how many more there are.
func (d Diagnostics) Error() string {
	n, first := 0, -1
	for i := range d {
		if d[i].Severity == Error {
			if n++; first < 0 {
				first = i
			}
		}
	}
	switch n {
	case 0:
		return "no errors"
	case 1:
		return d[first].Error()
	}
	return fmt.Sprintf("%s (and %d more)", d[first].Error(), n-1)
}

// sorted puts d into the order of the text and drops exact repetitions.
func (d Diagnostics) sorted() Diagnostics {
	slices.SortStableFunc(d, func(a, b Diagnostic) int {
		if c := strings.Compare(a.Subject.File, b.Subject.File); c != 0 {
			return c
		}
		return a.Subject.Start.Byte - b.Subject.Start.Byte
	})
	return slices.CompactFunc(d, func(a, b Diagnostic) bool {
		return a.Subject == b.Subject && a.Code == b.Code && a.Detail == b.Detail
	})
}

func (d *Diagnostics) errorf(code string, at hclv2.Range, summary, detail string, args ...any) {
	d.report(Error, code, rangeOf(at), summary, detail, args...)
}

func (d *Diagnostics) warnf(code string, at hclv2.Range, summary, detail string, args ...any) {
	d.report(Warning, code, rangeOf(at), summary, detail, args...)
}

func (d *Diagnostics) report(sev Severity, code string, at Range, summary, detail string, args ...any) {
	*d = append(*d, Diagnostic{Severity: sev, Code: code, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: at})
}

// extra is what our own expression nodes hang on an HCL diagnostic, so that
// the code survives the way through HCL's evaluator.
type extra struct{ code string }

// evalDiag makes the HCL diagnostic that an expression node returns.
func evalDiag(code string, e hclsyntax.Expression, ctx *hclv2.EvalContext, at hclv2.Range, summary, detail string, args ...any) hclv2.Diagnostics {
	return hclv2.Diagnostics{{
		Severity: hclv2.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...),
		Subject: &at, Expression: e, EvalContext: ctx, Extra: extra{code},
	}}
}

// fromHCL takes over what HCL's parser or evaluator reports.
func fromHCL(ds hclv2.Diagnostics) Diagnostics {
	var out Diagnostics
	for _, d := range ds {
		n := Diagnostic{Summary: d.Summary, Detail: d.Detail}
		if x, ok := d.Extra.(extra); ok {
			n.Code = x.code
		} else {
			n.Code = kebab(d.Summary)
		}
		if d.Severity == hclv2.DiagWarning {
			n.Severity = Warning
		}
		if d.Subject != nil {
			n.Subject = rangeOf(*d.Subject)
		}
		if d.Context != nil {
			n.Context = rangeOf(*d.Context)
		}
		if d.EvalContext != nil {
			if f := frameOf(d.EvalContext); f != nil && f.hides(d.Expression) {
				n.Detail = f.x.hiddenDetail()
			}
			if d.Expression != nil {
				n.Values = namedValues(d.Expression, d.EvalContext)
			}
		}
		out = append(out, n)
	}
	return out
}

// kebab makes a code of HCL's summary; HCL's version is pinned, and the golden
// files pin the codes users meet.
func kebab(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")
}

// DidYouMean returns ` Did you mean "x"?` for the nearest name, or "".
func DidYouMean(given string, names []string) string {
	switch n := nearest(given, names); {
	case n == "":
		return ""
	case strings.Contains(n, `"`): // the address of an instance, as a shell takes it
		return fmt.Sprintf(" Did you mean '%s'?", n)
	default:
		return fmt.Sprintf(" Did you mean %q?", n)
	}
}

// nearest returns the name with the smallest edit distance, "" when none is
// close. Of equally near ones the first in order of names wins.
func nearest(given string, names []string) string {
	given = strings.ToLower(given)
	letters := len([]rune(given))
	limit := min(1+min(letters/3, 3), letters-1) // at least one letter is right
	best, dist := "", limit+1
	for _, n := range names {
		if len(n) > 2*maxName || abs(len(n)-len(given)) > 4*limit {
			continue
		}
		d := levenshtein.Distance(given, strings.ToLower(n), nil)
		if d == 2 && transposed(given, strings.ToLower(n)) {
			d = 1
		}
		if d < dist || d == dist && best != "" && n < best {
			best, dist = n, d
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// transposed reports whether a and b differ by two neighbouring letters that
// changed places.
func transposed(a, b string) bool {
	x, y := []rune(a), []rune(b)
	if len(x) != len(y) {
		return false
	}
	for i := 0; i+1 < len(x); i++ {
		if x[i] != y[i] {
			return x[i] == y[i+1] && x[i+1] == y[i] && slices.Equal(x[i+2:], y[i+2:])
		}
	}
	return false
}
