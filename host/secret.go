package host

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// maxSecret bounds the bytes of a secret: a key or a token, not a document.
const maxSecret = 64 << 10

// secrets are the values of a flow's secrets in one run, and what keeps them out
// of everything that is stored or shown. It is safe for concurrent use. A flow
// without secrets has a nil one.
type secrets struct {
	f       *Flow
	environ map[string]string
	test    map[string]string // by name, in place of everything else; nil outside of tests
	logger  hclog.Logger

	mu     sync.Mutex
	values []secretValue // by secret
	warned map[string]bool
	texts  map[string]bool // that expressions made of secrets
	full   bool
	mask   atomic.Pointer[operation.Redactor] // of all values that were ever seen
}

type secretValue struct {
	text  string
	ok    bool // it is there
	known bool // it was looked for
}

// newSecrets reads what is there before the run: everything but what actions
// give. Mistakes name what to set.
func newSecrets(f *Flow, o *Options) (*secrets, hcl.Diagnostics) {
	named := f.namedSecrets()
	if len(named) == 0 {
		return nil, nil
	}
	s := &secrets{f: f, environ: map[string]string{}, test: o.Secrets, logger: o.Logger, values: make([]secretValue, len(f.wf.Secrets)), warned: map[string]bool{}, texts: map[string]bool{}}
	for _, e := range o.Environ {
		name, value, _ := strings.Cut(e, "=")
		s.environ[name] = value
	}
	var diags hcl.Diagnostics
	for _, i := range named {
		if f.wf.Secrets[i].Action >= 0 && !s.gives(i) {
			continue
		}
		if err := s.read(i); err != nil {
			diags = append(diags, hcl.Diagnostic{Code: "missing-secret", Subject: f.wf.Secrets[i].Range,
				Summary: fmt.Sprintf("Secret %q has no value", f.wf.Secrets[i].Name), Detail: sentence(err.Error())})
		}
	}
	return s, diags
}

// namedSecrets are those that something in the flow names, sorted.
func (f *Flow) namedSecrets() (is []int) {
	for i := range f.wf.Steps {
		is = append(is, f.wf.Steps[i].Secrets...)
	}
	for i := range f.wf.Actions {
		is = append(is, f.wf.Actions[i].Secrets...)
	}
	for i := range f.wf.Plugins {
		is = append(is, f.wf.Plugins[i].Secrets...)
	}
	slices.Sort(is)
	return slices.Compact(is)
}

// gives: a test says the value of the secret.
func (s *secrets) gives(i int) bool {
	_, ok := s.test[s.f.wf.Secrets[i].Name]
	return ok
}

// read looks for the value of a secret of the environment or of a file, or of a
// test.
func (s *secrets) read(i int) error {
	x := &s.f.wf.Secrets[i]
	var value, why string
	if s.test != nil {
		value = s.test[x.Name]
		why = fmt.Sprintf("a test takes none from outside; write secrets { %s = \"…\" } in it, or optional = true in the flow", x.Name)
	} else if x.Env != "" {
		value = s.environ[x.Env]
		why = fmt.Sprintf("it comes from the environment variable %s, which is not set or empty; set it, or write optional = true", x.Env)
	} else {
		path := x.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.f.dir, path)
		}
		b, err := readSecret(path)
		if err != nil && !(x.Optional && errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("it comes from a file: %w; put it there, or write optional = true", err)
		}
		value = strings.TrimRight(string(b), "\r\n")
		why = fmt.Sprintf("the file %s is empty; put the secret there, or write optional = true", path)
	}
	return s.learn(i, value, why)
}

// readSecret reads a file of a sane size. It may be a pipe, as for a secret that
// another program decrypts.
func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(b) > maxSecret {
		err = fmt.Errorf("%s has more than %d KiB", path, maxSecret>>10)
	}
	return b, err
}

