// Command text is the plugin std/text: what a text is about, by classical
// methods that need no model. Equal input gives equal bytes on every platform.
package main

import (
	"fmt"
	"strconv"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

func main() {
	serve.Main(map[string]sdk.Step{
		"split":     sdk.Func(split),
		"keywords":  sdk.Func(keywords),
		"entities":  sdk.Func(entities),
		"sentiment": sdk.Func(sentiment),
		"summary":   sdk.Func(summary),
	})
}

// document is a text, whole or in chapters as split gives them.
type document struct {
	Text     *string   `json:"text"`
	Chapters []chapter `json:"chapters"`
}

type chapter struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
	Text   string `json:"text"`
}

// parts are the chapters; a whole text is one.
func (d *document) parts() ([]chapter, error) {
	switch {
	case d.Text != nil && d.Chapters != nil:
		return nil, invalid("/text", "give a text or chapters, not both")
	case d.Text != nil:
		return []chapter{{Number: 1, Text: *d.Text}}, nil
	case len(d.Chapters) == 0:
		return nil, invalid("/chapters", "there is no text and there are no chapters")
	}
	return d.Chapters, nil
}

func texts(cs []chapter) []string {
	ts := make([]string, len(cs))
	for i := range cs {
		ts[i] = cs[i].Text
	}
	return ts
}

// atMost checks a number of things wanted; 0 is the default.
func atMost(path string, n *int, standard, most int) error {
	if *n == 0 {
		*n = standard
	}
	if *n < 1 || *n > most {
		return invalid(path, fmt.Sprintf("%d; want a whole number from 1 to %d", *n, most))
	}
	return nil
}

func invalid(path, message string) error {
	return &sdk.Error{Class: sdk.ClassInvalidInput, Path: path, Message: message}
}

// fixed is a number with three digits after the point.
type fixed float64

func (f fixed) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(f), 'f', 3, 64), nil
}
