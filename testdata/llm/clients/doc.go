// Package clients proves that the fault server speaks as the providers do: their
// official Go clients talk to it. It is a module of its own, so that the engine
// depends on none of them.
package clients
