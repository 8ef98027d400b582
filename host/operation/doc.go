// Package operation is the host's side of a step's one door: it makes a Host
// for each attempt, which reads operation messages, counts them and does what
// they ask.
//
// It knows log, progress, emit, usage and respond. It has no network: http is
// answered with unsupported_op, as is every operation it does not know. What
// is reported goes to a Sink, which the attempt's owner implements; carriers
// (host/wasm, host/subprocess) only pass messages on.
//
// # Design
//
// Why is a refusal a reply and a broken limit an error? A step can act on a
// refusal. A step that has used up its operations would go on asking, so the
// attempt ends.
//
// Why are log lines counted apart and dropped instead of ending the attempt?
// Carriers send each line of stderr as a log operation. A chatty library must
// not cost a step its operations, nor its life; the run's log says that lines
// are missing.
//
// Why does usage live here and not in the response alone? Tokens are spent
// whether or not the attempt ends well; what was reported stays readable after
// a timeout or crash.
package operation
