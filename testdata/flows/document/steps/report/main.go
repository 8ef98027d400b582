// Command report is the step that writes what the other steps found as one
// Markdown document.
package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

func main() {
	serve.Main(map[string]sdk.Step{"report": sdk.Func(report)})
}

// input holds the outputs of the other steps; fields that the report does not
// show are not listed.
type input struct {
	Title    string `json:"title"`
	Contents []struct {
		Number int    `json:"number"`
		Title  string `json:"title"`
		Words  int    `json:"words"`
	} `json:"contents"`
	Entities struct {
		Entities []struct {
			Name     string   `json:"name"`
			Kind     string   `json:"kind"`
			Count    int      `json:"count"`
			Chapters []int    `json:"chapters"`
			Aliases  []string `json:"aliases"`
		} `json:"entities"`
	} `json:"entities"`
	Keywords struct {
		Keywords []struct {
			Phrase string `json:"phrase"`
			Count  int    `json:"count"`
		} `json:"keywords"`
		Chapters []struct {
			Number   int      `json:"number"`
			Keywords []string `json:"keywords"`
		} `json:"chapters"`
	} `json:"keywords"`
	Sentiment struct {
		Overall  mood   `json:"overall"`
		Chapters []mood `json:"chapters"`
	} `json:"sentiment"`
	Summary struct {
		Chapters []struct {
			Number    int      `json:"number"`
			Sentences []string `json:"sentences"`
		} `json:"chapters"`
	} `json:"summary"`
}

type mood struct {
	Number   int     `json:"number"`
	Score    float64 `json:"score"` // -1 to 1
	Label    string  `json:"label"`
	Positive int     `json:"positive"`
	Negative int     `json:"negative"`
}

type output struct {
	Markdown string `json:"markdown"`
}

func report(_ context.Context, in input, _ sdk.Host) (*output, error) {
	if len(in.Contents) == 0 {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Path: "/contents", Message: "there are no chapters"}
	}
	if err := in.complete(); err != nil {
		return nil, err
	}
	var b strings.Builder
	words := 0
	for _, c := range in.Contents {
		words += c.Words
	}
	fmt.Fprintf(&b, "# %s\n\n%s, %s. The mood is %s (%+.2f).\n\n", text(in.Title), count(len(in.Contents), "chapter"), count(words, "word"), in.Sentiment.Overall.Label, in.Sentiment.Overall.Score)

	b.WriteString("## Who and where\n\n")
	if len(in.Entities.Entities) == 0 {
		b.WriteString("No names were found.\n")
	} else {
		b.WriteString("| name | kind | mentions | chapters | also |\n|---|---|---:|---|---|\n")
	}
	for _, e := range in.Entities.Entities {
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s |\n", text(e.Name), text(e.Kind), e.Count, ranges(e.Chapters), text(strings.Join(e.Aliases, ", ")))
	}

	b.WriteString("\n## What about\n\n")
	for _, k := range in.Keywords.Keywords {
		fmt.Fprintf(&b, "- %s (%d)\n", text(k.Phrase), k.Count)
	}

	b.WriteString("\n## Chapter by chapter\n")
	for i, c := range in.Contents {
		title := c.Title
		if title == "" {
			title = in.Title
		}
		m := in.Sentiment.Chapters[i]
		fmt.Fprintf(&b, "\n### %d. %s\n\n%s · %s %s (%+.2f; %d positive, %d negative words)\n", c.Number, text(title), count(c.Words, "word"), bar(m.Score), m.Label, m.Score, m.Positive, m.Negative)
		if ks := in.Keywords.Chapters[i].Keywords; len(ks) > 0 {
			fmt.Fprintf(&b, "\nKeywords: %s\n", text(strings.Join(ks, ", ")))
		}
		for _, s := range in.Summary.Chapters[i].Sentences {
			fmt.Fprintf(&b, "\n> %s\n", text(s))
		}
	}
	return &output{b.String()}, nil
}

// complete checks that every analysis covers the chapters of the contents, in
// their order.
func (in *input) complete() error {
	for _, a := range []struct {
		path   string
		length int
		number func(int) int
	}{
		{"/keywords/chapters", len(in.Keywords.Chapters), func(i int) int { return in.Keywords.Chapters[i].Number }},
		{"/sentiment/chapters", len(in.Sentiment.Chapters), func(i int) int { return in.Sentiment.Chapters[i].Number }},
		{"/summary/chapters", len(in.Summary.Chapters), func(i int) int { return in.Summary.Chapters[i].Number }},
	} {
		if a.length != len(in.Contents) {
			return &sdk.Error{Class: sdk.ClassInvalidInput, Path: a.path, Message: fmt.Sprintf("%d chapters, the contents have %d", a.length, len(in.Contents))}
		}
		for i, c := range in.Contents {
			if a.number(i) != c.Number {
				return &sdk.Error{Class: sdk.ClassInvalidInput, Path: fmt.Sprintf("%s/%d/number", a.path, i), Message: fmt.Sprintf("chapter %d stands where the contents have %d", a.number(i), c.Number)}
			}
		}
	}
	return nil
}

// markdown escapes what would be markup in running text or in a table.
var markdown = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, "|", `\|`, "#", `\#`, "\n", " ", "\r", " ")

func text(s string) string { return markdown.Replace(s) }

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits + " " + noun
}

// ranges writes 1, 2, 3, 5 as 1-3, 5.
func ranges(ns []int) string {
	var parts []string
	for i := 0; i < len(ns); {
		j := i
		for j+1 < len(ns) && ns[j+1] == ns[j]+1 {
			j++
		}
		if j > i {
			parts = append(parts, fmt.Sprintf("%d-%d", ns[i], ns[j]))
		} else {
			parts = append(parts, fmt.Sprint(ns[i]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// bar draws a score from -1 to 1 with ten cells.
func bar(score float64) string {
	full := min(max(int(float64((score+1)*5)+0.5), 0), 10)
	return strings.Repeat("▰", full) + strings.Repeat("▱", 10-full)
}
