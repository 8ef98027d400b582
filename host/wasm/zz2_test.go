package wasm

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
)

func nested(n int) []byte {
	body := []byte{0}
	body = append(body, bytes.Repeat([]byte{2, 0x40}, n)...)
	body = append(body, bytes.Repeat([]byte{0x0b}, n+1)...)
	return wrap(body)
}
func nestedTable(n int) []byte {
	body := []byte{0}
	body = append(body, bytes.Repeat([]byte{2, 0x40}, n)...)
	body = append(body, 0x41, 0, 0x0e)
	body = appendU32(body, uint32(n-1))
	for i := 0; i < n; i++ {
		body = appendU32(body, uint32(i))
	}
	for i := 0; i < n; i++ {
		body = append(body, 0x0b, 0x41, 0, 0x21, 0)
	}
	body[0] = 1
	body = append([]byte{1, 1, 0x7f}, body[1:]...)
	return wrap(append(body, 0x0b))
}
func straight(n int) []byte {
	body := []byte{1, 1, 0x7f}
	body = append(body, bytes.Repeat([]byte{0x20, 0, 0x41, 1, 0x6a, 0x21, 0}, n)...)
	return wrap(append(body, 0x0b))
}
func loops(n, l int) []byte {
	body := append([]byte{1}, appendU32(nil, uint32(l))...)
	body = append(body, 0x7f)
	for i := 0; i < n; i++ {
		body = append(body, 3, 0x40, 0x20, 0, 0x0d, 0, 0x0b)
		body = append(body, 0x20)
		body = appendU32(body, uint32(i%l))
		body = append(body, 0x21)
		body = appendU32(body, uint32((i*7)%l))
	}
	return wrap(append(body, 0x0b))
}
func blocks(n, l int) []byte {
	body := append([]byte{1}, appendU32(nil, uint32(l))...)
	body = append(body, 0x7f)
	for i := 0; i < n; i++ {
		body = append(body, 2, 0x40, 0x20, 0, 0x0d, 0)
		body = append(body, 0x20)
		body = appendU32(body, uint32(i%l))
		body = append(body, 0x21)
		body = appendU32(body, uint32((i*7)%l))
		body = append(body, 0x0b)
	}
	return wrap(append(body, 0x0b))
}
func ifs(n, l int) []byte {
	body := append([]byte{1}, appendU32(nil, uint32(l))...)
	body = append(body, 0x7f)
	for i := 0; i < n; i++ {
		for j := 0; j < 8; j++ {
			body = append(body, 0x20)
			body = appendU32(body, uint32((i+j)%l))
		}
		body = append(body, 0x6a, 0x6a, 0x6a, 0x6a, 0x6a, 0x6a, 0x6a, 4, 0x40)
		body = append(body, 0x20)
		body = appendU32(body, uint32(i%l))
		body = append(body, 0x21)
		body = appendU32(body, uint32((i*7)%l))
		body = append(body, 5)
		body = append(body, 0x41, 3, 0x21)
		body = appendU32(body, uint32((i*3)%l))
		body = append(body, 0x0b)
	}
	return wrap(append(body, 0x0b))
}
func wrap(body []byte) []byte {
	b := []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x03\x01\x00\x01\x07\x0a\x01\x06_start\x00\x00")
	sec := append([]byte{1}, appendU32(nil, uint32(len(body)))...)
	sec = append(sec, body...)
	b = append(b, 10)
	b = appendU32(b, uint32(len(sec)))
	return append(b, sec...)
}
func TestZZ2(t *testing.T) {
	try := func(name string, b []byte) {
		m, err := parseModule(b)
		if err != nil {
			fmt.Println(name, err)
			return
		}
		t0 := time.Now()
		err = m.validate(context.Background())
		t1 := time.Now()
		code := m.meter()
		t2 := time.Now()
		var ms0, ms runtime.MemStats
		runtime.ReadMemStats(&ms0)
		p, err := m.compile(context.Background(), code, nil)
		t3 := time.Now()
		runtime.ReadMemStats(&ms)
		fmt.Println(name, len(b), "validate", t1.Sub(t0), "meter", t2.Sub(t1), "compile", t3.Sub(t2), "MB", (ms.TotalAlloc-ms0.TotalAlloc)>>20, err)
		if p != nil {
			p.close()
		}
	}
	for _, c := range [][2]int{{5000, 20}, {5000, 200}, {5000, 1000}, {5000, 4900}} {
		try(fmt.Sprint("blocks", c), blocks(c[0], c[1]))
		try(fmt.Sprint("ifs", c), ifs(c[0], c[1]))
	}
	for _, c := range [][2]int{{1000, 20}, {1000, 100}, {500, 20}, {200, 4900}} {
		try(fmt.Sprint("loops", c), loops(c[0], c[1]))
	}
}
