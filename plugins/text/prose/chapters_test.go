package prose

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func titles(cs []Chapter) []string {
	var ts []string
	for _, c := range cs {
		ts = append(ts, c.Title)
	}
	return ts
}

// whole puts the text together again.
func whole(front string, cs []Chapter) string {
	var b strings.Builder
	b.WriteString(front)
	for _, c := range cs {
		b.WriteString(c.Heading + c.Text)
	}
	return b.String()
}

func TestChapters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"named", "A Book\n\nCHAPTER I\n\nOne.\n\nChapter 2: More\n\nTwo.\n", []string{"CHAPTER I", "Chapter 2: More"}},
		{"a title below", "CHAPTER I.\nDown the Rabbit-Hole\n\nAlice.\n\nCHAPTER II.\nThe Pool\n\nTears.\n", []string{"CHAPTER I. Down the Rabbit-Hole", "CHAPTER II. The Pool"}},
		{"contents in one block", "B\n\nCHAPTER I. A\nCHAPTER II. B\nCHAPTER III. C\n\nCHAPTER I. A\n\nx\n\nCHAPTER II. B\n\ny\n", []string{"CHAPTER I. A", "CHAPTER II. B"}},
		{"contents with blank lines", "CHAPTER I\n\nCHAPTER II\n\n\nCHAPTER I\n\nx\n\nCHAPTER II\n\ny\n", []string{"CHAPTER I", "CHAPTER II"}},
		{"sections are not chapters", "ADVENTURE I. A\n\nI.\n\nx\n\nII.\n\ny\n\nII. THE NEXT\n\nz\n", []string{"ADVENTURE I. A", "II. THE NEXT"}},
		{"numbers alone", "1\n\nx\n\n2\n\ny\n", []string{"1", "2"}},
		{"a sentence is no heading", "Chapter four of that book is\ngood, I think, and long.\nYes.\n", []string{""}},
		{"no headings", "Just words.", []string{""}},
		{"Chinese", "書\n第一章　開始\n文。\n第十二回 中間\n文。\n第2节\n文", []string{"第一章 開始", "第十二回 中間", "第2节"}},
		{"a Chinese sentence is no heading", "第一回也。\n第一回 題\n此開卷第一回也。", []string{"第一回 題"}},
		{"Markdown", "# One\nx\n## Two\ny\n", []string{"One", "Two"}},
		{"CR LF and a byte order mark", "\uFEFFCHAPTER 1\r\n\r\nx\r\n\r\nCHAPTER 2\r\n\r\ny\r\n", []string{"CHAPTER 1", "CHAPTER 2"}},
		{"right to left and emoji", "# שלום 🏴󠁧󠁢󠁥󠁮󠁧󠁿\nעולם\n# b\nc", []string{"שלום 🏴󠁧󠁢󠁥󠁮󠁧󠁿", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			front, chapters := Chapters(c.text)
			if d := cmp.Diff(c.want, titles(chapters)); d != "" {
				t.Error(d)
			}
			if whole(front, chapters) != c.text {
				t.Errorf("the parts make %q", whole(front, chapters))
			}
		})
	}
}

func TestCountWords(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int{"": 0, "don't look-up": 2, "三國 and 演義": 5, "naïve café 7": 3, "—…": 0} {
		if got := CountWords(s); got != want {
			t.Errorf("%q has %d words, want %d", s, got, want)
		}
	}
}
