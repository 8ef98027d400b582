// Package serve turns Go steps into a plugin. The same main function builds
// either kind:
//
//	func main() {
//		serve.Main(map[string]sdk.Step{"upper": sdk.Func(upper)})
//	}
//
//	GOOS=wasip1 GOARCH=wasm go build -ldflags="-s -w" -o upper.wasm .   # sandboxed
//	go build -o upper .                                                 # native
//
// The manifest is a file beside the result, upper.step.json; a plugin without
// one runs untyped, with the step type "run".
//
// # Design
//
// Why does a panic become an error of class internal on both carriers? It is a
// bug of the step, and it must not look different because the step was built
// another way. A panic on another goroutine cannot be caught: it ends the
// process, and the carrier reports how.
//
// Why does the wasip1 build import sdk alone? What is not there is not
// compiled, loaded and metered: gRPC would make a module several times larger.
package serve
