package main

import (
	"encoding/json"
	"maps"
)

// object is a JSON object that is sent.
type object map[string]any

func (o object) number(name string, n *json.Number) {
	if n != nil {
		o[name] = *n
	}
}

// with is o and the flow's own fields, which win.
func (o object) with(extra map[string]any) object {
	maps.Copy(o, extra)
	return o
}

// describe is a tool, with its schema under the dialect's name for it.
func (t *tool) describe(schema string) object {
	o := object{"name": t.Name}
	if t.Description != "" {
		o["description"] = t.Description
	}
	if given(t.Parameters) {
		o[schema] = t.Parameters
	} else {
		o[schema] = object{"type": "object", "properties": object{}}
	}
	return o
}

// first keeps the first value that is not empty.
func first(to *string, value string) {
	if *to == "" {
		*to = value
	}
}
