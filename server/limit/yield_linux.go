package limit

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// bells are the free ones.
var bells = sync.Pool{New: func() any { return newBell() }}

// bell is a file that one goroutine rings, and waits for.
type bell struct {
	file *os.File // which the connection does not keep open
	conn syscall.RawConn
}

func newBell() *bell {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), "bell")
	conn, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil
	}
	return &bell{file, conn}
}

// yield has the goroutines run first whose connections have something to read.
//
// Go's scheduler looks at connections only when it has nothing else to run, or every 10 ms.
// Where calls keep it busy their own bodies lie unread, and requests that are to be refused
// wait as long as those that are not. A goroutine that waits for a file of its own, which it
// has made readable itself, goes on when the scheduler has looked, which runtime.Gosched does
// not have it do; and then lets the others go first that it has found besides.
func yield() {
	b, _ := bells.Get().(*bell)
	if b == nil {
		return // there are no more files
	}
	rung := false
	err := b.conn.Read(func(fd uintptr) bool {
		var count [8]byte
		if !rung {
			rung = true
			count[0] = 1
			_, err := unix.Write(int(fd), count[:])
			return err != nil
		}
		_, err := unix.Read(int(fd), count[:])
		return err != unix.EAGAIN
	})
	if err == nil {
		bells.Put(b)
	}
	runtime.Gosched()
}
