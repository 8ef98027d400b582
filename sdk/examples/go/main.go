// Command words is a step that counts the words of a text.
package main

import (
	"context"
	"slices"
	"strings"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

type input struct {
	Text  *string `json:"text"`
	Least *int    `json:"least"`
}

type output struct {
	Total int    `json:"total"`
	Words []word `json:"words"`
}

type word struct {
	Word  string `json:"word"`
	Count int    `json:"count"`
}

func count(ctx context.Context, in input, host sdk.Host) (output, error) {
	if in.Text == nil {
		return output{}, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "want a string", Path: "/text"}
	}
	least := 1
	if in.Least != nil {
		least = *in.Least
	}
	if least < 1 {
		return output{}, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "want a whole number from 1", Path: "/least"}
	}
	out := output{Words: []word{}}
	at := map[string]int{}
	for _, w := range strings.FieldsFunc(*in.Text, func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) }) {
		if i, seen := at[w]; seen {
			out.Words[i].Count++
		} else {
			at[w] = len(out.Words)
			out.Words = append(out.Words, word{w, 1})
		}
		out.Total++
	}
	sdk.Log(ctx, host, "info", "the words are counted", nil)
	out.Words = slices.DeleteFunc(out.Words, func(w word) bool { return w.Count < least })
	return out, nil
}

func main() { serve.Main(map[string]sdk.Step{"count": sdk.Func(count)}) }
