package hcl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

// TestHostileFiles: every file ends in an ordinary diagnostic of its own kind.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"01_for_bomb.hcl.json":             "evaluation-limit",
		"03_format_width.hcl.json":         "invalid-function-argument",
		"06_for_each_10M.hcl.json":         "function-call",
		"07_file_traversal.hcl.json":       "invalid-function-argument",
		"10_unicode_normal_forms.hcl.json": "duplicate-name",
		"12_cycle.hcl.json":                "dependency-cycle",
		"16_nested_parens.hcl.json":        "nesting-too-deep",
		"17_nested_brackets.hcl.json":      "nesting-too-deep",
		"19_escaped_template.hcl.json":     "expression-too-long",
		"20_duplicate_keys.hcl.json":       "duplicate-key",
		"21_lone_surrogate.hcl.json":       "invalid-json",
		"22_nul.hcl.json":                  "invalid-name",
		"23_two_values.hcl.json":           "invalid-json",
		"24_numbers.hcl.json":              "number-out-of-range",

		"01_for_bomb.hcl":             "evaluation-limit",
		"03_format_width.hcl":         "invalid-function-argument",
		"06_for_each_10M.hcl":         "function-call",
		"07_file_traversal.hcl":       "invalid-function-argument",
		"10_unicode_normal_forms.hcl": "duplicate-name",
		"12_cycle.hcl":                "dependency-cycle",
		"16_nested_parens_100k.hcl":   "nesting-too-deep",
	}
	paths, _ := filepath.Glob("testdata/hostile/*")
	seen := 0
	for _, path := range paths {
		name := filepath.Base(path)
		if want[name] == "" {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := hostileDir(t, path)
			_, ds := Load(dir)
			if !hasCode(ds, want[name]) {
				t.Errorf("want a diagnostic %s, got %s", want[name], explain(ds))
			}
			if n := map[string]int{"07_file_traversal.hcl": 8, "07_file_traversal.hcl.json": 8, "21_lone_surrogate.hcl.json": 3, "24_numbers.hcl.json": 2}[name]; n > 0 && len(ds) != n {
				t.Errorf("want each of the %d mistakes, got %s", n, explain(ds))
			}
		})
	}
	if seen != len(want) {
		t.Errorf("found %d of %d files", seen, len(want))
	}
}

func hostileDir(t testing.TB, path string) string {
	t.Helper()
	dir := t.TempDir()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a.hcl", header)
	write(t, dir, "b"+filepath.Base(path), string(b))
	if err := os.Symlink("/", filepath.Join(dir, "link-to-root")); err != nil {
		t.Fatal(err)
	}
	makeFIFO(t, filepath.Join(dir, "fifo"))
	return dir
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestByteOrderMark: a byte order mark and CRLF line ends are no mistake, and
// places are counted from the file's own bytes.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Pos{"b.hcl": {1, 1, 3}, "b.hcl.json": {3, 5, 23}} {
		b, err := os.ReadFile("testdata/hostile/18_bom_crlf" + strings.TrimPrefix(name, "b"))
		if err != nil {
			t.Fatal(err)
		}
		w, ds := Parse([]File{{Path: "a.hcl", Bytes: []byte(header)}, {Path: name, Bytes: b}})
		if ds.HasErrors() || len(w.Steps) != 1 {
			t.Fatalf("%s does not load: %s", name, explain(ds))
		}
		if got := w.Steps[0].Range; got.File != name || got.Start != want {
			t.Errorf("step a is at %+v", got)
		}
	}
}

// bomb is a flow whose step a has this expression in its input.
func bomb(expr string) string {
	return "step \"a\" {\n uses = plugin.p.run\n input = { v = " + expr + " }\n}\n"
}

