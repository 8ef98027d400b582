// Package wasm carries steps that are Wasm modules: it reads and checks a
// module, compiles it once, and gives every attempt a fresh instance that can
// neither outlive its deadline nor exceed its limits.
//
// It knows no grants, secrets or flows: what an attempt may do in the world is
// behind the sdk.Host it is given. wazero does not leave this package.
//
// The way of a module: parse (the pre-scan: every section and instruction,
// bounded by the module's length) → validate (wazero's interpreter compiles it
// as written) → meter (rewrite) → compile → program. The way of an attempt:
// step.Run → program.run → the guest → judge.
//
// # Design
//
// Why a pre-scan before wazero sees the module? wazero allocates for counts it
// has read and compiles before it limits: a module of 16 bytes makes it ask for
// tens of gigabytes, and running out of memory cannot be caught. The scan
// refuses such a module in microseconds, and explains what it refuses (a
// component, threads, emscripten's imports) where wazero could only say that a
// byte is unexpected.
//
// Why may blocks nest 4,096 deep? Go's compiler makes one block for each target of
// a function's jump table: those of net/http nest 1,100 deep, and 512 would refuse
// them. Depth alone is cheap; what is not, branches times locals, has bounds of
// its own.
//
// Why metering instead of wazero's WithCloseOnContextDone? Its check makes a
// tight loop an order of magnitude slower, and it stops neither recursion nor a
// bulk operation; a guest that computes also holds up Go's garbage collector.
// Metered code charges a global at function entries and loop headers and calls
// back every million units, about a millisecond. The attempt's context is
// looked at there and at every host call; nothing else can stop a guest, so
// guests run under a context that never ends.
//
// Why is every instruction decoded and an unknown one refused? What the
// rewriter does not understand it cannot charge for. For the same reason an
// index that is not declared is refused here and not left to the validator:
// after rewriting it could name the meter's own global.
//
// Why is the module validated as written and again as rewritten? Some invalid
// modules become valid by rewriting; which modules run must not depend on it.
//
// Why are data segments joined? Go's linker leaves zeros out, 47,000 times in a
// module of 5 MB, and wazero evaluates an expression for each of the pieces in
// every instance: that was nine tenths of what a fresh instance of it cost.
//
// Why is a call depth counted? The compiler's own stack limit is met only after
// growing the stack to some 160 MiB outside of every memory limit. It is counted in
// the global that is charged, above and below: a call adds to both at once and looks
// at both at once (BenchmarkMetering).
//
// Why is call depth a plugin_crash and a memory limit resource_exhausted? A
// stack overflow is a bug of the step in every other carrier too. A guest that
// is refused memory may cope; only if it dies of it is the limit the cause.
//
// Why do steps without effects get their own clock and randomness? Their output
// is reused by content, so an attempt has to give what the one before would
// have given. Both follow from the idempotency key. Such a step's sleep moves
// its clock and does not wait.
//
// Why may sockets of preview 1 be imported and not be opened? Go's net package
// links sock_accept into programs that never call it. Nothing here can make a
// socket, and the four functions answer ENOTSUP; functions of other runtimes
// that open sockets are refused by name.
//
// Why is usage of a failed response passed on as an operation? A failed attempt
// returns an error and no response, and its tokens were spent all the same.
//
// Why are modules compiled in a process of their own? Some take the compiler
// minutes or gigabytes, and neither can be stopped from within. The pre-scan
// refuses what is known to be so; a worker (loader.Workers) that is killed beyond
// its limits ends the rest. A program that cannot be its own worker compiles in
// its own process and has the pre-scan alone.
//
// Who is trusted with the cache? Who compiled is not: this package takes the sum
// of what a worker has left, beside the entry and in memory, and compares it
// before each use. Against one who can write into the cache directory and was
// there before this process nothing helps but the directory's mode.
//
// Why is an entry named after the processor's features? wazero compiles for
// them, and on another machine that shares the directory the code might end with
// an illegal instruction.
//
// Why does a worker that runs attempts load and not compile? It has given up
// every file by the time it could, and what it would compile nobody has checked.
//
// Why is a command without a manifest a raw program? Most programs know nothing of
// this engine, and one that does can say so: its manifest is a line.
//
// Why one file system for all, made here, and none of wazero's? wazero's follow
// links out of the directory, or cannot write. Ours goes through os.Root, counts
// what is opened, made and written, and shows neither links nor devices: what a
// directory's digest covers is what a step can see. What an attempt without effects
// sees of a file follows from its name and content alone, so times are fixed.
//
// Why are descriptors, bytes and files limits that end the attempt? A program that
// is told "no" by an errno goes on; a scheduler that is told resource_exhausted
// knows that trying again is useless.
//
// Why does the scratch directory lie on disk and is made late? Programs use it for
// what does not fit into memory, and most steps never do.
package wasm
