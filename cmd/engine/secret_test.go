package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretsStayOut: a module and a native plugin say their secrets in every
// form they can make. No file of the state directory, and nothing that any verb
// prints, holds one.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	const token, mail = "geheim/+Token-äß9", "nobody@sensitive.example"
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("token.txt", token+"\n")
	write("flow.hcl", `
workflow "w" {}
secret "token" { file = "token.txt" }
variable "mail" { sensitive = true }
plugin "exec" { source = "std/exec" }
plugin "template" { source = "std/template" }
locals {
  forms = [secret.token, upper(secret.token), strrev(secret.token), base64encode(secret.token), urlencode(secret.token), jsonencode(secret.token), substr(secret.token, 2, 12)]
}
step "module" {
  uses  = plugin.template.render
  input = { template = "{{range .forms}}{{.}}\n{{end}}shown", data = { forms = local.forms, mail = var.mail } }
}
step "native" {
  uses = plugin.exec.run
  input = {
    program = "sh"
    args    = ["-c", "printf '%s shown ' \"$T\"; printf %s \"$T\" | base64; printf %s \"$T\" | od -An -v -tx1 | tr -d ' \n'; echo \"$T $U\" >&2"]
    env     = { T = secret.token, U = upper(secret.token) }
  }
}
step "broken" {
  uses       = plugin.exec.run
  depends_on = [step.native, step.module]
  on_failure = skip
  input = {
    program = "sh"
    args    = ["-c", "echo \"broken $T\" >&2; exit 3"]
    env     = { T = secret.token }
  }
}
step "mistaken" {
  uses       = plugin.template.render
  on_failure = skip
  input      = { template = "{{ ${secret.token} ", data = {} }
}
output "module" { value = step.module.output.text }
output "native" { value = step.native.output }
output "mail" {
  value     = "to ${var.mail}"
  sensitive = true
}
`)
	state := filepath.Join(dir, ".engine")
	var told bytes.Buffer
	engine := func(code int, args ...string) string {
		t.Helper()
		var out, story bytes.Buffer
		if got := run(context.Background(), args, streams{in: strings.NewReader(""), out: &out, err: &story}); got != code {
			t.Fatalf("engine %s exits %d, want %d:\n%s", strings.Join(args, " "), got, code, story.String())
		}
		told.Write(out.Bytes())
		told.Write(story.Bytes())
		return out.String()
	}
	given := []string{"--state", state, "--var", "mail=" + mail}
	for _, verb := range []string{"plan", "apply", "plan"} {
		engine(exitOK, append([]string{verb, dir}, given...)...)
	}
	engine(exitOK, append([]string{"apply", dir, "--json", "--rerun", "step.native"}, given...)...)
	engine(exitOK, append([]string{"explain", dir, "step.native"}, given...)...)
	for _, args := range [][]string{{"show"}, {"show", "--json"}, {"output"}, {"output", "--json"}, {"logs"}, {"runs", "--json"}, {"checkpoints", "ls"}} {
		engine(exitOK, append(args, "--state", state)...)
	}
	hexed := hex.EncodeToString([]byte(token))
	leaks := []string{token, strings.ToUpper(token), "9ßä-nekoT", base64.StdEncoding.EncodeToString([]byte(token)), url.QueryEscape(token), hexed, token[2:14], mail, "heim/+Tok"}
	for _, leak := range leaks {
		if i := strings.Index(told.String(), leak); i >= 0 {
			t.Errorf("%q was printed: …%s", leak, told.String()[max(0, i-200):i])
		}
	}
	masked := 0
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, leak := range leaks {
			if bytes.Contains(b, []byte(leak)) {
				t.Errorf("%s holds %q", path, leak)
			}
		}
		masked += bytes.Count(b, []byte("(secret token)"))
		return err
	})
	if err != nil || masked < 4 || !strings.Contains(told.String(), "(secret token)") || !strings.Contains(told.String(), `"(sensitive)"`) {
		t.Errorf("%v, %d times masked: %s", err, masked, told.String())
	}
	if got := engine(exitOK, append([]string{"output", "mail", "--raw", "--flow", dir}, given...)...); got != "to "+mail {
		t.Errorf("the sensitive output is %q", got)
	}
	if info, err := os.Stat(filepath.Join(state, "key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v %v", info, err)
	}
	// With another token nothing runs; without its key, what was known by keyed
	// hashes does.
	write("token.txt", "another-token-0815")
	told.Reset()
	engine(exitOK, append([]string{"plan", dir}, given...)...)
	if out := told.String(); !strings.Contains(out, "reuse   step.module") || !strings.Contains(out, "secret token: not part of the identity; seen by") {
		t.Errorf("after a rotation:\n%s", out)
	}
	if err := os.Remove(filepath.Join(dir, "token.txt")); err != nil {
		t.Fatal(err)
	}
	engine(exitInvalid, append([]string{"apply", dir}, given...)...)
	if !strings.Contains(told.String(), `Secret "token" has no value`) {
		t.Errorf("without the file:\n%s", told.String())
	}
}