// bombs are small texts that would make much of little, where HCL itself would not
// come back or would end the process, and the code of the diagnostic that they end
// in. Of those that are one expression, it is given alone too.
func bombs() map[string]bombCase {
	input := bomb
	var doubling strings.Builder
	doubling.WriteString("locals {\n l0 = [1, 2]\n")
	for i := range 63 {
		fmt.Fprintf(&doubling, " l%d = [local.l%d, local.l%[2]d]\n", i+1, i)
	}
	doubling.WriteString("}\n" + input("local.l63"))
	var texts strings.Builder
	texts.WriteString("locals {\n l0 = \"xy\"\n")
	for i := range 63 {
		fmt.Fprintf(&texts, " l%d = \"${local.l%d}${local.l%[2]d}\"\n", i+1, i)
	}
	texts.WriteString("}\n" + input("local.l63"))
	digits := strings.Repeat("9", 1_000_000)
	squares := "locals {\n n0 = 1e300\n"
	for i := range 63 {
		squares += fmt.Sprintf(" n%d = local.n%d * local.n%[2]d\n", i+1, i)
	}
	shared := "[[1,2]]"
	for range 60 {
		shared = "[for x in " + shared + " : [x, x]]"
	}
	cases := map[string]bombCase{
		"terms":             {input("1" + strings.Repeat("+1", 1_000_000)), "expression-too-long"},
		"parens":            {input(strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000)), "nesting-too-deep"},
		"brackets":          {input(strings.Repeat("[", 300) + strings.Repeat("]", 300)), "nesting-too-deep"},
		"not":               {input(strings.Repeat("!", 3000) + "true"), "expression-too-long"},
		"minus":             {input(strings.Repeat("-", 3000) + "1"), "expression-too-long"},
		"ternaries":         {input(strings.Repeat("true ? 1 : ", 3000) + "1"), "expression-too-long"},
		"indexing":          {input("local.x" + strings.Repeat("[0]", 3000)), "expression-too-long"},
		"attributes":        {input("local.x" + strings.Repeat(".a", 3000)), "expression-too-long"},
		"templates":         {input(strings.Repeat(`"${`, 300) + "1" + strings.Repeat(`}"`, 300)), "nesting-too-deep"},
		"directives":        {input(`"` + strings.Repeat("%{ if true }", 3000) + strings.Repeat("%{ endif }", 3000) + `"`), "expression-too-long"},
		"blocks":            {strings.Repeat("a {\n", 300) + strings.Repeat("}\n", 300), "nesting-too-deep"},
		"across brackets":   {input("(" + strings.Repeat("1+", 1500) + "(" + strings.Repeat("1+", 1500) + "1))"), "expression-too-long"},
		"large number":      {input(`"${1e100000000}"`), "number-out-of-range"},
		"small number":      {input(`"${1e-100000000}"`), "number-out-of-range"},
		"squares":           {squares + "}\n" + input("\"${local.n63}\""), "number-out-of-range"},
		"pow":               {input("pow(10, 400)"), "function-call"},
		"doubling locals":   {doubling.String(), "evaluation-limit"},
		"shared elements":   {input(shared), "evaluation-limit"},
		"tonumber":          {input(`tonumber("1e999999999")`), "function-call"},
		"parseint":          {input(`parseint("` + strings.Repeat("9", 5000) + `", 10)`), "function-call"},
		"indent":            {input(`indent(1000000000, "a\nb")`), "function-call"},
		"format precision":  {input(`format("%.100000000f", 1.5)`), "invalid-function-argument"},
		"formatlist":        {input(`formatlist("%9999s%9999s", range(1024))`), "function-call"},
		"join":              {input(`join(format("%9999s", "x"), flatten([for i in range(10) : range(1000)]))`), "function-call"},
		"replace":           {input(`replace(format("%9999s", ""), " ", format("%9999s", ""))`), "function-call"},
		"replace by regexp": {input(`replace(format("%9999s", ""), "/ /", format("%9999s", ""))`), "function-call"},
		"setproduct":        {input(`setproduct(range(1000), range(1000), range(1000))`), "function-call"},
		"endless range":     {input(`range(0, 10, 0)`), "invalid-function-argument"},
		"long range":        {input(`range(0, 10, 0.001)`), "function-call"},
		"long date format":  {input(`formatdate(join("", [for i in range(1000) : "YYYYY"]), "2026-01-01T00:00:00Z")`), "invalid-function-argument"},
		"template text":     {input(`[for i in range(1000) : "${format("%9999s%9999s", "", "")}"]`), "evaluation-limit"},
		"csv":               {input(`csvdecode(join("\n", concat(["` + strings.Repeat("a,", 2000) + `a"], [for i in range(1000) : ""])))`), "function-call"},
		"deep JSON":         {input(`jsondecode("` + strings.Repeat("[", 100_000) + `")`), "invalid-function-argument"},
		"bad UTF-8":         {"\xff", "invalid-utf8"},
		"names alike":       {"locals {\n caf\u00e9 = 1\n cafe\u0301 = 2\n}\n", "duplicate-name"},
		"zero byte":         {"step \"a\x00\" {}", "invalid-name"},
		"long name":         {`step "` + strings.Repeat("字", 65) + `" {}`, "invalid-name"},
		"try hides no bomb": {input(`try([for i in range(1000) : [for j in range(1000) : j]], "fine")`), "evaluation-limit"},
		"can hides no bomb": {input(`can([for i in range(1000) : [for j in range(1000) : j]])`), "evaluation-limit"},
		"digits":            {input(digits), "number-out-of-range"},
		"digits as index":   {input("[1, 2]." + digits), "number-out-of-range"},
		"text of digits":    {input(`"` + digits + `" * 2`), "number-out-of-range"},
		"negated digits":    {input(`-"` + digits + `"`), "number-out-of-range"},
		"digits as key":     {input(`[1, 2]["` + digits + `"]`), "invalid-index"},
		"digits as a key":   {input(`[1, 2]["${"` + digits + `"}"]`), "invalid-index"},
		"convert digits":    {input(`convert(["` + digits + `"], list(number))`), "conversion"},
		"sum of digits":     {input(`sum(["` + digits + `"])`), "invalid-function-argument"},
		"format digits":     {input(`format("%d", "` + digits + `")`), "function-call"},
		"many mistakes":     {strings.Repeat("a = \n", 500_000), "more-diagnostics"},
		"a block of them":   {"locals {\n" + strings.Repeat("a = \n", 500_000) + "}\n", "file-too-large"},
		"labels":            {strings.Repeat("a ", 600_000), "file-too-large"},
		"lines":             {input("<<A\n" + strings.Repeat("x\n", 200_000) + "A\n"), "text-too-long"},
		"long lines":        {input("<<A\n" + strings.Repeat(strings.Repeat("x", 2000)+"\n", 2000) + "A\n"), "text-too-long"},
		"templates in one":  {input(`"` + strings.Repeat(`${"a"}`, 140_000) + `"`), "text-too-long"},
		"escapes in one":    {input(`"` + strings.Repeat(`x$${1}`, 20_000) + `"`), "text-too-long"},
		"doubling texts":    {texts.String(), "evaluation-limit"},
		"nested equality":   {input("[for i in range(1000) : [for j in range(1000) : range(1000) == range(1000)]]"), "evaluation-limit"},
	}
	return cases
}

