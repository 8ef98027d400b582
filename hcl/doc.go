// Package hcl reads flows: text to Workflow, references, evaluation,
// diagnostics. hashicorp/hcl and cty do not leave it; what goes in and out is
// our own types and JSON.
//
// It does not know plugins (package host compares inputs with their schemas),
// nor what is reused (package recovery), nor when anything runs. The language
// is described for its users in README.md.
//
// A flow goes through load.go (files, guard, parser), decode.go (blocks to
// Workflow; foreach.go, rules.go, fallback.go, action.go, secret.go and sandbox.go for what
// is large enough to stand alone), compile.go and resolve.go (names in
// expressions), cycle.go, canon.go and link.go (what needs all names), and then
// bind.go gives it values and eval.go, identity.go and foreach.go answer for one
// step, or one instance of it, at a time. A file in JSON form becomes the same
// syntax tree in jsonform.go; what follows knows one form. marked.go says which
// expressions name something sensitive, keyed.go what of those is in identities.
// shape.go and shapewrite.go say which text is handed on as it is.
// A step whose work is another workflow is expanded in subflow.go and joined to
// the graph in subjoin.go; its variables and outputs are bound in bound.go.
// With for_each they have instances, which is subeach.go's.
// schematype.go compares the flow with the plugins' schemas, testfile.go reads
// tests. format.go stands beside that: it lays text out and knows no flow.
//
// # Design
//
// Why a guard before the parser? Parser and evaluator recurse, and a stack
// overflow of Go cannot be caught: 100,000 parentheses end the process. The
// guard bounds brackets (200) and operators on the way to any part of an
// expression (2,000); everything of our own that follows references is
// iterative. It reads the text, not HCL's tokens, which take a hundred bytes for
// each byte of a hostile file; a fuzz test holds both readings together.
//
// Why a reader of JSON of our own? HCL's hides its tree behind an interface that
// can only be evaluated, while dependencies, identities and types are read from
// the tree. It is also lax where two readers would understand one text
// differently, counts a string's escapes as if they were what they stand for,
// and knows nothing of the guard. Places in strings are put right after HCL has
// parsed them (jsonstring.go), by reflection, because a list of HCL's node types
// would silently miss the next one.
//
// Why is hclwrite's layout corrected and checked? It indents lines after an
// expression that breaks inside of a heredoc too little, and takes the spaces
// out of %{ if }. The tokens of what it makes are compared with those of the
// text, so that a bug in it can cost the layout of a part, never its meaning.
//
// Why conversions of our own? cty looks for the common type of a collection's
// elements by comparing every pair, also when all are strings.
//
// Why replace nodes of HCL's tree instead of filling an EvalContext? An
// EvalContext wants every step's value before it knows which one is named: 7 ms
// for each expression at 10,000 steps. A refExpr asks for one value and decodes
// the part that is named. The same place carries budgets, absent outputs that
// try can catch, types while checking, and better messages.
//
// Why is a bare reference spliced as bytes? cty brings strings into Unicode
// normal form C, and is slow. What a step answered reaches the next one
// unchanged, and fast, unless the flow computes with it.
//
// Why is a for_each that is a bare reference never decoded? Its elements are parts
// of the JSON text, so 10,000 of them cost a scan, and each.value reaches the
// instance byte for byte. For the same reason step.y.output[each.key] decodes one
// element: an instance must not pay for all others.
//
// Why does an instance's identity hold parts of each, not the element? A list
// whose elements carry a timestamp that nobody names would never be reused. The
// parts are read from the syntax tree; what they hold is hashed by value, without
// a decoder, in which two texts would be equal that a step can tell apart.
//
// Why may a local not name each, self or attempt? A local stands for one value in
// an evaluation, and is checked, hashed and kept once. What belongs to one instance
// or attempt stands where that is.
//
// Why are facets of conditions, checks and fallbacks last, and in no key? They
// decide whether an answer is taken, not what it is. A check's own text is in the
// key all the same: an answer that another check judged was not judged by this
// one.
//
// Why are sensitive values found in the text instead of marked in cty? A mark
// has to survive every function, conversion and splice, ten of which print what
// they were given when it does not fit. Which references an expression names can
// be read before anything is evaluated, for whole flows, and cannot be lost. It
// says too much where a part is named that is not sensitive itself; nonsensitive
// is for that.
//
// Why is the detail of a message dropped, not masked, when it may show a value?
// A substring, a key or a number says enough, and no list of forms is complete.
// Where it is, and what was named, stays.
//
// Why does a secret count in keys as its expression? What a step answers does not
// change because a token is renewed every hour. Whoever has a secret that decides
// says fingerprint, and then a keyed hash of it counts: from a plain one, a short
// secret can be guessed.
//
// Why does this package not judge allow_hosts? The code that dials does, and two
// readings of one host name are how allow-lists are passed. It keeps the places.
//
// Why does a conditional not convert its branches? HCL makes the string "1" of
// the number 1 when the other branch is a string. Here only the chosen branch is
// evaluated, its value is handed on as it is, and different primitive types are
// an error at validate.
//
// Why a Merkle hash as canonical form? A local then stands for what it holds at
// the cost of one digest. Written out, a chain of 64 locals that each name the
// one before twice has 2^64 parts. The facets themselves, whose digests a key
// takes in order, are bounded instead: 100,000 for each argument.
//
// Why does a budget end an evaluation by unknown values, not by a panic? Every
// enclosing node already knows how to pass an unknown on, so the work ends
// soon, and try cannot take the bound for an error of its argument.
//
// Why is a sub-workflow expanded, not run? A run inside of a run has a state of its
// own that can hang, be lost and disagree. Expanded, its steps are planned, kept
// and resumed like all others. Its variables and outputs are locals, which count in
// identities by what they stand for, so a step that moves into one keeps its own.
//
// Why is a sub-workflow with for_each one set of steps with instances, and not one
// set for each element? What is above and below a step is known before its
// elements are. Its address has [*] where they stand, so that nobody has to guess
// whose key an address holds.
//
// Why has a step the loops of all sub-workflows around it and no steps of its own for
// each? For the same reason, one level after the other: a reference says how many keys
// both have in common, an each of which loop it is, and the rest follows from that.
//
// Why may such a local name each, though no other may? It is what an instance's
// input gives to a variable. It is evaluated anew for each instance, and what it
// names of each counts where the local is named.
//
// Why does a test answer for steps and not replace their outputs? An answer goes
// the way of every other: it is checked, retried, stored. What a test shows is what
// the flow does with it.
//
// Why must the path of file() be known before the run? What a step reads is part
// of its identity, and the identity is made before anything has run.
package hcl
