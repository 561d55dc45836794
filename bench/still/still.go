// Package still finds out when the machine stands still: when a virtual machine's
// processors are taken from it as a whole, as hosts do that give it less than two whole
// ones. Nothing that is measured within can tell that from its own slowness, and the
// kernel's count of stolen time need not show it.
//
// A thread for each processor, in a process of its own and before all others, sleeps for
// a millisecond over and over. Where it wakes late, no other has run there either.
package still

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// nap is how long a thread sleeps, and late how much longer is a standstill. What
	// the kernel itself does keeps threads waiting for a millisecond at times.
	nap  = time.Millisecond
	late = 5 * time.Millisecond
	// priority is the least of those that go before all usual threads.
	priority = 1
)

// Serve watches until the context ends. It writes a line with 0 as soon as it does, and
// then one for each standstill, in nanoseconds. It fails where it may not go before other
// threads.
func Serve(ctx context.Context, out io.Writer) error {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return fmt.Errorf("find the processors: %w", err)
	}
	cpus := allowed.Count()
	runtime.GOMAXPROCS(cpus + 1) // for no thread to wait for another's place
	var writing sync.Mutex
	write := func(stood time.Duration) error {
		writing.Lock()
		defer writing.Unlock()
		_, err := fmt.Fprintln(out, stood.Nanoseconds())
		return err
	}
	ready := make(chan error, cpus)
	for cpu, found := 0, 0; found < cpus; cpu++ {
		if allowed.IsSet(cpu) {
			found++
			go watch(cpu, ready, func(stood time.Duration) { _ = write(stood) })
		}
	}
	for range cpus {
		if err := <-ready; err != nil {
			return err
		}
	}
	if err := write(0); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func watch(cpu int, ready chan<- error, stood func(time.Duration)) {
	runtime.LockOSThread()
	var own unix.CPUSet
	own.Set(cpu)
	if err := unix.SchedSetaffinity(0, &own); err != nil {
		ready <- fmt.Errorf("stay on processor %d: %w", cpu, err)
		return
	}
	attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}
	if err := unix.SchedSetAttr(0, &attributes, 0); err != nil {
		ready <- fmt.Errorf("go before other threads: %w", err)
		return
	}
	ready <- nil
	for {
		began := time.Now()
		length := unix.NsecToTimespec(nap.Nanoseconds())
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &length, nil)
		if took := time.Since(began) - nap; took > late {
			stood(took)
		}
	}
}
