package host

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("字", 200)
	for name, c := range map[string]struct{ head, now, want string }{
		"a number":             {`{"t":0.2,"p":"same"}`, `{"p":"same","t":0.7}`, `t 0.2 → 0.7`},
		"spaces do not count":  {`{"v":{"a":1}}`, `{"v":{ "a": 1 }}`, ``},
		"two":                  {`{"a":1,"b":"x"}`, `{"a":2,"b":"y"}`, `a 1 → 2, b "x" → "y"`},
		"more than two":        {`{"a":1,"b":1,"c":1,"d":1}`, `{"a":2,"b":2,"c":2,"d":2}`, `a 1 → 2, b 1 → 2, …`},
		"added and removed":    {`{"a":1,"b":1}`, `{"b":1,"c":1}`, ``},
		"a long text":          {`{"p":"` + long + `早"}`, `{"p":"` + long + `晚"}`, `p …` + strings.Repeat("字", 16) + `早" → …` + strings.Repeat("字", 16) + `晚"`},
		"a head that is cut":   {`{"a":1,"p":"` + long + `…`, `{"a":2,"p":"x"}`, `a 1 → 2, p "` + strings.Repeat("字", 47) + `… → "x"`},
		"not known whether":    {`{"p":"` + long + `…`, `{"p":"` + long + `, and more"}`, ``},
		"what is hidden":       {`{"p":"(sensitive)"}`, `{"p":"open"}`, ``},
		"nothing is known":     {``, `{"p":1}`, ``},
		"no input now":         {`{"p":1}`, ``, ``},
		"an input of no names": {`[1]`, `[2]`, ``},
		"what is no JSON":      {`{"p":x`, `{"p":1}`, ``},
	} {
		var now json.RawMessage
		if c.now != "" {
			now = json.RawMessage(c.now)
		}
		if got := differences(c.head, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
