// Package still detects standstills of the machine: a host may take all processors from
// a virtual machine that it gives less than two whole ones. A measured program can't
// distinguish that from its own slowness, and the kernel's stolen time need not show it.
//
// One thread per processor, in a separate process with a higher priority than all
// others, repeatedly sleeps for a millisecond. When it wakes late, no other thread has
// run there either.
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
	// nap is how long a thread sleeps, and late how much longer counts as a standstill.
	// The kernel itself may delay threads by a millisecond.
	nap  = time.Millisecond
	late = 5 * time.Millisecond
	// priority is the lowest above all normal threads.
	priority = 1
)

// Serve watches until the context ends. It writes a line with 0 when it starts, and then
// one for each standstill, in nanoseconds. It fails without permission for the priority.
func Serve(ctx context.Context, out io.Writer) error {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return fmt.Errorf("find the processors: %w", err)
	}
	cpus := allowed.Count()
	runtime.GOMAXPROCS(cpus + 1) // so that no thread waits for another one's turn
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
