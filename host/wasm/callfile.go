package wasm

import (
	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// callFile is one open handle of /engine/call. All bytes written since the last
// reply are a request; the first read runs it and reads the reply to its end;
// the next write begins the next request.
type callFile struct {
	esys.UnimplementedFile
	attempt *attempt
	request []byte
	reply   []byte
	pos     int
	replied bool
}

var callStat = sys.Stat_t{Mode: 0o666, Nlink: 1}

func (c *callFile) IsDir() (bool, esys.Errno)      { return false, 0 }
func (c *callFile) IsAppend() bool                 { return false }
func (c *callFile) SetAppend(bool) esys.Errno      { return 0 }
func (c *callFile) Stat() (sys.Stat_t, esys.Errno) { return callStat, 0 }
func (c *callFile) Truncate(int64) esys.Errno      { return 0 }
func (c *callFile) Sync() esys.Errno               { return 0 }
func (c *callFile) Datasync() esys.Errno           { return 0 }

func (c *callFile) Write(b []byte) (int, esys.Errno) {
	if len(b) == 0 {
		return 0, 0
	}
	if n := int64(len(c.request) + len(b)); !c.replied && n > c.attempt.limits.Request {
		c.attempt.messageTooLarge(n)
	}
	if c.replied {
		c.request, c.reply, c.pos, c.replied = nil, nil, 0, false
	}
	c.request = append(c.request, b...)
	return len(b), 0
}

func (c *callFile) Read(b []byte) (int, esys.Errno) {
	if !c.replied {
		if len(c.request) == 0 {
			return 0, esys.EINVAL
		}
		c.run()
	}
	n := copy(b, c.reply[c.pos:])
	c.pos += n
	return n, 0
}

func (c *callFile) run() {
	c.reply = c.attempt.operate(c.request)
	c.request, c.replied = nil, true
}

// Seek to the start does nothing (C's fclose and Rust do it); any other is
// refused.
func (c *callFile) Seek(to offset, whence int) (int64, esys.Errno) {
	if to != 0 || whence != 0 {
		return 0, esys.EINVAL
	}
	return 0, 0
}

// Close runs a request that nobody has read the reply of.
func (c *callFile) Close() esys.Errno {
	if len(c.request) > 0 && !c.attempt.over {
		c.run()
	}
	return 0
}
