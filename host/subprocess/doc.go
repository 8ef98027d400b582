// Package subprocess carries steps that are native executables: it starts a
// plugin's process, speaks sdk/wire with it, and sees to it that nothing of it
// is left when the plugin is closed or the engine dies.
//
// A native plugin is trusted code: it is not sandboxed, it only gets no more
// than it needs (an almost empty environment, no stdin, a private directory).
// What an attempt may do through the engine is behind the sdk.Host it is given.
// go-plugin does not leave this package and sdk/wire.
//
// A program that uses the package names its own executable in Options.Self; then
// each plugin runs under a runner, a re-exec of the program that kills every
// descendant of the plugin when the engine goes away. For what else it does in
// processes of its own it calls Worker first in its main function.
//
// It is also what starts processes for modules (loader.Workers): one that
// compiles, and those that run attempts. What is done in them is host/wasm's;
// here is that they are started, confined, given up and killed.
//
// # Design
//
// Why a runner process? When the engine is killed with SIGKILL it cannot clean
// up. A death signal reaches the plugin itself but not what it has started, and
// a process that has left its session is in no group that could be killed. The
// runner is a subreaper: all orphans of the plugin become its children. It holds
// one end of a pipe of the engine's, and when that closes it kills until nothing
// is left.
//
// Why always go-plugin's RunnerFunc? With its Cmd the plugin inherits the
// engine's stdin, sockets land in a directory that others can list, and a
// plugin that prints a long line after its handshake hangs. The runner here
// hands over the first line of stdout and drains the rest.
//
// Why is the tree killed before Client.Kill? Client.Kill first asks politely and
// waits; a stopped process never answers.
//
// Why does a plugin run from a private copy? The file is hashed while it is
// copied. What runs is what was hashed, whatever is written to the original
// later.
//
// Why one attempt at a time? Most authors think of one. A manifest that says
// "concurrent" lifts it; then a line on stderr belongs to nobody in particular
// and is logged by every attempt that runs.
//
// Why Landlock and seccomp? Under Landlock alone, sockets that exist and UDP stay
// within reach; under seccomp alone, files are all or nothing. The filter
// refuses what a worker does not need rather than allowing what it does: Go's
// runtime may want other calls in its next version, and an engine whose workers
// die of that helps nobody.
//
// Why no runner above a worker? It cannot start anything: the filter lets it make
// threads and no processes. A death signal is enough.
//
// Why does an error of a worker travel in the details of another? On the wire an
// error is a step's, which may not use the host's words; a worker has the words of
// a loader. An output travels as it is: wrapped, it would be read once more.
//
// Why does the time of a compile worker count by the processor? A machine with
// other work must not make a module unusable. The clock still ends it, later.
package subprocess
