//go:build linux

// Command burn uses as much of a processor as the file /load/milli says, or the one that is its
// argument, in thousandths of one. As "burn check" it is a health check that fails while the file
// /load/sick is there. As "burn work" it does the jobs of the queue at the socket /load/queue, one
// after the other: a line has the microseconds of processor time that one takes.
package main

import (
	"bufio"
	"fmt"
	"net"
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
	switch file {
	case "check":
		if _, err := os.Stat("/load/sick"); err == nil {
			os.Exit(1)
		}
		return
	case "work":
		work()
		os.Exit(1) // there is no queue, or none any more
	}
	for {
		next := time.Now().Add(slice)
		text, _ := os.ReadFile(file)
		milli, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		share := slice * time.Duration(min(milli, most)) / 1000
		if share == 0 {
			next = next.Add(rest - slice)
		}
		burn(share)
		time.Sleep(time.Until(next))
	}
}

func burn(share time.Duration) {
	for began := used(); used()-began < share; {
	}
}

func work() {
	conn, err := net.Dial("unix", "/load/queue")
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		micro, _ := strconv.Atoi(lines.Text())
		burn(time.Duration(micro) * time.Microsecond)
		if _, err := fmt.Fprintln(conn, "done"); err != nil {
			return
		}
	}
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
