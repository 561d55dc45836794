package load

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ticker ticks with the precision of the kernel's timers. Go's timers are up to a
// millisecond late in an otherwise idle process: epoll waits for whole milliseconds.
type ticker struct {
	file   *os.File
	buffer [8]byte
}

func newTicker(interval time.Duration) (*ticker, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	every := unix.NsecToTimespec(interval.Nanoseconds())
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("set a timer: %w", err)
	}
	return &ticker{file: os.NewFile(uintptr(fd), "timer")}, nil
}

// wait waits for the next tick; missed ticks count as one.
func (t *ticker) wait() error {
	_, err := t.file.Read(t.buffer[:])
	return err
}

func (t *ticker) stop() { _ = t.file.Close() }
