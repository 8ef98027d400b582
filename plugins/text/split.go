package main

import (
	"context"

	"github.com/retrace-dev/engine/plugins/text/prose"
	"github.com/retrace-dev/engine/sdk"
)

type splitInput struct {
	Text string `json:"text"`
}

type splitOutput struct {
	Title    string          `json:"title"` // first line of the text
	Front    string          `json:"front"` // what stands before the first heading: title page, contents, preface
	Chapters []prose.Chapter `json:"chapters"`
	Contents []entry         `json:"contents"` // the chapters without their text
}

type entry struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
	Words  int    `json:"words"`
}

// split cuts a text into chapters at its headings.
func split(_ context.Context, in splitInput, _ sdk.Host) (*splitOutput, error) {
	if prose.CountWords(in.Text) == 0 {
		return nil, invalid("/text", "the text has no words")
	}
	out := &splitOutput{Title: prose.FirstLine(in.Text)}
	out.Front, out.Chapters = prose.Chapters(in.Text)
	for _, c := range out.Chapters {
		out.Contents = append(out.Contents, entry{c.Number, c.Title, prose.CountWords(c.Text)})
	}
	return out, nil
}
