package limit

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// bells is a pool of idle ones.
var bells = sync.Pool{New: func() any { return newBell() }}

// bell is an eventfd that one goroutine both signals and waits for.
type bell struct {
	file *os.File // keeps it open, which conn alone does not
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

// yield lets goroutines run whose connections have something to read.
//
// Go's scheduler polls connections only when it has nothing else to run, or every 10 ms.
// While calls keep it busy, their own bodies stay unread, and requests to be refused wait as
// long as admitted ones. A goroutine that waits for its own file, which it has made readable
// itself, continues after the scheduler has polled, which runtime.Gosched does not cause; it
// then lets the other goroutines go first that the poll has found.
func yield() {
	b, _ := bells.Get().(*bell)
	if b == nil {
		return // there are no more file descriptors
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
