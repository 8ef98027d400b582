// Command template is the plugin std/template: text made of a template and
// data, for prompts, messages and reports.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/template"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

func main() {
	serve.Main(map[string]sdk.Step{"render": sdk.Func(render)})
}

type input struct {
	Template string            `json:"template"`
	Data     any               `json:"data"`
	Partials map[string]string `json:"partials"` // for {{template "name" .}}
}

type output struct {
	Text string `json:"text"`
}

// maxText ends templates that would never end.
const maxText = 8 << 20

func render(ctx context.Context, in input, _ sdk.Host) (*output, error) {
	wrong := func(path string, err error) error {
		return &sdk.Error{Class: sdk.ClassInvalidInput, Path: path, Message: strings.TrimPrefix(err.Error(), "template: ")}
	}
	t := template.New("template").Option("missingkey=error").Funcs(functions)
	for name, text := range in.Partials {
		if _, err := t.New(name).Parse(text); err != nil {
			return nil, wrong("/partials/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), err)
		}
	}
	if _, err := t.Parse(in.Template); err != nil {
		return nil, wrong("/template", err)
	}
	w := &limited{done: ctx.Done()}
	if err := t.Execute(w, numbers(in.Data)); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, wrong("/template", err)
	}
	return &output{Text: w.String()}, nil
}

// limited is a text that does not grow without end.
type limited struct {
	strings.Builder
	done <-chan struct{}
}

func (w *limited) Write(b []byte) (int, error) {
	select {
	case <-w.done:
		return 0, fmt.Errorf("the attempt has ended")
	default:
	}
	if w.Len()+len(b) > maxText {
		return 0, fmt.Errorf("the text is longer than %d MiB", maxText>>20)
	}
	return w.Builder.Write(b)
}

// numbers makes numbers of what JSON gave as digits, where none is lost, so that
// templates can compare them.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = numbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = numbers(e)
		}
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil && strconv.Itoa(n) == v.String() {
			return n
		}
		if f, err := v.Float64(); err == nil && !math.IsInf(f, 0) && strconv.FormatFloat(f, 'f', -1, 64) == v.String() {
			return f
		}
	}
	return v
}

// functions beside those of text/template.
var functions = template.FuncMap{
	"json":    func(v any) (string, error) { b, err := sdk.Marshal(v); return string(b), err },
	"pretty":  pretty,
	"join":    join,
	"split":   func(sep, s string) []string { return strings.Split(s, sep) },
	"lines":   func(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") },
	"upper":   strings.ToUpper,
	"lower":   strings.ToLower,
	"trim":    strings.TrimSpace,
	"replace": func(old, new, s string) string { return strings.ReplaceAll(s, old, new) },
	"indent":  indent,
	"default": func(otherwise, v any) any {
		if truth, _ := template.IsTrue(v); truth {
			return v
		}
		return otherwise
	},
	"add": func(a, b int) int { return a + b },
}

func pretty(v any) (string, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return string(b), err
}

// join puts sep between the elements of a list; what is no string is written as
// JSON.
func join(sep string, list any) (string, error) {
	var parts []string
	switch l := list.(type) {
	case []string:
		parts = l
	case []any:
		for _, e := range l {
			s, ok := e.(string)
			if !ok {
				b, err := sdk.Marshal(e)
				if err != nil {
					return "", err
				}
				s = string(b)
			}
			parts = append(parts, s)
		}
	default:
		return "", fmt.Errorf("join wants a list, not %T", list)
	}
	return strings.Join(parts, sep), nil
}

func indent(n int, s string) (string, error) {
	if n < 0 || n > 80 {
		return "", fmt.Errorf("indent by %d; want 0 to 80", n)
	}
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(s, "\n", "\n"+pad), nil
}
