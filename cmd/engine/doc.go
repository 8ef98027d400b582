// Command engine runs workflows written in HCL.
//
// It is the composition root: it builds the parts (loaders, store, host), hands
// them to each other, and shows what happens. One file per verb; each parses its
// flags into a struct, calls the host and hands the result to a view. Views for
// people and for machines read the same events.
//
// # The way of one step
//
// From flow.hcl to its checkpoint, read forward; a test looks every name up.
//
//   - hcl.Load reads and checks the text, hcl.Workflow.Bind gives its variables values,
//     host.Compile gives its steps plugins, effects and grants.
//   - host.Host.Apply runs it. host.Host.prepare chooses the run and keys the steps
//     (hcl.Evaluator.Identity, host.session.define), asks recovery.NewPlan what must run
//     for a reason, and reads what earlier attempts left behind (host.session.resume).
//   - host.machine.Apply turns each event into commands; host.run.drive carries them out,
//     and host.run.do is a worker's turn with one of them.
//   - host.run.decide evaluates the step's condition and asks, in host.run.lookUp,
//     recovery.Plan.Resolve whether an answer is there; the input is evaluated on the way
//     (hcl.Evaluator.Input). host.run.mayStart sees whether its effect has happened.
//   - host.run.admit waits for its turn, host.run.ready has its plugin loaded,
//     host.run.attemptStep makes the attempt.
//   - host.run.carryOut gives the request to the carrier, host/wasm.step.Run or
//     host/subprocess.step.Run, and what the step asks of the host meanwhile to
//     host/operation.Host.Call.
//   - host.run.judge looks at the answer, checkpoint.Sanitizer.Sanitize takes out what is
//     not to be kept, host.run.put makes the record, and
//     checkpoint/pebblestore.Store.Commit keeps it; the machine hears when it is durable.
//   - host.run.finish waits for that and evaluates the outputs.
//
// # Design
//
// Why is stdout only the result? So that `engine apply | jq` and `> file` work:
// the story of a run goes to stderr.
//
// Why a pass over the arguments before cobra? People who come from Terraform
// type -var and -json. Long flags with one dash are turned into two where they
// are known; there are no grouped shorthands that this could break.
//
// Why is a run's journal a file of its own beside the store? One process has
// the store open. `runs`, `show` and `output` read the journal, so they work
// while a run goes on, and after a crash.
package main
