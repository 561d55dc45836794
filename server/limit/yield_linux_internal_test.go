package limit

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// What a connection has to read is read before a call goes on that gives way, though the
// scheduler was not without work.
func TestYieldHasConnectionsReadFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	yield()                      // the first one makes the file
	const rounds, most = 200, 60 // now and then the reader does not wait yet
	early := 0
	for range rounds {
		reader, writer, err := os.Pipe()
		fatal.If(t, err)
		var read atomic.Bool
		waiting, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			close(waiting)
			var b [1]byte
			_, err := reader.Read(b[:])
			read.Store(err == nil)
		}()
		<-waiting
		runtime.Gosched() // it waits for the pipe now
		fd := int(writer.Fd())
		if _, err := unix.Write(fd, []byte{1}); err != nil {
			t.Fatal(err)
		}
		yield()
		if !read.Load() {
			early++
		}
		<-done
		_ = reader.Close()
		_ = writer.Close()
	}
	if early > most {
		t.Errorf("%d of %d times a call went on before what had come was read", early, rounds)
	}
}
