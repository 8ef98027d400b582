// Command summary is the step that picks each chapter's most telling
// sentences: LexRank, that is PageRank over a graph of sentences whose edges
// are weighted by how much they have in common (Erkan and Radev, 2004).
package main

import (
	"context"
	"fmt"

	"github.com/retrace-dev/engine/plugins/text/prose"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

func main() {
	serve.Main(map[string]sdk.Step{"summary": sdk.Func(summary)})
}

type input struct {
	Chapters []struct {
		Number int    `json:"number"`
		Title  string `json:"title"`
		Text   string `json:"text"`
	} `json:"chapters"`
	Sentences int `json:"sentences"` // per chapter
}

type output struct {
	Chapters []chapter `json:"chapters"`
}

type chapter struct {
	Number    int      `json:"number"`
	Title     string   `json:"title"`
	Sentences []string `json:"sentences"` // in the order of the text
}

func summary(ctx context.Context, in input, _ sdk.Host) (*output, error) {
	if len(in.Chapters) == 0 {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Path: "/chapters", Message: "there are no chapters"}
	}
	if in.Sentences < 1 {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Path: "/sentences", Message: fmt.Sprintf("%d sentences; ask for at least 1", in.Sentences)}
	}
	out := &output{}
	for _, c := range in.Chapters {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		out.Chapters = append(out.Chapters, chapter{c.Number, c.Title, prose.Pick(prose.Sentences(c.Text), in.Sentences)})
	}
	return out, nil
}
