package host

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/retrace-dev/engine/hcl"
)

// shown is the input of step i as the plan knows it and as it may be shown; nil if it
// needs what has not ended yet, or secrets, which are not fetched to be compared, or
// answers that may repeat what is sensitive.
func (s *session) shown(ctx context.Context, i int32) json.RawMessage {
	if st := &s.f.steps[i]; st.ForEach || len(st.Secrets) > 0 || s.f.hears(i) {
		return nil
	}
	var missing error
	input, diags := s.eval.Input(int(i), s.foreseen(ctx, &missing))
	if missing != nil {
		return nil
	}
	return s.show(i, input, diags)
}

// shown is the input of w as it may be shown, nil if it cannot be evaluated.
func (r *run) shown(w *work) json.RawMessage {
	if len(r.step(w).Secrets) > 0 || r.s.f.hears(w.step) {
		return nil
	}
	up := r.upstream(w.unit)
	scope := w.scope
	scope.Up = up.result
	input, diags := r.s.eval.Input(int(w.step), scope)
	if up.err != nil {
		return nil
	}
	return r.s.show(w.step, input, diags)
}

func (s *session) show(i int32, input json.RawMessage, diags hcl.Diagnostics) json.RawMessage {
	if diags.HasErrors() {
		return nil
	}
	return s.secrets.redactor().JSON(s.eval.Shown(int(i), input))
}

// mostShown is how many attributes a reason shows, longest how many characters of a
// value, before how many of them from before the first that differs.
const (
	mostShown    = 2
	longestShown = 48
	beforeShown  = 16
)

// hiddenValue stands in an input in place of what must not be shown.
const hiddenValue = `"(sensitive)"`

// differences says in words which attributes of an input have other values than they
// had, as far as its head tells: text "one" → "two".
func differences(head string, now json.RawMessage) string {
	if head == "" || now == nil {
		return ""
	}
	is := map[string]json.RawMessage{}
	if json.Unmarshal(now, &is) != nil {
		return ""
	}
	var shown []string
	eachMember(head, func(name, was string, cut bool) {
		v, has := is[name]
		if !has || len(shown) > mostShown {
			return
		}
		value := compact(v)
		if value == was || cut && strings.HasPrefix(value, was) || strings.Contains(was+value, hiddenValue) {
			return
		}
		if len(shown) == mostShown {
			shown = append(shown, "…")
			return
		}
		if cut {
			was += "…"
		}
		a, b := around(was, value)
		shown = append(shown, name+" "+a+" → "+b)
	})
	return strings.Join(shown, ", ")
}

// eachMember calls f with the members of an object in its order, each value compact.
// The text may end anywhere, with "…": the last value is then cut.
func eachMember(text string, f func(name, value string, cut bool)) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return
		}
		from := d.InputOffset()
		var v json.RawMessage
		if d.Decode(&v) != nil {
			rest, cut := strings.CutSuffix(text[from:], "…")
			if rest = strings.TrimLeft(rest, ": "); cut && rest != "" {
				f(name, rest, true)
			}
			return
		}
		f(name, compact(v), false)
	}
}

func compact(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return string(v)
	}
	return b.String()
}

// around cuts two long values to where they begin to differ.
func around(a, b string) (string, string) {
	if utf8.RuneCountInString(a) <= longestShown && utf8.RuneCountInString(b) <= longestShown {
		return a, b
	}
	x, y := []rune(a), []rune(b)
	same := 0
	for same < len(x) && same < len(y) && x[same] == y[same] {
		same++
	}
	from := max(same-beforeShown, 0)
	part := func(v []rune) string {
		text, end := string(v[from:min(from+longestShown, len(v))]), ""
		if from+longestShown < len(v) {
			end = "…"
		}
		if from > 0 {
			return "…" + text + end
		}
		return text + end
	}
	return part(x), part(y)
}
