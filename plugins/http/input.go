package main

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

type input struct {
	URL       string                     `json:"url"`
	Method    string                     `json:"method"` // Defaults to POST with a body, else GET
	Query     map[string]any             `json:"query"`  // added to the URL's own
	Headers   map[string]sdk.HeaderValue `json:"headers"`
	Bearer    *sdk.HeaderValue           `json:"bearer"` // Authorization: Bearer ...
	JSON      json.RawMessage            `json:"json"`
	Form      map[string]any             `json:"form"`
	Text      *string                    `json:"text"`
	OKStatus  []int                      `json:"ok_status"` // failing statuses that are answers
	Response  string                     `json:"response"`  // json, text or blob. Defaults to what the body is
	TimeoutMS int64                      `json:"timeout_ms"`
}

func parse(text json.RawMessage) (*input, error) {
	var in input
	if err := sdk.Unmarshal(text, &in); err != nil {
		return nil, invalid("", "the input cannot be read: %v", err)
	}
	if in.Method == "" {
		in.Method = "GET"
		if in.JSON != nil || in.Form != nil || in.Text != nil {
			in.Method = "POST"
		}
	}
	in.Method = strings.ToUpper(in.Method)
	return &in, nil
}

// op is the operation that sends the request, and the body.
func (in *input) op() (*sdk.HTTPOp, []byte, error) {
	op := &sdk.HTTPOp{Method: in.Method, URL: in.URL, Headers: map[string][]string{}, TimeoutMS: in.TimeoutMS}
	if len(in.Query) > 0 {
		q, err := values("/query", in.Query)
		if err != nil {
			return nil, nil, err
		}
		sep := "?"
		if strings.Contains(in.URL, "?") {
			sep = "&"
		}
		op.URL += sep + q
	}
	body, mediaType, err := in.body()
	if err != nil {
		return nil, nil, err
	}
	if in.Bearer != nil {
		in.Bearer.Set(op, "Authorization", "Bearer ")
	}
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		in.Headers[name].Set(op, name, "")
		if strings.EqualFold(name, "Content-Type") {
			mediaType = ""
		}
	}
	if mediaType != "" {
		op.Headers["Content-Type"] = []string{mediaType}
	}
	return op, body, nil
}

func (in *input) body() (body []byte, mediaType string, err error) {
	given := 0
	if in.JSON != nil {
		given++
		body, mediaType = in.JSON, "application/json"
	}
	if in.Text != nil {
		given++
		body, mediaType = []byte(*in.Text), "text/plain; charset=utf-8"
	}
	if in.Form != nil {
		given++
		form, err := values("/form", in.Form)
		if err != nil {
			return nil, "", err
		}
		body, mediaType = []byte(form), "application/x-www-form-urlencoded"
	}
	if given > 1 {
		return nil, "", invalid("", "give one of json, form and text")
	}
	return body, mediaType, nil
}

// values encodes names with a string, number or bool, or a list of them, sorted
// by name.
func values(path string, m map[string]any) (string, error) {
	q := url.Values{}
	for name, v := range m {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, e := range list {
			switch e := e.(type) {
			case string:
				q.Add(name, e)
			case json.Number:
				q.Add(name, e.String())
			case bool:
				q.Add(name, map[bool]string{true: "true", false: "false"}[e])
			case nil: // left out
			default:
				return "", invalid(path, "%q is neither a string, number or bool nor a list of them", name)
			}
		}
	}
	return q.Encode(), nil
}
