package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
)

// ManifestSection is the name of the Wasm custom section that holds a
// manifest, and MaxManifest its largest size in bytes.
const (
	ManifestSection = "engine.step"
	MaxManifest     = 256 << 10
)

// MaxMemoryMB is the most memory that a module can have, in MiB.
const MaxMemoryMB = 1024

// Manifest is a plugin's description of itself. It lies in the module's
// ManifestSection or beside the artifact as NAME.step.json; nothing of the
// plugin runs to read it.
type Manifest struct {
	ABI     int                 `json:"abi"` // 1
	Name    string              `json:"name"`
	Version string              `json:"version,omitempty"`
	Engine  string              `json:"engine,omitempty"` // version constraint, ">= 1.0"
	Steps   map[string]StepType `json:"steps"`
	Config  json.RawMessage     `json:"config,omitempty"` // JSON Schema of the plugin's config
	// Capabilities are what the plugin cannot work without, and why.
	Capabilities []Capability `json:"capabilities,omitempty"`
	MemoryMB     int          `json:"memory_mb,omitempty"` // of a module, at most MaxMemoryMB. Defaults to the host's
	IO           string       `json:"io,omitempty"`        // "json" (default) or "raw"
	Concurrent   bool         `json:"concurrent,omitempty"`
}

// StepType describes one step type of a plugin.
type StepType struct {
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`  // JSON Schema 2020-12
	Output      json.RawMessage `json:"output,omitempty"` // JSON Schema 2020-12
	Effects     Effects         `json:"effects,omitempty"`
	Transient   []string        `json:"transient,omitempty"` // globs of output fields that are not stored
	TimeoutMS   int64           `json:"timeout_ms,omitempty"`
	Ops         []string        `json:"ops,omitempty"` // host operations it uses
	Examples    []Example       `json:"examples,omitempty"`
}

// Capability is one thing that a plugin asks the flow for: a host, a directory or
// an environment variable. A flow that does not give it is not planned, and the
// person who wrote it reads the reason.
type Capability struct {
	HTTP  string `json:"http,omitempty"`  // a host it calls, "[scheme://]host[:port]"; "*": the flow says which
	Mount string `json:"mount,omitempty"` // a directory that it sees as /MOUNT
	Mode  string `json:"mode,omitempty"`  // of the mount: "ro" (default) or "rw"
	Env   string `json:"env,omitempty"`   // the name of an environment variable
	// Reason is quoted to who has to decide whether to give it.
	Reason string `json:"reason"`
}

// String names what is asked for: "http *", "mount data (ro)", "env LANG".
// What a later version of the engine knows is "something unknown".
func (c Capability) String() string {
	switch {
	case c.HTTP != "":
		return "http " + c.HTTP
	case c.Mount != "" && c.Mode == "rw":
		return "mount " + c.Mount + " (rw)"
	case c.Mount != "":
		return "mount " + c.Mount + " (ro)"
	case c.Env != "":
		return "env " + c.Env
	}
	return "something unknown"
}

// check says what is wrong with one that this version knows. What it does not
// know it cannot judge, as with all unknown fields.
func (c Capability) check() error {
	kinds := 0
	for _, s := range []string{c.HTTP, c.Mount, c.Env} {
		if s != "" {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return nil
	case kinds > 1:
		return fmt.Errorf("asks for %d things; want one of http, mount and env in each", kinds)
	case c.Reason == "":
		return fmt.Errorf("%s: the reason is missing; it is what the flow's author decides by", c)
	case c.Mount == "engine" || c.Mount == "tmp" || c.Mount != "" && !mountRE.MatchString(c.Mount):
		return fmt.Errorf("mount %q: want letters, digits, _ and -, and neither engine nor tmp, which are taken", c.Mount)
	case c.Mode != "" && (c.Mount == "" || c.Mode != "ro" && c.Mode != "rw"):
		return fmt.Errorf("mode %q: want ro or rw, of a mount", c.Mode)
	case c.Env != "" && !envRE.MatchString(c.Env):
		return fmt.Errorf("env %q: want ASCII letters, digits and _, not beginning with a digit", c.Env)
	}
	return nil
}

// Example is an input with the output it must give.
type Example struct {
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output,omitempty"`
}

var (
	nameRE  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	mountRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`) // names of blocks
	envRE   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ParseManifest reads and checks a manifest. Unknown fields are ignored.
func ParseManifest(b []byte) (*Manifest, error) {
	if len(b) > MaxManifest {
		return nil, fmt.Errorf("manifest of %d bytes, the limit is %d", len(b), MaxManifest)
	}
	var m Manifest
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")) // some editors write a byte order mark
	if err := Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	switch {
	case m.ABI != 1:
		return nil, fmt.Errorf("manifest: abi %d, this engine speaks abi 1", m.ABI)
	case !nameRE.MatchString(m.Name):
		return nil, fmt.Errorf("manifest: name %q: want a lower-case letter, then up to 63 of a-z, 0-9, _", m.Name)
	case m.IO != "" && m.IO != "json" && m.IO != "raw":
		return nil, fmt.Errorf("manifest: io %q: want json or raw", m.IO)
	case m.MemoryMB < 0:
		return nil, fmt.Errorf("manifest: memory_mb %d is negative", m.MemoryMB)
	case m.MemoryMB > MaxMemoryMB:
		return nil, fmt.Errorf("manifest: memory_mb %d, the most that a module can have is %d", m.MemoryMB, MaxMemoryMB)
	}
	for i, c := range m.Capabilities {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("manifest: capability %d: %w", i, err)
		}
	}
	for _, n := range m.StepNames() {
		if !nameRE.MatchString(n) {
			return nil, fmt.Errorf("manifest: step type %q: want a lower-case letter, then up to 63 of a-z, 0-9, _", n)
		}
		if m.Steps[n].TimeoutMS < 0 {
			return nil, fmt.Errorf("manifest: step type %q: timeout_ms is negative", n)
		}
	}
	return &m, nil
}

// StepNames lists the step types, sorted.
func (m *Manifest) StepNames() []string {
	names := make([]string, 0, len(m.Steps))
	for n := range m.Steps {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
