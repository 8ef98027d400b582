package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/retrace-dev/engine/sdk"
)

// types are the Go types of the files.
var types = map[string]any{
	"request.schema.json":  sdk.Request{},
	"response.schema.json": sdk.Response{},
	"error.schema.json":    sdk.Error{},
	"usage.schema.json":    sdk.Usage{},
	"blob.schema.json":     sdk.Blob{},
	"secret.schema.json":   sdk.Secret{},
	"reply.schema.json":    sdk.Reply{},
	"manifest.schema.json": sdk.Manifest{},
}

// operations are the Go types of the operations and of the members of "ok" that
// answer them.
var operations = map[string][]any{
	sdk.OpLog:         {sdk.LogOp{}, struct{}{}},
	sdk.OpProgress:    {sdk.ProgressOp{}, struct{}{}},
	sdk.OpEmit:        {sdk.EmitOp{}, struct{}{}},
	sdk.OpUsage:       {sdk.UsageOp{}, struct{}{}},
	sdk.OpRespond:     {sdk.RespondOp{}, struct{}{}},
	sdk.OpHTTP:        {sdk.HTTPOp{}, sdk.HTTPReply{}},
	sdk.OpStreamRead:  {sdk.StreamReadOp{}, sdk.StreamReply{}},
	sdk.OpStreamClose: {sdk.StreamCloseOp{}, struct{}{}},
	sdk.OpBlobPut:     {sdk.BlobPutOp{}, sdk.Blob{}, sdk.BlobPart{}},
	sdk.OpBlobGet:     {sdk.BlobGetOp{}, sdk.BlobSlice{}},
}

