package main

import (
	"os"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

func titles(o *output) []string {
	var ts []string
	for _, c := range o.Chapters {
		ts = append(ts, c.Title)
	}
	return ts
}

// whole puts the text together again.
func whole(o *output) string {
	var b strings.Builder
	b.WriteString(o.Front)
	for _, c := range o.Chapters {
		b.WriteString(c.Heading + c.Text)
	}
	return b.String()
}

func TestSplitBooks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, title, last string
		chapters          int
	}{
		{"holmes.txt", "THE ADVENTURES OF SHERLOCK HOLMES", "XII. THE ADVENTURE OF THE COPPER BEECHES", 12},
		{"zh.txt", "三國演義（節錄）", "第二回 張翼德怒鞭督郵 何國舅謀誅宦豎", 2},
	} {
		b, err := os.ReadFile("../../text/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		o, err := split(t.Context(), input{string(b)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(o.Chapters); n != c.chapters || o.Title != c.title || o.Chapters[n-1].Title != c.last {
			t.Errorf("%s: %q, %d chapters: %q", c.file, o.Title, n, titles(o))
		}
		if whole(o) != string(b) {
			t.Errorf("%s: the parts are not the whole", c.file)
		}
	}
}

func TestSplitNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n\t", "…!?"} {
		_, err := split(t.Context(), input{text}, nil)
		if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassInvalidInput || e.Path != "/text" {
			t.Errorf("%q gives %v", text, err)
		}
	}
}
