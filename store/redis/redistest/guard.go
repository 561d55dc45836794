//go:build unix

package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// guard kills the servers and removes their files once this process is gone, even if it
// was killed. The servers form a process group. A shell outside of it waits for the end
// of a pipe whose other end is open in this process only, so the kernel closes it.
//
// Pdeathsig would be simpler, but only Linux has it, it follows the thread that forked
// rather than the process, and the files would remain.
type guard struct {
	dir   string   // parent of the servers' directories
	group int      // the servers' process group
	pipe  *os.File // never written to, open for as long as the process lives
}

// theGuard is the guard of this process.
var theGuard = sync.OnceValues(newGuard)

func newGuard() (*guard, error) {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// The group needs a leader that outlives every server: it exits when the pipe
	// closes.
	leader := exec.Command("cat")
	leader.Stdin = r
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := leader.Start(); err != nil {
		return nil, fmt.Errorf("leader of the servers' process group: %w", err)
	}
	group := leader.Process.Pid
	sweeper := exec.Command("sh", "-c", `cat; kill -s KILL -- "-$1"; rm -rf "$2"`, "sh", strconv.Itoa(group), dir)
	sweeper.Stdin = r
	// A group of its own keeps the terminal's interrupt away.
	sweeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := sweeper.Start(); err != nil {
		return nil, fmt.Errorf("shell that waits for this process to end: %w", err)
	}
	return &guard{dir: dir, group: group, pipe: w}, nil
}