type bombCase struct{ src, code string }

// expression is what the flow has in its input; "" where more than that matters.
func (c bombCase) expression() string {
	before, after, _ := strings.Cut(bomb("\x00"), "\x00")
	expr, begins := strings.CutPrefix(c.src, before)
	expr, ends := strings.CutSuffix(expr, after)
	if !begins || !ends || strings.Contains(expr, "local.") {
		return ""
	}
	return expr
}

// forms are the flow as it is, with the expression in a string of JSON, and in a
// template file.
func (c bombCase) forms(t testing.TB) map[string]string {
	dirs := map[string]string{"native": t.TempDir()}
	write(t, dirs["native"], "flow.hcl", header+c.src)
	if expr := c.expression(); expr != "" {
		dirs["json"], dirs["template"] = t.TempDir(), t.TempDir()
		text, err := sdk.Marshal("${" + expr + "}")
		if err != nil {
			t.Fatal(err)
		}
		write(t, dirs["json"], "head.hcl", header)
		write(t, dirs["json"], "flow.hcl.json", `{"step":{"a":{"uses":"plugin.p.run","input":{"v":`+string(text)+`}}}}`)
		write(t, dirs["template"], "flow.hcl", header+bomb(`templatefile("bomb.tmpl", {})`))
		write(t, dirs["template"], "bomb.tmpl", "${"+expr+"}")
	}
	return dirs
}

// defuse reads and checks a flow and, if nothing is found, evaluates its input.
func defuse(dir string) Diagnostics {
	w, ds := Load(dir)
	if ds.HasErrors() {
		return ds
	}
	v, ds := w.Bind(BindOptions{})
	if ds.HasErrors() {
		return ds
	}
	_, ds = w.Evaluator(v, testRun).Input(0, Scope{})
	return ds
}

// TestBombs: each ends in an ordinary diagnostic, whatever it is hidden in.
func TestBombs(t *testing.T) {
	t.Parallel()
	for name, c := range bombs() {
		for form, dir := range c.forms(t) {
			t.Run(name+"/"+form, func(t *testing.T) {
				t.Parallel()
				if ds := defuse(dir); !hasCode(ds, c.code) {
					for i := range ds {
						ds[i].Detail = shorten([]byte(ds[i].Detail), 300)
					}
					t.Errorf("want a diagnostic %s, got %s", c.code, explain(ds))
				}
			})
		}
	}
}

