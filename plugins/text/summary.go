package main

import (
	"context"

	"github.com/retrace-dev/engine/plugins/text/prose"
	"github.com/retrace-dev/engine/sdk"
)

type summaryInput struct {
	document
	Sentences int `json:"sentences"` // per chapter
}

type summaryOutput struct {
	Chapters []summarized `json:"chapters"`
}

type summarized struct {
	Number    int      `json:"number"`
	Title     string   `json:"title"`
	Sentences []string `json:"sentences"` // in the order of the text
}

// summary picks each chapter's most telling sentences.
func summary(ctx context.Context, in summaryInput, _ sdk.Host) (*summaryOutput, error) {
	chapters, err := in.parts()
	if err != nil {
		return nil, err
	}
	if err := atMost("/sentences", &in.Sentences, 3, 1000); err != nil {
		return nil, err
	}
	out := &summaryOutput{}
	for _, c := range chapters {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		out.Chapters = append(out.Chapters, summarized{c.Number, c.Title, prose.Pick(prose.Sentences(c.Text), in.Sentences)})
	}
	return out, nil
}
