package fault

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// say is the text of a good answer, see New; without a schema {"ok":true}.
func say(texts []string, body []byte) string {
	for k, text := range texts {
		if _, answer, ok := strings.Cut("\n"+text, "\nalways say "); ok {
			return answer
		}
		if _, answer, ok := strings.Cut("\n"+text, "\nsay "); ok && k == len(texts)-1 {
			return answer
		}
	}
	if s := schemaOf(body); s != nil {
		b, _ := json.Marshal(least(s))
		return string(b)
	}
	return `{"ok":true}`
}

// schemaOf finds the schema where each dialect has it.
func schemaOf(body []byte) map[string]any {
	var q struct {
		Format struct {
			Schema struct {
				Schema map[string]any `json:"schema"`
			} `json:"json_schema"`
		} `json:"response_format"`
		Config struct {
			Format struct {
				Schema map[string]any `json:"schema"`
			} `json:"format"`
		} `json:"output_config"`
		Generation struct {
			Schema map[string]any `json:"responseJsonSchema"`
		} `json:"generationConfig"`
	}
	if json.Unmarshal(body, &q) != nil {
		return nil
	}
	for _, s := range []map[string]any{q.Format.Schema.Schema, q.Config.Format.Schema, q.Generation.Schema} {
		if s != nil {
			return s
		}
	}
	return nil
}

// least is a small value that fits a plain schema.
func least(s map[string]any) any {
	if values, ok := s["enum"].([]any); ok && len(values) > 0 {
		return values[0]
	}
	switch s["type"] {
	case "object":
		o := object{}
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			p, _ := properties[name].(map[string]any)
			o[name] = least(p)
		}
		return o
	case "array":
		items, _ := s["items"].(map[string]any)
		return []any{least(items)}
	case "string":
		return "text"
	case "number", "integer":
		return 1
	case "boolean":
		return true
	}
	return nil
}