// TestNestedOnce: what is nested is evaluated once at each level. Twice would take
// longer than anybody waits.
func TestNestedOnce(t *testing.T) {
	t.Parallel()
	nest := func(before, core, after string) string {
		return strings.Repeat(before, 60) + core + strings.Repeat(after, 60)
	}
	for name, c := range map[string]struct{ expr, code string }{
		"conditional":       {nest("true ? (", "1", ") : 2"), ""},
		"other conditional": {nest("false ? 2 : (", "1", ")"), ""},
		"unknown condition": {nest(`step.a.output.n == 1 ? (`, "1", ") : 2"), ""},
		"index":             {nest("step.a.output[", `"none"`, "]"), "unsupported-attribute"},
		"good index":        {nest("[0][", "0", "]"), ""},
		"try":               {nest("try(", "1", ", 2)"), ""},
		"for":               {nest("[for x in ", "[1]", " : x]"), ""},
		"minus":             {nest("-(", "1", ")"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, ds := value(t, c.expr, `{"n":1}`); c.code == "" && ds.HasErrors() || c.code != "" && !hasCode(ds, c.code) {
				t.Error(explain(ds))
			}
		})
	}
}

// TestManyFacetsThroughLocals: a chain of locals that each name the one before
// twice names one facet 2^64 times.
func TestManyFacetsThroughLocals(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("step \"a\" { uses = plugin.p.run }\nlocals {\n l0 = step.a.output.text\n")
	for i := range 64 {
		fmt.Fprintf(&b, " l%d = \"${local.l%d}${local.l%[2]d}\"\n", i+1, i)
	}
	b.WriteString("}\nstep \"b\" {\n uses = plugin.p.run\n input = { v = local.l64 }\n}\n")
	if _, ds := parse1(b.String()); !hasCode(ds, "too-many-references") {
		t.Errorf("want a diagnostic, got %s", explain(ds))
	}
}

// TestBombsInData: templates and values that come from files and variables go
// through the same guards.
func TestBombsInData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "deep.tmpl", strings.Repeat("${", 1)+strings.Repeat("(", 100_000)+"1"+strings.Repeat(")", 100_000)+"}")
	write(t, dir, "long.tmpl", "${1"+strings.Repeat("+1", 1_000_000)+"}")
	write(t, dir, "flow.hcl", header+`
variable "v" {
  type    = list(number)
  default = []
}
step "a" {
  uses  = plugin.p.run
  input = { a = templatefile("deep.tmpl", {}), b = templatefile("long.tmpl", {}) }
}
`)
	_, ds := Load(dir)
	if !hasCode(ds, "nesting-too-deep") || !hasCode(ds, "expression-too-long") {
		t.Errorf("template files: %s", explain(ds))
	}
	w := mustLoad(t, "variable \"v\" {\n type = list(number)\n default = []\n}\n")
	for _, text := range []string{strings.Repeat("[", 100_000), "[1" + strings.Repeat("+1", 1_000_000) + "]"} {
		if _, ds := w.Bind(BindOptions{Vars: []string{"v=" + text}}); !hasCode(ds, "nesting-too-deep") && !hasCode(ds, "expression-too-long") {
			t.Errorf("--var: %s", explain(ds))
		}
	}
	write(t, dir, "x.auto.vars.hcl", "v = "+strings.Repeat("[", 100_000))
	if _, ds := w.Bind(BindOptions{Dir: dir}); !hasCode(ds, "nesting-too-deep") {
		t.Errorf("file of values: %s", explain(ds))
	}
	write(t, dir, "y.json", `{"v":`+strings.Repeat("[", 100_000))
	if _, ds := w.Bind(BindOptions{VarFiles: []string{filepath.Join(dir, "y.json")}}); !hasCode(ds, "invalid-json") {
		t.Errorf("JSON file of values: %s", explain(ds))
	}
}

// TestBombsInOutputs: an output is data of a stranger too.
func TestBombsInOutputs(t *testing.T) {
	t.Parallel()
	for output, code := range map[string]string{
		`{"n":1e999999999}`:                                 "invalid-output",
		`{"n":1` + strings.Repeat("0", 30_000) + `}`:        "invalid-output",
		`{"n":[` + strings.Repeat("1,", 1_000_001) + `1]}`:  "invalid-output",
		`{"n":` + strings.Repeat("[", 300) + `}`:            "invalid-output",
		`{"n":"` + strings.Repeat("x", maxText) + `"}`:      "evaluation-limit",
		`{"n":"` + strings.Repeat("x", maxText/4+1) + `"}`:  "evaluation-limit",
		`{"n":[` + strings.Repeat("[1],", 200_001) + `[]]}`: "evaluation-limit",
	} {
		_, ds := value(t, `[for x in try(tolist(step.a.output.n), [step.a.output.n]) : "${jsonencode(x)}${jsonencode(x)}${jsonencode(x)}${jsonencode(x)}"]`, output)
		_, bare := value(t, "step.a.output.n", output)
		if !hasCode(ds, code) || bare.HasErrors() {
			t.Errorf("%s…: want a diagnostic %s, got %s; bare %s", output[:12], code, explain(ds), explain(bare))
		}
	}
}
