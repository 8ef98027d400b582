package document_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// analysis is what the steps say of a text, as far as the tests look.
type analysis struct {
	split struct {
		Title    string
		Chapters json.RawMessage
		Contents json.RawMessage
	}
	entities struct {
		Entities []struct {
			Name, Kind string
			Count      int
			Chapters   []int
			Aliases    []string
		}
	}
	keywords struct {
		Keywords []struct{ Phrase string }
		Chapters []struct{ Keywords []string }
	}
	sentiment struct {
		Chapters []struct{ Score float64 }
	}
	summary struct {
		Chapters []struct{ Sentences []string }
	}
	report struct{ Markdown string }
}

// analyse does by hand what flow.hcl says. Every step runs twice and must give
// the same bytes; the report is made by both carriers.
func analyse(t *testing.T, p *plugins, file string) *analysis {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("text", file))
	if err != nil {
		t.Fatal(err)
	}
	twice := func(a, b *step, input, out any) json.RawMessage {
		t.Helper()
		first, second := a.run(t, input), b.run(t, input)
		if string(first) != string(second) {
			t.Fatalf("%s gives first %s\nand then %s", a.name, first, second)
		}
		if err := json.Unmarshal(first, out); err != nil {
			t.Fatal(err)
		}
		return first
	}
	module := func(name string, input, out any) json.RawMessage {
		t.Helper()
		s := p.module(t, name)
		return twice(s, s, input, out)
	}
	var a analysis
	module("split", map[string]any{"text": string(text)}, &a.split)
	chapters := map[string]any{"chapters": a.split.Chapters, "limit": 15, "sentences": 2}
	twice(p.module(t, "report"), load(t, p.native, "report", filepath.Join(tempDir, "report")), map[string]any{
		"title": a.split.Title, "contents": a.split.Contents,
		"entities":  module("entities", chapters, &a.entities),
		"keywords":  module("keywords", chapters, &a.keywords),
		"sentiment": module("sentiment", chapters, &a.sentiment),
		"summary":   module("summary", chapters, &a.summary),
	}, &a.report)
	return &a
}

// has reports whether the analysis found the name, as what it is.
func (a *analysis) has(name, kind string) bool {
	for _, e := range a.entities.Entities {
		if e.Name == name {
			return e.Kind == kind
		}
	}
	return false
}

func (a *analysis) phrases() []string {
	var ps []string
	for _, k := range a.keywords.Keywords {
		ps = append(ps, k.Phrase)
	}
	return ps
}

func TestHolmes(t *testing.T) {
	t.Parallel()
	a := analyse(t, shared(t), "holmes.txt")
	if e := a.entities.Entities[0]; e.Name != "Sherlock Holmes" || e.Kind != "person" || e.Count < 400 || len(e.Chapters) != 12 || !slices.Contains(e.Aliases, "Holmes") {
		t.Errorf("the first entity is %+v", e)
	}
	if !a.has("Watson", "person") || !a.has("London", "place") || !a.has("Baker Street", "place") {
		t.Errorf("entities %+v", a.entities)
	}
	for _, want := range []string{"sherlock holmes", "baker street", "scotland yard"} {
		if !slices.Contains(a.phrases(), want) {
			t.Errorf("no %q among %q", want, a.phrases())
		}
	}
	// What tells a story from the others.
	for chapter, want := range map[int]string{1: "irene adler", 2: "jabez wilson", 6: "opium den", 7: "goose", 8: "speckled band", 11: "coronet", 12: "copper beeches"} {
		if got := a.keywords.Chapters[chapter-1].Keywords; !slices.Contains(got, want) {
			t.Errorf("chapter %d: no %q among %q", chapter, want, got)
		}
	}
	// The murder by a snake is darker than the league of red-headed men.
	if m := a.sentiment.Chapters; m[7].Score >= -0.1 || m[1].Score <= 0.1 {
		t.Errorf("moods %+v", m)
	}
	for i, c := range a.summary.Chapters {
		if len(c.Sentences) != 2 {
			t.Errorf("chapter %d: %q", i+1, c.Sentences)
		}
	}
	for _, want := range []string{"# THE ADVENTURES OF SHERLOCK HOLMES\n", "| Sherlock Holmes | person |", "- baker street (", "### 12. XII. THE ADVENTURE OF THE COPPER BEECHES\n"} {
		if !strings.Contains(a.report.Markdown, want) {
			t.Errorf("no %q in the report", want)
		}
	}
}

func TestChinese(t *testing.T) {
	t.Parallel()
	a := analyse(t, shared(t), "zh.txt")
	if !a.has("玄德", "person") || !a.has("張飛", "person") || !a.has("幽州", "place") {
		t.Errorf("entities %+v", a.entities)
	}
	for _, want := range []string{"玄德", "桃園", "張寶"} {
		if !slices.Contains(a.phrases(), want) {
			t.Errorf("no %q among %q", want, a.phrases())
		}
	}
	if m := a.sentiment.Chapters; m[1].Score >= m[0].Score {
		t.Errorf("the battle is not darker than the oath: %+v", m)
	}
	for i, c := range a.summary.Chapters {
		if len(c.Sentences) != 2 || !strings.HasSuffix(strings.TrimRight(c.Sentences[0], "」"), "。") && !strings.HasSuffix(strings.TrimRight(c.Sentences[0], "」"), "？") {
			t.Errorf("chapter %d: %q", i+1, c.Sentences)
		}
	}
	if !strings.Contains(a.report.Markdown, "### 2. 第二回 張翼德怒鞭督郵 何國舅謀誅宦豎\n") {
		t.Errorf("report:\n%s", a.report.Markdown)
	}
}