// learn takes a value in, and keeps it out of everything from now on. why is the
// error of an empty one.
func (s *secrets) learn(i int, value, why string) error {
	x := &s.f.wf.Secrets[i]
	switch {
	case value == "" && !x.Optional:
		return errors.New(why)
	case !utf8.ValidString(value):
		return errors.New("it is not UTF-8 text; encode it, for example as base64")
	case len(value) > maxSecret:
		return fmt.Errorf("it has more than %d KiB", maxSecret>>10)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[i] = secretValue{value, value != "", true}
	if value == "" {
		return nil
	}
	mask := s.mask.Load().With(x.Name, value)
	s.mask.Store(mask)
	if slices.Contains(mask.Weak(), x.Name) && !s.warned[x.Name] {
		s.warned[x.Name] = true
		s.logger.Warn("a secret is too short to be looked for in what steps say; what names it in the flow is hidden all the same", "secret", x.Name)
	}
	return nil
}

// maxDerived bounds how many texts made of secrets are looked for: each costs
// every text that is searched.
const maxDerived = 250

// derived keeps a text that an expression made of a secret out of everything,
// like the secret.
func (s *secrets) derived(i int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const short = 8 // stands in too many texts, as a secret of that length does
	if len(text) < short || s.texts[text] {
		return
	}
	if len(s.texts) == maxDerived {
		if !s.full {
			s.full = true
			s.logger.Warn("expressions make too many texts of secrets to look for all; of further ones only the secrets in them are looked for", "secret", s.f.wf.Secrets[i].Name)
		}
		return
	}
	s.texts[text] = true
	s.mask.Store(s.mask.Load().With(s.f.wf.Secrets[i].Name, text))
}

// redactor masks every value seen so far; nil if there is none.
func (s *secrets) redactor() *operation.Redactor {
	if s == nil {
		return nil
	}
	return s.mask.Load()
}

// value is what the evaluator is told.
func (s *secrets) value(i int) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.values[i]; v.known {
		return v.text, v.ok, nil
	}
	x := &s.f.wf.Secrets[i]
	return "", false, fmt.Errorf("secret.%s is not known before action.%s has run", x.Name, s.f.wf.Actions[x.Action].Name)
}

func (s *secrets) known(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[i].known
}

// given takes the secrets out of what an action answered.
func (s *secrets) given(action int, out json.RawMessage) *sdk.Error {
	if s == nil {
		return nil
	}
	for i := range s.f.wf.Secrets {
		x := &s.f.wf.Secrets[i]
		if x.Action != action || s.gives(i) {
			continue
		}
		value, ok := memberText(out, strings.Split(x.Path, "."))
		why := fmt.Sprintf("its answer has no text at %q, which secret.%s is to be; correct the path, or write optional = true", x.Path, x.Name)
		if !ok && !x.Optional {
			return &sdk.Error{Class: sdk.ClassInvalidInput, Code: "secret", Message: why}
		}
		if err := s.learn(i, value, why); err != nil {
			return &sdk.Error{Class: sdk.ClassInvalidInput, Code: "secret", Message: fmt.Sprintf("secret.%s: %v", x.Name, err)}
		}
	}
	return nil
}

// memberText is the text, or the number, at the end of a path.
func memberText(v json.RawMessage, path []string) (string, bool) {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(v, &object) != nil || object[name] == nil {
			return "", false
		}
		v = object[name]
	}
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text, text != ""
	}
	var n json.Number
	if json.Unmarshal(v, &n) != nil {
		return "", false
	}
	return n.String(), n != ""
}

// grants are the secrets that an attempt may have injected: those that it names
// and that are bound.
func (s *secrets) grants(named []int) map[string]operation.Secret {
	out := map[string]operation.Secret{}
	for _, i := range named {
		if s.f.secretHosts[i] == nil {
			continue
		}
		if text, ok, err := s.value(i); err == nil && ok {
			out[s.f.wf.Secrets[i].Name] = operation.Secret{Value: text, Hosts: s.f.secretHosts[i]}
		}
	}
	return out
}

// bind parses the hosts of bound secrets.
func (f *Flow) bind() (diags hcl.Diagnostics) {
	f.secretHosts = make([][]operation.HostRule, len(f.wf.Secrets))
	for i := range f.wf.Secrets {
		x := &f.wf.Secrets[i]
		for k, text := range x.Hosts {
			rule, err := operation.ParseHostRule(text)
			if err != nil {
				diags = append(diags, hcl.Diagnostic{Code: "invalid-host", Subject: x.HostRanges[k], Summary: "Invalid host", Detail: sentence(err.Error())})
			}
			f.secretHosts[i] = append(f.secretHosts[i], rule)
		}
	}
	return diags
}

