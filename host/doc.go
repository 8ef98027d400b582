// Package host runs workflows: it compiles a flow with its plugins, chooses the
// run, plans, and carries the plan out.
//
// The way of one step, read forward: Compile finds its plugin and policy;
// prepare (session.go) chooses the run, makes the step's keys and the plan;
// Apply gives the plan to a machine; the loop (loop.go) carries out the
// machine's commands; a worker decides the step and runs its attempt (work.go);
// the loop commits the record and tells the machine, whose next commands start
// what is below. finish evaluates the outputs when everything is durable.
//
// It is not the planner (package recovery decides what is reused), not a
// carrier (host/wasm, host/subprocess run third-party code behind host/loader),
// and not a store (package checkpoint).
//
// # Design
//
// Why is the machine a pure function? Everything that can go wrong in a
// scheduler is an order of events. Without clock, goroutines and I/O any order
// can be tried by a test, and another driver can run the same machine.
//
// Why does one worker decide a step and run its attempt in one turn? Deciding
// takes microseconds and its result, the evaluated input, is large. Doing it
// when the slot is taken keeps at most one input per slot in memory, however
// many steps are ready. Only an attempt that must wait for the disk is held in
// between.
//
// Why do steps below start before their upstream is durable? The store keeps a
// prefix of the commit order, so after a crash either both are there or the
// lower one is not. Only what leaves the process must wait: effects, outputs,
// the end of the run.
//
// Why is an attempt with effects held until its intent is durable? After a
// crash the intent alone says that the effect may have happened; a step that
// must happen once then stops for a person, one that may be repeated gets the
// same idempotency key.
//
// Why is the idempotency key made of step type and input, not of the content
// key? The content key holds the plugin's digest: a plugin rebuilt between a
// crash and the next apply would repeat the effect under another key.
//
// Why does an intent have the step's local key? A name may be another step's by
// the next run, or the step may have a for_each then. What may have happened
// follows what the step was: a step with the same effect waits for a person, or
// takes the key, if the one that has the name is not the same any more.
//
// Who is the heir of an effect that was cut off, where several do the same? One that
// makes the same attempt under the key it had, and no other: who shares a key with
// another does nothing. An instance is known by what it is given and its number among
// those that are given the same, wherever it stands by now; a step by its name. An
// attempt that nobody is known to take up goes to the first that comes, whose own key
// stays free for whom it was taken from.
//
// Why does a record say under which idempotency key its answer was given? A record
// may come to stand for another instance than the one that made it, when a collection
// is edited, and its own make another. By the key an intent is known to have ended
// whoever has its answer; and who has lost its answer to another does not act under
// the key of that answer again, which would do nothing.
//
// Why does an instance take the record or the cut-off attempt of another? What has
// been done to the world is counted, not owned: as many effects as there are instances
// that want them, each standing for one (TestEffectsOfEditedCollections). An instance
// prefers what it has made itself, then what its number names, then what nobody else
// among its own would.
//
// Why is a native plugin that takes one attempt at a time a limiter? Who waits for
// its process has not begun. If it had, its time would run, and after a crash its
// intent would say that the plugin may have seen it.
//
// Why are the intents of the whole chain of runs read, and not those of the run
// that is continued? A run with other targets, or after an edit, ends without
// the step; an unknown outcome must outlive it.
//
// Why are outputs read at the start, though most are not needed in memory? A
// damaged output must be known while the plan can still be made without it.
// One that is lost later fails the run, and the next apply plans without it.
//
// Why is `when` always asked before hard upstreams are judged, even if one of
// them was skipped? So that the reason a step was skipped for does not depend
// on which of its upstreams happened to end first.
//
// Why is a collection one node of the graph? What is above and below a step is
// known before its instances are. Planning stays linear in the steps as they
// are written, and a step below is decided by one digest, not by thousands.
// Instances exist in the run alone, behind the nodes of the steps.
//
// Why are the instances of loops in loops a tree, and not one collection of all pairs
// of keys? The inner elements may follow from the outer ones: all would have to be
// known before the first could run. So an outer instance is a collection itself, which
// is expanded and put together like a step, and what is below it in the same instance
// waits for that one alone.
//
// Why is such an inner collection stored, though it is never looked up? What is below
// reads it while the run goes on, and memory is bounded; a later run looks up the
// whole, or the instances.
//
// Why do instances not count what for_each names? It says which instances there
// are, not what one of them computes. If it counted, one new element would run
// all of them again. What an instance is given, the parts of `each` that it
// names, counts instead.
//
// Why is a record taken that another instance made in this very run ("moved"),
// though that of another step is not? A run that is continued after its
// collection was edited has its instances in other places. Equal instances are
// numbered, so no two of one run have the same key, and which ends first makes
// no difference. Two steps can have the same key.
//
// Why does a record of an instance with effects stand for one instance of a run?
// Collections are numbered each by itself, so instances that do the same in two of
// them have one key. A pure answer may be used twice; a payment that was made once
// has not been made for both.
//
// Why are equal elements numbered by what the instance names of all loops around it,
// and not their collections? A number that follows from the neighbours of the outer
// loop changes with them, and what did not change would run again.
//
// Why is the collection's record kept with data of its own, though its instances
// have theirs? What is below reads one value with one digest, after a restart
// too, without reading every instance; and retention may let go of instances
// that are never read again.
//
// Why is a record that is found while running read at once? Its step can still
// run if the data is lost. Later only the run could end, and the next one would
// end in the same place.
//
// Why has a collection of which one instance was asked for no result? Below it is one
// value, and one that lacks elements would be taken for a whole one by the next run.
// Its instances keep their records, so nothing runs twice.
//
// Why does the concurrency of a sub-workflow count instances, not attempts? Who
// writes it means how many of the things that are looped over are in work. An
// instance that waits for a step outside gives its place up: that step may need
// instances that have not begun.
//
// Why may fail_fast let running steps use their retries? They are paid for, and
// two steps that fail in the same moment must not take each other's tries away.
//
// Why are secrets made ready before an evaluation instead of in it? Reading a
// file can fail and running an action takes time and a context; an evaluation has
// neither. What an expression names is known from the text, so nothing is fetched
// that is not needed, and whether a step has to run at all is decided without
// secrets.
//
// Why does a step wait for a limiter before its attempt, in the machine? In the
// attempt it would hold a slot, its input and its timeout while others could run.
// The worker asks, and if the answer is no the step is as if it had not been
// started. What is asked inside of an attempt, by a check, waits there: its answer
// is paid for and held by nothing else.
//
// Why is a minute any minute, and not a bucket that fills? A full bucket and what
// flows in let twice as many through in the first minute, which is what a provider
// answers with 429.
//
// Why does a breaker only shorten the way to a fallback? Where nothing else can
// answer, the retry block says how long to try, and an attempt that was not made
// helps nobody. A server that says no is there, so only silence counts.
//
// Why is a replay keyed by content and not by step? A renamed step asked the same,
// and an edited prompt did not. The run has the id of the recorded one because
// run.id, and keys of results that belong to a chain of runs, are made of it.
//
// Why is an answer masked before it is checked and stored, and not only shown
// masked? Downstream, keys and records must see the same bytes, now and when the
// run is resumed.
package host
