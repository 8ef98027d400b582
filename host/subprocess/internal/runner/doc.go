// Package runner is the parent of a native plugin: a process that kills every
// descendant of the plugin when the plugin ends or the engine is gone. It is the
// engine's executable again.
//
// # Design
//
// Why does a program that was started as a runner become one in init, and not in
// main? Most of the time that the engine takes to start goes into the packages it
// links, which are initialised first. Go initialises what is ready in the order of
// import paths, so a package that needs little comes before nearly all of that. The
// order decides about the speed alone.
package runner
