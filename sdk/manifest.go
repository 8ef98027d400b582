package sdk

import (
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
	MemoryMB     int          `json:"memory_mb,omitempty"`
	IO           string       `json:"io,omitempty"` // "json" (default) or "raw"
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

// Capability is something that a plugin asks the flow for.
type Capability struct {
	HTTP   string `json:"http,omitempty"` // a host it calls; "*": the flow says which
	Reason string `json:"reason"`
}

// Example is an input with the output it must give.
type Example struct {
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output,omitempty"`
}

var nameRE = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// ParseManifest reads and checks a manifest. Unknown fields are ignored.
func ParseManifest(b []byte) (*Manifest, error) {
	if len(b) > MaxManifest {
		return nil, fmt.Errorf("manifest of %d bytes, the limit is %d", len(b), MaxManifest)
	}
	var m Manifest
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