// TestEveryFile: no message is without a schema and no schema without a message.
func TestEveryFile(t *testing.T) {
	t.Parallel()
	var want []string
	for name := range types {
		want = append(want, name)
	}
	for op := range operations {
		want = append(want, path.Join("op", op+".schema.json"))
	}
	have, err := filepath.Glob("*.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	ops, err := filepath.Glob("op/*")
	if err != nil {
		t.Fatal(err)
	}
	have = append(have, ops...)
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("files %v, messages %v", have, want)
	}
}

// TestSchemasAreTheTypes: each schema has the members of its Go type, of the same
// kind, and demands those that Go always writes; and the other way round.
func TestSchemasAreTheTypes(t *testing.T) {
	t.Parallel()
	for name, v := range types {
		s := read(t, name)
		w := walk{t, name}
		w.same("", s, reflect.TypeOf(v))
	}
	for op, v := range operations {
		name := "op/" + op + ".schema.json"
		s := read(t, name)
		w := walk{t, name}
		w.same("", s, reflect.TypeOf(v[0]))
		if got := s.at("properties", "op")["const"]; got != op {
			t.Errorf("%s: op is %v", name, got)
		}
		ok := s.at("$defs", "reply", "properties", "ok")
		answers := []any{map[string]any(ok)}
		if any, is := ok["anyOf"].([]any); is {
			answers = any
		}
		if len(answers) != len(v)-1 {
			t.Fatalf("%s: %d answers, Go has %d", name, len(answers), len(v)-1)
		}
		for k, a := range answers {
			w.same("/ok", object(a.(map[string]any)), reflect.TypeOf(v[1+k]))
		}
	}
}

// TestWordsOfTheContract: the lists and bounds that Go has as values.
func TestWordsOfTheContract(t *testing.T) {
	t.Parallel()
	var all, step []any
	for _, c := range sdk.Classes() {
		all = append(all, string(c))
		if c.FromStep() {
			step = append(step, string(c))
		}
	}
	manifest := read(t, "manifest.schema.json")
	for what, pair := range map[string][2]any{
		"classes":          {read(t, "error.schema.json").at("properties", "class")["enum"], all},
		"classes of http":  {read(t, "op/http.schema.json").at("$defs", "reply", "properties", "ok", "properties", "class")["enum"], all},
		"classes of steps": {read(t, "response.schema.json").at("properties", "error", "properties", "class")["enum"], step},
		"memory":           {manifest.at("properties", "memory_mb")["maximum"], json.Number("1024")},
		"effects": {manifest.at("properties", "steps", "additionalProperties", "properties", "effects")["enum"],
			[]any{sdk.EffectsNone.String(), sdk.EffectsRead.String(), sdk.EffectsWrite.String(), sdk.EffectsOnce.String()}},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, Go has %v", what, pair[0], pair[1])
		}
	}
	if sdk.MaxMemoryMB != 1024 {
		t.Error("the bound of memory_mb above is another")
	}
}

// object is a schema.
type object map[string]any

func (o object) at(keys ...string) object {
	for _, k := range keys {
		o, _ = o[k].(map[string]any)
	}
	return o
}

func read(t *testing.T, name string) object {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	v, err := sdk.DecodeAny(b)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v.(map[string]any)
}

// walk compares a file with a type.
type walk struct {
	t    *testing.T
	file string
}

var (
	raw  = reflect.TypeFor[json.RawMessage]()
	text = reflect.TypeFor[encoding.TextMarshaler]()
)

func (w walk) same(at string, s object, v reflect.Type) {
	w.t.Helper()
	if ref, ok := s["$ref"].(string); ok && strings.HasSuffix(ref, ".schema.json") {
		name := path.Join(path.Dir(w.file), ref)
		if reflect.TypeOf(types[name]) != v && v != reflect.PointerTo(reflect.TypeOf(types[name])) {
			w.t.Errorf("%s%s: refers to %s, Go has %s", w.file, at, name, v)
		}
		return
	}
	want := ""
	switch {
	case v == raw: // any value, or a member of a kind that Go does not see
		return
	case v.Implements(text), v.Kind() == reflect.String:
		want = "string"
	case v.Kind() == reflect.Bool:
		want = "boolean"
	case v.Kind() == reflect.Float64:
		want = "number"
	case reflect.Zero(v).CanInt():
		want = "integer"
	case v.Kind() == reflect.Slice:
		want = "array"
		w.same(at+"/*", s.at("items"), v.Elem())
	case v.Kind() == reflect.Map:
		want = "object"
		if v.Elem().Kind() != reflect.Interface {
			w.same(at+"/*", s.at("additionalProperties"), v.Elem())
		}
	case v.Kind() == reflect.Struct:
		want = "object"
		w.members(at, s, v)
	}
	if s["type"] != want {
		w.t.Errorf("%s%s: type %v, Go has %s", w.file, at, s["type"], v)
	}
}

func (w walk) members(at string, s object, v reflect.Type) {
	w.t.Helper()
	fields := map[string]reflect.Type{}
	var required []string
	for _, f := range reflect.VisibleFields(v) {
		if f.Anonymous {
			continue
		}
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
		if !strings.Contains(rest, "omitempty") {
			required = append(required, name)
		}
	}
	properties := s.at("properties")
	for name := range properties {
		if fields[name] == nil {
			w.t.Errorf("%s%s: Go has no member %s", w.file, at, name)
		}
	}
	for name, f := range fields {
		p, ok := properties[name].(map[string]any)
		if !ok {
			w.t.Errorf("%s%s: no member %s", w.file, at, name)
			continue
		}
		w.same(at+"/"+name, p, f)
	}
	var demanded []string
	list, _ := s["required"].([]any)
	for _, name := range list {
		demanded = append(demanded, name.(string))
	}
	sort.Strings(demanded)
	sort.Strings(required)
	if !slices.Equal(demanded, required) {
		w.t.Errorf("%s%s: required are %v, Go always writes %v", w.file, at, demanded, required)
	}
}

// compile reads the schema at a name such as "op/log.schema.json#/$defs/reply".
func compile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	s, err := c.Compile(filepath.ToSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s.Validate(v)
}
