package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/retrace-dev/engine/sdk"
)

const full = `{"title":"A *Book*","contents":[{"number":1,"title":"One | 一","words":1234},{"number":2,"title":"","words":1}],
"entities":{"entities":[{"name":"Ann_B","kind":"person","count":3,"chapters":[1,2],"aliases":["Miss B"]}]},
"keywords":{"keywords":[{"phrase":"red <b>","count":2}],"chapters":[{"number":1,"keywords":["red","桃園"]},{"number":2,"keywords":[]}]},
"sentiment":{"overall":{"score":0.25,"label":"positive"},"chapters":[{"number":1,"score":-1,"label":"negative","positive":0,"negative":4},{"number":2,"score":0,"label":"neutral","positive":1,"negative":1}]},
"summary":{"chapters":[{"number":1,"sentences":["She said \"שלום 🏴\"."]},{"number":2,"sentences":[]}]}}`

const want = `# A \*Book\*

2 chapters, 1,235 words. The mood is positive (+0.25).

## Who and where

| name | kind | mentions | chapters | also |
|---|---|---:|---|---|
| Ann\_B | person | 3 | 1-2 | Miss B |

## What about

- red \<b> (2)

## Chapter by chapter

### 1. One \| 一

1,234 words · ▱▱▱▱▱▱▱▱▱▱ negative (-1.00; 0 positive, 4 negative words)

Keywords: red, 桃園

> She said "שלום 🏴".

### 2. A \*Book\*

1 word · ▰▰▰▰▰▱▱▱▱▱ neutral (+0.00; 1 positive, 1 negative words)
`

func run(t *testing.T, in string) (*sdk.Response, error) {
	t.Helper()
	return sdk.Func(report).Run(t.Context(), &sdk.Request{Input: json.RawMessage(in)}, nil)
}

func TestReport(t *testing.T) {
	t.Parallel()
	r, err := run(t, full)
	if err != nil {
		t.Fatal(err)
	}
	var out output
	if err := json.Unmarshal(r.Output, &out); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, out.Markdown); d != "" {
		t.Error(d)
	}
}

// A report with a part missing would look whole.
func TestReportRefuses(t *testing.T) {
	t.Parallel()
	for in, path := range map[string]string{
		`{"contents":[]}`: "/contents",
		`{"contents":[{"number":1}],"keywords":{"chapters":[]}}`:                                                                                               "/keywords/chapters",
		`{"contents":[{"number":1}],"keywords":{"chapters":[{"number":2}]}}`:                                                                                   "/keywords/chapters/0/number",
		`{"contents":[{"number":1}],"keywords":{"chapters":[{"number":1}]},"sentiment":{"chapters":[{"number":1}]},"summary":{"chapters":[{"number":"one"}]}}`: "/summary/chapters/number",
	} {
		_, err := run(t, in)
		if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassInvalidInput || e.Path != path {
			t.Errorf("%s gives %v", in, err)
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	if got := ranges([]int{1, 2, 3, 5, 8, 9}); got != "1-3, 5, 8-9" || ranges(nil) != "" {
		t.Errorf("got %q", got)
	}
}
