package wire

import _ "embed"

// Proto is step.proto, of which authors make the wire in other languages.
//
//go:embed step.proto
var Proto string
