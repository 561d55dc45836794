//go:build unix

package daemon

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// takes reports whether writing to a file need not wait, now or within some time.
func takes(file *os.File, within time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(file.Fd()), Events: unix.POLLOUT}}
	for end := time.Now().Add(within); ; {
		n, err := unix.Poll(fds, int(max(0, time.Until(end).Milliseconds())))
		if !errors.Is(err, unix.EINTR) {
			return n != 0 || err != nil // the write says what is wrong
		}
	}
}