// need makes the secrets ready that an attempt of who names: files are read
// again, actions run unless they have.
func (r *run) need(ctx context.Context, named []int, who string) *sdk.Error {
	s := r.s.secrets
	if r.s.replay != nil {
		return nil
	}
	for _, i := range named {
		x := &r.s.f.wf.Secrets[i]
		switch {
		case x.File != "" && !x.Fingerprint: // with one, the value that it had first counts
			if err := s.read(i); err != nil {
				return &sdk.Error{Class: sdk.ClassUnauthorized, Code: "secret", Message: fmt.Sprintf("secret.%s: %v", x.Name, err)}
			}
		case x.Action >= 0 && !s.known(i):
			if err := r.act(ctx, x.Action, who, r.began); err != nil {
				return err
			}
		}
	}
	return nil
}

// config is the configuration of a plugin as it is now. It is made again where it
// names secrets.
func (r *run) config(plugin int) (json.RawMessage, *sdk.Error) {
	s := r.s
	p := &s.f.wf.Plugins[plugin]
	if len(p.Secrets) == 0 {
		return s.configs[plugin], nil
	}
	config, diags := s.eval.Config(plugin)
	if diags.HasErrors() {
		return nil, inputError(diags)
	}
	return config, fits(s.f.configs[plugin], config, sdk.ClassInvalidInput, "the config", p.Sensitive...)
}

// keyed is d as it may be stored where what it digests is sensitive.
func (h *Host) keyed(d sdk.Digest) sdk.Digest {
	m := hmac.New(sha256.New, h.o.Key)
	m.Write([]byte("engine/sensitive/1"))
	m.Write(d[:])
	return sdk.Digest(m.Sum(nil))
}

// masked is the error of a plan or run without the values of secrets.
func (s *secrets) masked(err error) error {
	m := s.redactor()
	var diags hcl.Diagnostics
	if m == nil || !errors.As(err, &diags) {
		return err
	}
	out := slices.Clone(diags)
	for i := range out {
		out[i].Detail = m.Text(out[i].Detail)
		out[i].Values = slices.Clone(out[i].Values)
		for k := range out[i].Values {
			out[i].Values[k].Value = m.Text(out[i].Values[k].Value)
		}
	}
	return out
}

// maskError masks what a step or its evaluation said went wrong.
func (s *secrets) maskError(e *sdk.Error) *sdk.Error {
	m := s.redactor()
	if m == nil || e == nil {
		return e
	}
	c := *e
	c.Message, c.Stderr, c.Code, c.Path = m.Text(e.Message), m.Text(e.Stderr), m.Text(e.Code), m.Text(e.Path)
	if len(e.Details) > 0 {
		c.Details = m.JSON(e.Details)
	}
	return &c
}

// maskEvent masks what an event says. Whatever made it, no observer sees more.
func (s *secrets) maskEvent(e *Event) {
	m := s.redactor()
	if m == nil {
		return
	}
	e.Reason, e.Message, e.Error = m.Text(e.Reason), m.Text(e.Message), s.maskError(e.Error)
	if e.Fields != nil {
		if b, err := sdk.Marshal(e.Fields); err == nil {
			var fields map[string]any
			if sdk.Unmarshal(m.JSON(b), &fields) == nil {
				e.Fields = fields
			}
		}
	}
	for k := range e.Usage {
		if clean := m.Text(e.Usage[k].Model); clean != e.Usage[k].Model {
			e.Usage = slices.Clone(e.Usage)
			e.Usage[k].Model = clean
		}
	}
}

// maskResponse masks an answer before anything looks at it; of an open one, from
// which secrets are taken, the output stays.
func (s *secrets) maskResponse(resp *sdk.Response, open bool) {
	m := s.redactor()
	if m == nil {
		return
	}
	if !open {
		resp.Output = m.JSON(resp.Output)
	}
	resp.Context = m.JSON(resp.Context)
	for k := range resp.Warnings {
		resp.Warnings[k].Message = m.Text(resp.Warnings[k].Message)
	}
	s.maskUsage(resp.Usage)
}

func (s *secrets) maskUsage(us []sdk.Usage) {
	m := s.redactor()
	for k := range us {
		us[k].Model = m.Text(us[k].Model)
	}
}

// runInfo is what the evaluator of a run is told.
func (h *Host) runInfo(rec *checkpoint.RunRecord, s *secrets) hcl.RunInfo {
	info := hcl.RunInfo{ID: string(rec.ID), StartedAt: rec.Created, Key: h.o.Key}
	if s != nil {
		info.Secret, info.Derived = s.value, s.derived
	}
	return info
}
