package sdk

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkMessages is what the bytes of an attempt cost on either end, beside the
// decoding of the input into a struct, which is the step's.
func BenchmarkMessages(b *testing.B) {
	for name, input := range map[string]string{
		"text":    `{"text":"` + strings.Repeat("x", 1<<20) + `"}`,
		"objects": `{"list":[` + strings.Repeat(`{"name":"Ada","age":36,"tags":["a","b"]},`, 25000) + `1]}`,
	} {
		req := &Request{V: 1, Input: []byte(input), Config: []byte(`{}`)}
		text, err := Marshal(req)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("read/%s", name), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Unmarshal(text, &Request{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("write/%s", name), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Marshal(req); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("input/%s", name), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				var in struct{ Text string }
				if err := Unmarshal(req.Input, &in); err != nil {
					b.Fatal(err)
				}
				if _, err := Output(in.Text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
