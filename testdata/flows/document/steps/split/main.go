// Command split is the step that cuts a text into chapters.
package main

import (
	"context"

	"github.com/retrace-dev/engine/plugins/text/prose"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

func main() {
	serve.Main(map[string]sdk.Step{"split": sdk.Func(split)})
}

type input struct {
	Text string `json:"text"`
}

// output loses nothing: Front followed by each chapter's Heading and Text is
// the input, byte for byte.
type output struct {
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

func split(_ context.Context, in input, _ sdk.Host) (*output, error) {
	if prose.CountWords(in.Text) == 0 {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Path: "/text", Message: "the text has no words; give a text with -var text=@FILE"}
	}
	out := &output{Title: prose.FirstLine(in.Text)}
	out.Front, out.Chapters = prose.Chapters(in.Text)
	for _, c := range out.Chapters {
		out.Contents = append(out.Contents, entry{c.Number, c.Title, prose.CountWords(c.Text)})
	}
	return out, nil
}
