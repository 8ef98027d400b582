// Package wire carries attempts between the host and a native plugin over
// hashicorp/go-plugin: both ends of one gRPC stream per attempt.
//
// Authors of Go plugins use sdk/serve. In another language a plugin serves
// engine.step.v1.Step (step.proto) and keeps to these rules:
//
//   - It starts only with ENGINE_PLUGIN=step in its environment, listens on a
//     Unix socket inside $PLUGIN_UNIX_SOCKET_DIR, and prints one line:
//     1|1|unix|PATH|grpc
//   - The first message of a stream is the REQUEST. The plugin may send CALLs
//     at any time until it sends the RESPONSE, which ends the attempt. Each
//     CALL has an id of its own, from 1; the REPLY has the same.
//   - After CANCEL it stops and sends any RESPONSE; it is killed some seconds
//     later otherwise.
//   - A frame holds at most 256 KiB; messages that are longer are continued.
//   - Serving plugin.GRPCController/Shutdown makes its end quick.
//
// The package does not start processes (host/subprocess) and knows no
// operations (host/operation).
//
// # Design
//
// Why frames and not one message per step? gRPC refuses messages over 4 MiB in
// every language unless both sides say otherwise. 256 KiB frames never meet
// that, and a small reply is not stuck behind a large one.
//
// Why is the payload JSON inside protobuf? The Wasm carrier's bytes are the
// same, so keys, limits and conformance are shared. The protobuf is only the
// envelope.
//
// Why a codec of our own for frames, when protobuf has one? A message of a MiB
// would be copied four times on its way and twice be put into fresh memory, which
// costs more than to send it. The codec lets the data lie where it is and copies
// once, into the message. The bytes are protobuf's.
//
// Why no larger flow control windows and buffers? An attempt is not faster with
// them, measured up to 1 MiB.
//
// Why no broker and no second service for operations? An operation that exists
// only inside a stream always has its attempt's grants, and a plugin in another
// language needs nothing but one bidirectional call.
//
// Why does a limit or a rule that is broken end the process and not only the
// attempt? A plugin that has lost count of its frames cannot be trusted with
// the next request. Broken says so to whoever owns the process.
package wire

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative step.proto
