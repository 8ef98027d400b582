//go:build wasip1

// Command goreactor is a step in Go without the SDK: the whole contract of a
// reactor by hand. It counts the words of a text.
package main

import (
	"encoding/json"
	"strings"
	"unsafe"
)

//go:wasmimport engine_v1 read
func hostRead(to unsafe.Pointer)

//go:wasmimport engine_v1 write
func hostWrite(from unsafe.Pointer, n uint32)

//go:wasmimport engine_v1 call
func hostCall(from unsafe.Pointer, n uint32) uint32

type word struct {
	Word  string `json:"word"`
	Count int    `json:"count"`
}

type failure struct {
	Class   string `json:"class"`
	Message string `json:"message"`
	Path    string `json:"path"`
}

//go:wasmexport step_run
func stepRun(n uint32) {
	message := make([]byte, n)
	hostRead(unsafe.Pointer(unsafe.SliceData(message)))
	var request struct {
		Input struct {
			Text  *string `json:"text"`
			Least *int    `json:"least"`
		} `json:"input"`
	}
	switch err := json.Unmarshal(message, &request); {
	case err != nil:
		respond(map[string]any{"error": failure{"invalid_input", err.Error(), ""}})
	case request.Input.Text == nil:
		respond(map[string]any{"error": failure{"invalid_input", "want a string", "/text"}})
	case request.Input.Least != nil && *request.Input.Least < 1:
		respond(map[string]any{"error": failure{"invalid_input", "want a whole number from 1", "/least"}})
	default:
		least := 1
		if request.Input.Least != nil {
			least = *request.Input.Least
		}
		respond(map[string]any{"output": count(*request.Input.Text, least)})
	}
}

func count(text string, least int) map[string]any {
	fields := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
	counts := map[string]int{}
	for _, f := range fields {
		counts[f]++
	}
	words := []word{}
	for _, f := range fields {
		if counts[f] >= least {
			words = append(words, word{f, counts[f]})
		}
		counts[f] = 0 // counted once
	}
	say := []byte(`{"op":"log","level":"info","message":"the words are counted"}`)
	reply := make([]byte, hostCall(unsafe.Pointer(unsafe.SliceData(say)), uint32(len(say))))
	hostRead(unsafe.Pointer(unsafe.SliceData(reply))) // {"ok":{}}
	return map[string]any{"total": len(fields), "words": words}
}

func respond(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	hostWrite(unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b)))
}

func main() {}
