// Package operation is the host's side of a step's one door: it makes a Host
// for each attempt, which reads operation messages, counts them and does what
// they ask.
//
// A Host acts with what its own attempt was given: Grants (hosts and bound
// secrets), a Network, Blobs, a Sink for what is reported, and the deadline of
// the context of each call. Without a Network, http is answered with
// unsupported_op, as is every operation it does not know; without Blobs, the
// blob operations are. Carriers (host/wasm, host/subprocess) only pass messages
// on. Which flow grants what is package host's to decide.
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
//
// Why is a request allowed by its URL and guarded again at the dial? The URL
// says whom the flow trusts; only the dial knows the address that a name stands
// for at that moment. A name reaches public addresses alone, so that whoever
// answers for it in DNS cannot turn it to the inside; an address, a range or
// localhost, written out in the flow, reaches what it says. What clouds keep for
// the machine itself is never dialled.
//
// Why does the guard not need the rule that let the request through? What may
// be dialled follows from the host in the URL: a name is public, localhost the
// loopback, an address itself. So attempts with different rules can share
// connections.
//
// Why HTTP/1.1 only? net/http sends some requests a second time when a
// connection breaks. Over HTTP/1.1 it can be kept from that (see once); one
// operation must be one request, since the scheduler alone decides on retries,
// and a POST to a model costs money.
//
// Why no redirects, no cookies, no proxy of the environment? Each takes a
// request, or what is in it, to where the flow did not send it. A redirect's
// target is in the reply; the step may ask for it if it is allowed.
//
// Why is a secret a field and not a placeholder in a string? Replacing inside
// strings lets a step move the value to where it can read it: into the path, a
// body, another header. A header that the host sets goes one way.
//
// Why are replies searched for secrets? Servers echo what they are sent, debug
// endpoints on purpose. A reply in an encoding that cannot be unpacked cannot
// be searched either and is refused.
package operation
