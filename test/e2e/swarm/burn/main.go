//go:build linux

// Command burn uses as much of a processor as the file /load/milli says, or the one that is its
// argument, in thousandths of one. As "burn check" it is a health check that fails while the file
// /load/sick is there.
package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// slice is how often the share is used up, and rest how often an idle one looks: on a busy machine
	// looking alone uses some thousandths.
	slice = 50 * time.Millisecond
	rest  = 500 * time.Millisecond
	most  = 500 // thousandths; tests share their machine
)

func main() {
	file := "/load/milli"
	if len(os.Args) > 1 {
		file = os.Args[1]
	}
	if file == "check" {
		if _, err := os.Stat("/load/sick"); err == nil {
			os.Exit(1)
		}
		return
	}
	for {
		next := time.Now().Add(slice)
		text, _ := os.ReadFile(file)
		milli, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		share := slice * time.Duration(min(milli, most)) / 1000
		if share == 0 {
			next = next.Add(rest - slice)
		}
		for began := used(); used()-began < share; {
		}
		time.Sleep(time.Until(next))
	}
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
